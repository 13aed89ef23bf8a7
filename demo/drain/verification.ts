import type { Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { MAINTENANCE_FINALIZER, MAINTENANCE_GATE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { tierText } from '../../domain/drain/tiers.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { WorkflowRecord } from '../history.ts';
import {
  arrivalsRow,
  holdsRow,
  type Evictions,
  evacuationsRow,
  evictionsRow,
  orderRow,
  same,
  unschedulable,
} from '../verification.ts';
import { daemonSet } from '../manifests.ts';
import { appOf, hasToLeave, type Recording } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import {
  allLeavingPods,
  allReplicas,
  maintained,
  maintenanceName,
  nodeCount,
  tierCount,
  tiers,
  workloads,
} from './workloads.ts';

/** The objects at one moment. */
export interface Snapshot {
  nodes: readonly Node[];
  pods: readonly Pod[];
  evacuations: readonly Evacuation[];
  maintenance: NodeMaintenance | undefined;
}

export async function takeSnapshot(kube: Kube): Promise<Snapshot> {
  const [nodes, pods, evacuations, maintenance] = await Promise.all([
    kube.list(resources.nodes),
    kube.list(resources.pods),
    kube.list(resources.evacuations),
    kube.get(resources.nodeMaintenances, { name: maintenanceName }),
  ]);
  return {
    nodes: nodes.items,
    pods: pods.items.map(trimPod),
    evacuations: evacuations.items,
    maintenance,
  };
}

/** The input of the verification, which comes from the Kubernetes API and from Temporal. */
export interface Evidence {
  recording: Recording;
  evictions: Evictions;
  drained: Snapshot;
  uncordoned: Snapshot;
  workflow: WorkflowRecord;
  /** Identities of the workers in Temporal. */
  killedWorker: string;
  secondWorker: string;
}

export function verify(evidence: Evidence): Section[] {
  return [
    { title: 'During the drain', rows: drainRows(evidence) },
    { title: 'After the worker was killed', rows: crashRows(evidence) },
    { title: 'With the nodes drained', rows: drainedRows(evidence) },
    { title: 'With the nodes uncordoned', rows: uncordonedRows(evidence) },
  ];
}

function drainRows({ recording, evictions }: Evidence): Row[] {
  return [
    ...tiers.slice(1).map((_, index) => tierRow(recording, index)),
    evacuationsRow(recording, allLeavingPods + maintained.length),
    evictionsRow(evictions, allLeavingPods),
    budgetsRow(recording),
    arrivalsRow(recording),
  ];
}

/** Builds the fact about the tier at `index` and the next one. */
function tierRow(recording: Recording, index: number): Row {
  const [first = [], second = []] = [tiers[index], tiers[index + 1]].map((tier) =>
    tier?.workloads.map(({ name }) => name),
  );
  const fact = `Tier ${index + 2} started when the last pod of tier ${index + 1} was gone`;
  return orderRow(fact, { first, second }, recording);
}

/** Builds the fact that no workload had fewer available pods than the `minAvailable` of its budget. */
function budgetsRow(recording: Recording): Row {
  const actual = workloads.map((workload) => ({
    ...workload,
    fewest: recording.readiness(workload).fewest ?? 0,
  }));
  return {
    fact: 'No budget was violated: minimum of available pods',
    expected: actual.map(({ name, minAvailable }) => `${name} ≥ ${minAvailable}`).join(', '),
    actual: actual.map(({ name, fewest }) => `${name} ${fewest}`).join(', '),
    holds: actual.every(({ fewest, minAvailable }) => fewest >= minAvailable),
  };
}

function crashRows({ workflow, killedWorker, secondWorker }: Evidence): Row[] {
  return [
    same(
      'Another worker continued the same workflow',
      `${killedWorker}, then ${secondWorker}`,
      workflow.workers.join(', then '),
    ),
    {
      fact: 'It resumed the tier that was in progress',
      expected: `drain, by ${secondWorker}`,
      actual:
        workflow.resumed
          .map(({ activity, attempt, worker }) => `${activity}, by ${worker} (attempt ${attempt})`)
          .join('; ') || 'nothing was resumed',
      holds: workflow.resumed.some(({ activity, worker }) => activity === 'drain' && worker === secondWorker),
    },
    same(
      'Temporal has recorded the end of each tier once',
      [...tiers.map((_, index) => tierText({ number: index + 1, total: tierCount })), 'Drained'].join(', '),
      workflow.drainSteps
        .map((step) => (step.kind === 'TierDrained' && step.drained ? tierText(step.drained) : step.kind))
        .join(', '),
    ),
  ];
}

function drainedRows({ drained }: Evidence): Row[] {
  const { maintenance, nodes, pods, evacuations } = drained;
  const condition = maintenance?.status?.conditions.find(({ type }) => type === 'Drained');
  const onNodes = pods.filter(({ spec }) => maintained.includes(spec.nodeName ?? ''));
  const awaiting = pods.filter(({ spec }) => spec.schedulingGates?.includes(MAINTENANCE_GATE)).length;
  const ready = pods.filter(
    (pod) => pod.status.ready && isWorkloadPod(pod) && !hasToLeave(pod, maintained),
  ).length;
  return [
    same(
      'Condition Drained',
      'True, AllPodsTerminated',
      condition === undefined ? 'none' : `${condition.status}, ${condition.reason}`,
    ),
    same('No pod is left on the nodes', '0', String(onNodes.length)),
    same(
      `Pods of ${daemonSet.name} that are gated until the end`,
      String(maintained.length),
      String(awaiting),
    ),
    same(
      'Every Deployment has all its pods on the other nodes',
      `${allReplicas} pods ready`,
      `${ready} pods ready`,
    ),
    same('No Evacuation is left', '0', String(evacuations.length)),
    same('Only these nodes are unschedulable', maintained.join(', '), unschedulable(nodes)),
  ];
}

function isWorkloadPod(pod: Pod): boolean {
  return workloads.some(({ name }) => name === appOf(pod));
}

function uncordonedRows({ recording, uncordoned, workflow }: Evidence): Row[] {
  const { maintenance, nodes } = uncordoned;
  const finalizers = maintenance?.metadata.finalizers ?? [];
  return [
    same('All nodes are schedulable', `${nodeCount} of ${nodeCount}`, schedulable(nodes)),
    holdsRow(recording),
    same(
      'Stages of the NodeMaintenance',
      'Cordon, Drain, Complete',
      maintenance?.status?.stageStatuses.map(({ name }) => name).join(', ') ?? 'none',
    ),
    {
      fact: 'The finalizer is removed, so the object can be deleted',
      expected: 'none',
      actual: finalizers.join(', ') || 'none',
      holds: maintenance !== undefined && !finalizers.includes(MAINTENANCE_FINALIZER),
    },
    {
      fact: 'The workflow has ended',
      expected: 'COMPLETED',
      actual: `${workflow.status}, after ${workflow.events} events`,
      holds: workflow.status === 'COMPLETED',
    },
  ];
}

function schedulable(nodes: readonly Node[]): string {
  const open = nodes.filter(({ spec }) => spec.unschedulable !== true);
  return `${open.length} of ${nodes.length}`;
}
