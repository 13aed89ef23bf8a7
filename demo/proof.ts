import type { Node, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import { MAINTENANCE_FINALIZER } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { podTypeOf } from '../domain/pod.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import type { WorkflowRecord } from './history.ts';
import { departuresOf } from './progress.ts';
import { appOf, isOfConcern, type Recording } from './recording.ts';
import {
  allLeavingPods,
  allReplicas,
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

/** The apiserver's own count of requests to the eviction API since it started. */
export interface Evictions {
  accepted: number;
  /** By a PodDisruptionBudget. */
  refused: number;
  /** The asker was gone before the answer: the pod may have been evicted, or not. */
  cutOff: number;
}

/** Reads the apiserver's metrics (Prometheus' text format). */
export function countEvictions(metrics: string): Evictions {
  const lines = metrics.split('\n').filter((line) => line.startsWith('apiserver_request_total{'));
  const evictions = lines.filter((line) => line.includes('subresource="eviction"'));
  const withCode = (code: number) =>
    evictions
      .filter((line) => line.includes(`code="${code}"`))
      .reduce((total, line) => total + Number(line.slice(line.lastIndexOf(' '))), 0);
  // The apiserver counts a request whose client went away as a timeout, even if it was carried out.
  return { accepted: withCode(201), refused: withCode(429), cutOff: withCode(504) };
}

/** One asserted fact. */
export interface Row {
  fact: string;
  expected: string;
  seen: string;
  holds: boolean;
}

export interface Section {
  title: string;
  rows: readonly Row[];
}

export function prove(evidence: Evidence): Section[] {
  return [
    { title: 'During the drain', rows: drainRows(evidence) },
    { title: 'After the worker was killed', rows: crashRows(evidence) },
    { title: 'With the nodes drained', rows: drainedRows(evidence) },
    { title: 'With the nodes given back', rows: givenBackRows(evidence) },
  ];
}

/** Most facts are a text that has to be the expected one. */
function same(fact: string, expected: string, seen: string): Row {
  return { fact, expected, seen, holds: seen === expected };
}

function drainRows({ recording, evictions }: Evidence): Row[] {
  return [
    ...tiers.slice(1).map((_, index) => orderRow(recording, index)),
    evacuationsRow(recording),
    evictionsRow(evictions),
    budgetsRow(recording),
    same('No new pod came to the nodes', '0 pods', `${recording.arrivals.length} pods`),
  ];
}

/** The tier at `index` and the one after it, in etcd's own order. */
function orderRow({ departures, evacuations }: Recording, index: number): Row {
  const [before, after] = [tiers[index], tiers[index + 1]].map((tier) =>
    tier === undefined ? [] : departuresOf(tier, departures),
  );
  const uids = new Set(after?.map(({ podUid }) => podUid));
  const gone = before?.map(({ revision }) => revision).reduce(later, 0n) ?? 0n;
  const begun = evacuations
    .filter(({ podUid }) => uids.has(podUid))
    .map(({ revision }) => revision)
    .reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined);
  return {
    fact: `Tier ${index + 2} began when the last pod of tier ${index + 1} was gone`,
    expected: `after revision ${gone}`,
    seen: begun === undefined ? 'never' : `revision ${begun}`,
    holds: gone > 0n && begun !== undefined && begun > gone,
  };
}

function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}

function evacuationsRow({ departures, evacuations }: Recording): Row {
  const evacuated = new Set(evacuations.map(({ podUid }) => podUid));
  const left = departures.filter(({ podUid }) => evacuated.has(podUid)).length;
  return same(
    'Each pod that left had one Evacuation',
    `${allLeavingPods} pods, ${allLeavingPods} Evacuations`,
    `${left} pods, ${evacuations.length} Evacuations`,
  );
}

/** More accepted evictions than pods would be a second one for some pod. */
function evictionsRow({ accepted, refused, cutOff }: Evictions): Row {
  const others = [
    refused > 0 ? `${refused} refused` : undefined,
    cutOff > 0 ? `${cutOff} cut off by the kill` : undefined,
  ].filter((text) => text !== undefined);
  return {
    fact: 'No pod was evicted twice: evictions by the count of the apiserver',
    expected: `${allLeavingPods} accepted`,
    seen: [`${accepted} accepted`, ...others].join(', '),
    holds: accepted <= allLeavingPods && accepted + cutOff >= allLeavingPods,
  };
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
      [...tiers.slice(1).map((tier) => `entry ${positionOf(tier) + 1}`), 'Drained'].join(', '),
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
  const others = onNodes.filter((pod) => podTypeOf(pod) !== 'DaemonSet').length;
  const ready = pods.filter((pod) => pod.status.ready && isWorkloadPod(pod) && !isOfConcern(pod)).length;
  return [
    same(
      'Condition Drained',
      'True, DaemonSetPodsRemain',
      condition === undefined ? 'none' : `${condition.status}, ${condition.reason}`,
    ),
    same(
      'Only DaemonSet pods are left on the nodes',
      `${maintained.length} DaemonSet pods, 0 others`,
      `${onNodes.length - others} DaemonSet pods, ${others} others`,
    ),
    same('Every Deployment is whole on the other nodes', `${allReplicas} pods ready`, `${ready} pods ready`),
    same('No Evacuation is left', '0', String(evacuations.length)),
    same('The nodes, and no others, are unschedulable', maintained.join(', '), unschedulable(nodes)),
  ];
}

function isWorkloadPod(pod: Pod): boolean {
  return workloads.some(({ name }) => name === appOf(pod));
}

function unschedulable(nodes: readonly Node[]): string {
  const names = nodes
    .filter(({ spec }) => spec.unschedulable === true)
    .map(({ metadata }) => metadata.name)
    .toSorted();
  return names.join(', ') || 'none';
}

function givenBackRows({ recording, givenBack, workflow }: Evidence): Row[] {
  const { maintenance, nodes } = givenBack;
  const finalizers = maintenance?.metadata.finalizers ?? [];
  const changes = maintained.map((name) => {
    const cordons = recording.cordons.get(name) ?? [];
    return `${name} ${cordons.map((cordoned) => (cordoned ? 'off' : 'on')).join(' and ')}`;
  });
  return [
    same('All nodes are schedulable', `${nodeCount} of ${nodeCount}`, schedulable(nodes)),
    same(
      'Scheduling went off once and on once',
      maintained.map((name) => `${name} off and on`).join(', '),
      changes.join(', '),
    ),
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
