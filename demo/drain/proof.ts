import type { Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { MAINTENANCE_FINALIZER, MAINTENANCE_GATE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { slimPod } from '../../kube/slim.ts';
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
} from '../proof.ts';
import { daemonSet } from '../manifests.ts';
import { appOf, hasToLeave, type Recording } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import {
  allLeavingPods,
  allReplicas,
  daemonTier,
  maintained,
  maintenanceName,
  nodeCount,
  positionOf,
  tiers,
  workloads,
} from './workloads.ts';

/** What the apiserver answers at one moment. */
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
    pods: pods.items.map(slimPod),
    evacuations: evacuations.items,
    maintenance,
  };
}

/** Everything that the proof is made from: all of it comes from the API and from Temporal. */
export interface Evidence {
  recording: Recording;
  evictions: Evictions;
  drained: Snapshot;
  givenBack: Snapshot;
  workflow: WorkflowRecord;
  /** As Temporal names them. */
  killedWorker: string;
  secondWorker: string;
}

export function prove(evidence: Evidence): Section[] {
  return [
    { title: 'During the drain', rows: drainRows(evidence) },
    { title: 'After the worker was killed', rows: crashRows(evidence) },
    { title: 'With the nodes drained', rows: drainedRows(evidence) },
    { title: 'With the nodes given back', rows: givenBackRows(evidence) },
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

/** The tier at `index` and the one after it. */
function tierRow(recording: Recording, index: number): Row {
  const [first = [], second = []] = [tiers[index], tiers[index + 1]].map((tier) =>
    tier?.workloads.map(({ name }) => name),
  );
  const fact = `Tier ${index + 2} began when the last pod of tier ${index + 1} was gone`;
  return orderRow(fact, { first, second }, recording);
}

/** Compares what was watched with each budget's `minAvailable`. */
function budgetsRow(recording: Recording): Row {
  const seen = workloads.map((workload) => ({
    ...workload,
    fewest: recording.readiness(workload).fewest ?? 0,
  }));
  return {
    fact: 'No budget was violated: fewest available pods at any moment',
    expected: seen.map(({ name, minAvailable }) => `${name} ≥ ${minAvailable}`).join(', '),
    seen: seen.map(({ name, fewest }) => `${name} ${fewest}`).join(', '),
    holds: seen.every(({ fewest, minAvailable }) => fewest >= minAvailable),
  };
}

function crashRows({ workflow, killedWorker, secondWorker }: Evidence): Row[] {
  return [
    same(
      'Another worker went on with the same workflow',
      `${killedWorker}, then ${secondWorker}`,
      workflow.workers.join(', then '),
    ),
    {
      fact: 'It resumed the tier that was under way',
      expected: `drain, by ${secondWorker}`,
      seen:
        workflow.resumed
          .map(({ activity, attempt, worker }) => `${activity}, by ${worker} (attempt ${attempt})`)
          .join('; ') || 'nothing was resumed',
      holds: workflow.resumed.some(({ activity, worker }) => activity === 'drain' && worker === secondWorker),
    },
    same(
      'Temporal has the end of each tier on record, once',
      [...tiers.slice(1), daemonTier]
        .map((tier) => `entry ${positionOf(tier) + 1}`)
        .concat('Drained')
        .join(', '),
      workflow.drainSteps
        .map((step) => (step.kind === 'TierDrained' ? `entry ${step.position + 1}` : step.kind))
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
    same(`Pods of ${daemonSet.name} that wait for the end`, String(maintained.length), String(awaiting)),
    same('Every Deployment is whole on the other nodes', `${allReplicas} pods ready`, `${ready} pods ready`),
    same('No Evacuation is left', '0', String(evacuations.length)),
    same('The nodes, and no others, are unschedulable', maintained.join(', '), unschedulable(nodes)),
  ];
}

function isWorkloadPod(pod: Pod): boolean {
  return workloads.some(({ name }) => name === appOf(pod));
}

function givenBackRows({ recording, givenBack, workflow }: Evidence): Row[] {
  const { maintenance, nodes } = givenBack;
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
      fact: 'The finalizer is gone: the object may be deleted',
      expected: 'none',
      seen: finalizers.join(', ') || 'none',
      holds: maintenance !== undefined && !finalizers.includes(MAINTENANCE_FINALIZER),
    },
    {
      fact: 'The workflow has ended',
      expected: 'COMPLETED',
      seen: `${workflow.status}, after ${workflow.events} events`,
      holds: workflow.status === 'COMPLETED',
    },
  ];
}

function schedulable(nodes: readonly Node[]): string {
  const open = nodes.filter(({ spec }) => spec.unschedulable !== true);
  return `${open.length} of ${nodes.length}`;
}
