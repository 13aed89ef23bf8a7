import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../../api/core.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type {
  NodeReadinessGate,
  NodeReadinessStatus,
  ObservedNodeReadiness,
} from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { isCordoned } from '../../domain/common/cordon.ts';
import { holdsNode } from '../../domain/common/nodePermission.ts';
import { holdsNodes, stageOf } from '../../domain/common/stage.ts';
import {
  decideReadiness,
  gatesOf,
  isEvaluated,
  type ReadinessDecision,
  type ReadinessInput,
  type ReadinessTiming,
} from '../../domain/readiness/gates.ts';
import { byNode, type FencedCluster } from '../../kube/cluster.ts';
import { isFailedTest, isKubeError } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { isAdoptedBy, isLabelledWithoutNode, isOfPreviousNode } from './nodeOwner.ts';
import type { NodeState, NodeStates } from './nodeStates.ts';
import type { PolicyAuthority } from './policyAuthority.ts';
import { hasOtherManagersTaint, isTainted, taintsWith } from './readinessTaint.ts';

export interface TaintReconcilerOptions {
  cluster: FencedCluster;
  authority: PolicyAuthority;
  timing: ReadinessTiming;
  events: EventRecorder;
  log: Log;
  states: NodeStates;
  /** Names of the nodes whose status is to be written. */
  statusQueue: WorkQueue;
}

/** The minimum time between two status writes of one node; the taint does not wait for it. */
const statusIntervalMs = 1_000;
/** The retry after a conflict, in case the informers do not show the change that caused it. */
const conflictRetryMs = 1_000;
/** Timers cannot exceed 24 days. */
const maxRequeueMs = 3_600_000;

/** Adds and removes the readiness taint of a node, and decides the status that `StatusReconciler` writes. */
export class TaintReconciler {
  readonly #options: TaintReconcilerOptions;
  #patchesInFlight = 0;

  constructor(options: TaintReconcilerOptions) {
    this.#options = options;
  }

  get patchesInFlight(): number {
    return this.#patchesInFlight;
  }

  async reconcileTaint(name: string): Promise<Requeue | void> {
    const { cluster, authority, states, statusQueue } = this.#options;
    const selected = cluster.nodes.get(name);
    const policies = selected && (await authority.policiesFor(selected, cluster.readinessPolicies.list()));
    const node = cluster.nodes.get(name);
    // Other policies may select it now.
    if (node !== undefined && !isDeepStrictEqual(node.metadata.labels, selected?.metadata.labels))
      return this.reconcileTaint(name);
    if (node === undefined || policies === undefined) {
      states.delete(name);
      const left = cluster.readinesses.get(name);
      if (left !== undefined && isLabelledWithoutNode(left)) statusQueue.add(name);
      return undefined;
    }
    const found = cluster.readinesses.get(name);
    const readiness = isOfPreviousNode(found, node) ? undefined : found;
    const requeue = await this.#reconcile(node, readiness, gatesOfNode(node, found, policies));
    if (!isAdoptedBy(readiness, node)) statusQueue.add(name);
    return requeue;
  }

