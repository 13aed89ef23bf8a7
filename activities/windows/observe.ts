import type { Lease, Node } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { READINESS_CONDITION } from '../../api/names.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { revisionOf } from '../../domain/common/revision.ts';
import { otherHolderOf } from '../../domain/leases/lease.ts';
import type { RebootAbility } from '../../domain/leases/nodeAgent.ts';
import {
  rebootWorkOf,
  type NotRebootableReason,
  notRebootableNodes,
} from '../../domain/windows/rebootNeeds.ts';
import type { PlannedStep } from '../../domain/windows/decideWindow.ts';
import { decideNodeStep, needsHeartbeat, needsReadinessGates } from '../../domain/windows/nodeStep.ts';
import { type NodeObjects, nodeStepInput, type StepContext } from '../../domain/windows/nodeStepInput.ts';
import { decidePhase, type WindowPhase } from '../../domain/windows/openWindow.ts';
import { possibleJobRef, windowMaintenancesOf, workTypeOf } from '../../domain/windows/windowMaintenance.ts';
import type { WaitingSince } from '../../domain/windows/windowState.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { nodeLeaseOf } from '../../kube/cluster.ts';
import { errorMessage, isKubeError } from '../../kube/errors.ts';
import { kubeletLease } from '../../kube/kubeletLease.ts';
import { cachedWorkJob } from '../../kube/windowObjects.ts';
import type { WindowRequests } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { isMissingReadinessTaint } from '../readiness/readinessTaint.ts';
import type { RunningAgents } from './runningAgents.ts';

const maxConcurrentReads = 8;

/** A node of the window that has a NodeMaintenance, and its next step. */
export interface ObservedStep extends PlannedStep, NodeObjects {
  /** The message of the apiserver, if it did not let the worker read what the step depends on. */
  rejection?: string;
}

/** Everything that one pass over an open window is based on. */
export interface WindowObservation {
  window: MaintenanceWindow;
  phase: WindowPhase;
  /** The nodes that the window selects. */
  nodes: readonly Node[];
  /** The window runs a Job, and the worker may not create Jobs. */
  areJobsMissing: boolean;
  /** Nodes that the window would reboot, and that have no agent which does so. */
  notRebootable: ReadonlyMap<string, NotRebootableReason>;
  steps: readonly ObservedStep[];
}

/** The state that an activity keeps between its passes. */
interface Memory {
  waitingSince: WaitingSince;
  runningAgents: RunningAgents;
}

export async function observeWindow(
  deps: Deps,
  window: MaintenanceWindow,
  requests: Pick<WindowRequests, 'cancelled' | 'ended' | 'end'>,
  { waitingSince, runningAgents }: Memory,
): Promise<WindowObservation> {
  const { nodes, maintenances, kube } = deps.cluster;
  const phase = decidePhase(window, requests, kube.now().getTime());
  const own = windowMaintenancesOf(window.metadata.name, maintenances.list());
  const { type } = window.spec.work;
  const works = new Set([type, ...own.map(({ maintenance }) => workTypeOf(maintenance))]);
  // Other windows need no permission, and no agents.
  const mayRunJobs = works.has('Job') && (await deps.mayRunJobs());
  const agents = works.has('Reboot')
    ? await runningAgents.rebootAbilities()
    : new Map<string, RebootAbility>();
  const state = { policy: phase.policy, mayRunJobs, agents };
  const steps = await observeSteps(deps, window, state, waitingSince);
  const selected = nodes.list().filter((node) => selectsNode(window.spec.nodeSelector, node));
  const areJobsMissing = type === 'Job' && !mayRunJobs;
  return {
    window,
    phase,
    nodes: selected,
    areJobsMissing,
    notRebootable: type === 'Reboot' ? notRebootableNodes(selected, agents) : new Map(),
    steps,
  };
}

/** Returns the next step of every node that has a NodeMaintenance of the window, in the order of their names. */
async function observeSteps(
  deps: Deps,
  window: MaintenanceWindow,
  {
    agents,
    ...state
  }: Pick<StepContext, 'policy' | 'mayRunJobs'> & { agents: ReadonlyMap<string, RebootAbility> },
  waitingSince: WaitingSince,
): Promise<ObservedStep[]> {
  const observed = observeObjects(deps, window.metadata.name, waitingSince);
  const heartbeats = await readHeartbeats(
    deps,
    observed.flatMap(({ windowMaintenance: { node, maintenance }, job }) =>
      needsHeartbeat({ maintenance, job }) ? node : [],
    ),
  );
  const context = {
    revision: revisionOf(window.spec),
    ...state,
    reboot: rebootWorkOf(window.spec.work),
    readyTimeoutSeconds: window.spec.rollout.readyTimeoutSeconds,
    openedAtMs: Date.parse(window.status?.active?.start ?? ''),
    nowMs: deps.cluster.kube.now().getTime(),
  };
  return observed.map((objects) => {
    const heartbeat = heartbeats.get(objects.windowMaintenance.node);
    if (heartbeat?.kind === 'Rejected') {
      const { message } = heartbeat;
      return { ...objects, step: { kind: 'Wait', message }, rejection: message };
    }
    const agent = agents.get(objects.windowMaintenance.node);
    const input = nodeStepInput({ ...objects, agent, kubeletLease: heartbeat?.lease }, context);
    return { ...objects, step: decideNodeStep(input) };
  });
}

function observeObjects(deps: Deps, window: string, waitingSince: WaitingSince): NodeObjects[] {
  const { cluster, leases } = deps;
  const nowMs = cluster.kube.now().getTime();
  return windowMaintenancesOf(window, cluster.maintenances.list()).map((windowMaintenance) => {
    const { maintenance } = windowMaintenance;
    const found = cluster.nodes.get(windowMaintenance.node);
    // Nobody updates the condition of readiness gates that are disabled.
    const node = found && !deps.readinessGatesEnabled ? withoutCondition(found, READINESS_CONDITION) : found;
    const lease = nodeLeaseOf(cluster, windowMaintenance.node);
    return {
      windowMaintenance,
      node,
      job: cachedWorkJob(cluster, possibleJobRef(maintenance)),
      isMissingReadinessTaint:
        needsReadinessGates(maintenance) && node !== undefined && isMissingReadinessTaint(deps, node),
      leaseHolder: otherHolderOf(lease, leases.holder, nowMs),
      waitingSince: waitingSince[maintenance.metadata.uid ?? ''],
    };
  });
}

/** `lease` is undefined for a kubelet without a Lease. */
type Heartbeat = { kind: 'Read'; lease: Lease | undefined } | { kind: 'Rejected'; message: string };

/** Reads the last heartbeats of kubelets. A rejected read concerns one node: the others continue. */
async function readHeartbeats({ cluster }: Deps, nodes: readonly string[]): Promise<Map<string, Heartbeat>> {
  const heartbeats = new Map<string, Heartbeat>();
  await forEachBounded(maxConcurrentReads, nodes, async (node) => {
    try {
      heartbeats.set(node, { kind: 'Read', lease: await kubeletLease(cluster.kube, node) });
    } catch (error) {
      if (!isKubeError(error, 'Forbidden')) throw error;
      heartbeats.set(node, { kind: 'Rejected', message: errorMessage(error) });
    }
  });
  return heartbeats;
}

function withoutCondition(node: Node, condition: string): Node {
  const { conditions = [] } = node.status ?? {};
  return {
    ...node,
    status: { ...node.status, conditions: conditions.filter(({ type }) => type !== condition) },
  };
}