  async #reconcile(
    node: Node,
    readiness: ObservedNodeReadiness | undefined,
    gates: readonly NodeReadinessGate[],
  ): Promise<Requeue | void> {
    const { states, statusQueue, timing } = this.#options;
    const state = states.of(node, readiness);
    const input = this.#inputFor(node, gates, readiness?.metadata.generation ?? 0);
    const decision = decideReadiness(input, state.status, timing);
    state.gates = gates;
    const mayPatch = input.isTainted || !hasOtherManagersTaint(node);
    if (
      mayPatch &&
      input.isTainted !== decision.wantsTaint &&
      !(await this.#patchTaint(node, state, decision))
    )
      return { requeueAfterMs: conflictRetryMs };
    // Only after the patch: the status never reports a node as ready while its taint still exists.
    state.status = decision.status;
    statusQueue.addAfter(node.metadata.name, state.statusWrittenAtMs + statusIntervalMs - performance.now());
    const { changesAtMs } = decision;
    return changesAtMs === undefined
      ? undefined
      : { requeueAfterMs: Math.min(changesAtMs - input.now, maxRequeueMs) };
  }

  #inputFor(node: Node, gates: readonly NodeReadinessGate[], generation: number): ReadinessInput {
    const { kube, pods, maintenances } = this.#options.cluster;
    const { name, creationTimestamp = '' } = node.metadata;
    const ready = node.status?.conditions?.find(({ type }) => type === 'Ready');
    const isMaintained = maintenances.list().some((one) => holdsNode(one, node));
    const now = kube.now().getTime();
    return {
      gates,
      pods: pods.byIndex(byNode, name),
      isTainted: isTainted(node),
      isUnderMaintenance: isCordoned(node) || isMaintained,
      createdAtMs: Date.parse(creationTimestamp) || 0,
      bootId: node.status?.nodeInfo?.bootID,
      nodeReadySinceMs: ready?.status === 'True' ? readySinceMs(ready.lastTransitionTime, now) : undefined,
      generation,
      now,
    };
  }

  /** Adds or removes the taint. Resolves with false if the node or its gates have changed since the decision. */
  async #patchTaint(
    node: Node,
    state: NodeState,
    { wantsTaint, status }: ReadinessDecision,
  ): Promise<boolean> {
    const { cluster, states } = this.#options;
    const { name, uid, labels = null } = node.metadata;
    if (!wantsTaint && !(await states.confirmGates(node, state))) return false;
    const { taints = null } = node.spec;
    // The tests cover the inputs of the decision and the taints of other field managers. The status changes too often to be tested.
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'test', path: '/metadata/labels', value: labels },
      { op: 'test', path: '/spec/taints', value: taints },
      { op: 'add', path: '/spec/taints', value: taintsWith(taints ?? [], wantsTaint) },
    ] as const;
    try {
      this.#patchesInFlight += 1;
      await cluster.kube.jsonPatch(resources.nodes, { name }, operations, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      if (!isFailedTest(error) && !isKubeError(error, 'NotFound', 'Conflict')) throw error;
      return false;
    } finally {
      this.#patchesInFlight -= 1;
    }
    this.#recordChange(node, wantsTaint, status);
    return true;
  }

  #recordChange(
    { metadata: { name, uid } }: Node,
    isTaintAdded: boolean,
    { conditions, blockedBy, gates }: NodeReadinessStatus,
  ): void {
    const { events, log } = this.#options;
    const message = conditions.find(({ type }) => type === 'Ready')?.message ?? '';
    const regarding = { apiVersion: 'v1', kind: 'Node', name, uid };
    if (isTaintAdded) {
      log.info('Readiness taint added to a node', { node: name, blockedBy });
      events.record(regarding, { type: 'Warning', reason: 'ReadinessTaintAdded', message });
    } else {
      log.info('Readiness taint removed from a node', { node: name, gates });
      events.record(regarding, { type: 'Normal', reason: 'ReadinessTaintRemoved', message });
    }
  }
}

function gatesOfNode(
  node: Node,
  readiness: ObservedNodeReadiness | undefined,
  policies: readonly NodeReadinessPolicy[],
): NodeReadinessGate[] {
  // A policy taints no node before its problems are published; a tainted node stays tainted.
  const effective = isTainted(node) ? policies : policies.filter(isEvaluated);
  return gatesOf(node, readiness?.spec.readinessGates ?? [], effective);
}

/** Reports whether the nodes of the maintenance are under maintenance: it is in stage Cordon or Drain. */
export function isInCordonOrDrain(maintenance: NodeMaintenance): boolean {
  return holdsNodes(stageOf(maintenance));
}

/** Clocks of nodes that are ahead by more than this say nothing. */
const maxClockSkewMs = 60_000;

/** The kubelet's clock may be ahead: it never gives a time that is still to come. */
function readySinceMs(time: string, now: number): number {
  const sinceMs = Date.parse(time) || 0;
  return sinceMs > now + maxClockSkewMs ? 0 : Math.min(sinceMs, now);
}
