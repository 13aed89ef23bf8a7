import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { podTypeOf } from '../../domain/common/pod.ts';
import type { WorkflowRecord } from '../history.ts';
import {
  arrivalsRow,
  holdsRow,
  type Evictions,
  evacuationsRow,
  evictionsRow,
  type Order,
  orderRow,
  same,
  unschedulable,
} from '../verification.ts';
import type { Recording } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import {
  type KepMaintenance,
  kepMaintenances,
  allPods,
  maintenanceC,
  nodes,
  nodeWorkloads,
  spareNodes,
} from './fixtures.ts';
import type { Comparison, TargetRecord } from './published.ts';

/** The input of the verification, which comes from the Kubernetes API and from Temporal. */
export interface Evidence {
  /** Comparisons by snapshot, in the order of the KEP. */
  comparisons: readonly (readonly Comparison[])[];
  /** `TYPE on OBJECT: MESSAGE` of each Event FastForwarded. */
  fastForwarded: readonly string[];
  /** The nodes while all three maintenances are in progress. */
  shared: readonly Node[];
  drained: { maintenances: readonly NodeMaintenance[]; pods: readonly Pod[] };
  /** The nodes after each Complete, in this order. */
  completed: readonly { name: string; nodes: readonly Node[] }[];
  targets: TargetRecord;
  recording: Recording;
  evictions: Evictions;
  workflows: readonly WorkflowRecord[];
}

export function verify(evidence: Evidence): Section[] {
  return [
    {
      title: 'The snapshots of KEP-4212: drainMessage [drainTargets] pending/evacuating',
      rows: snapshotRows(evidence),
    },
    { title: 'The drain plans', rows: planRows(evidence) },
    { title: 'Events and conditions', rows: warningRows(evidence) },
    { title: 'Pods', rows: podRows(evidence) },
    { title: 'After each maintenance is complete', rows: uncordonedRows(evidence) },
  ];
}

function snapshotRows({ comparisons }: Evidence): Row[] {
  return comparisons.flatMap((ofSnapshot, index) =>
    ofSnapshot.map(({ maintenance, node, expected, actual }) =>
      same(`Snapshot ${index + 1}: ${maintenance} on node ${node}`, expected, actual),
    ),
  );
}

/** Builds the facts about the order of evacuations. In the KEP, maintenance-c is fast-forwarded on node one. */
function planRows({ recording, targets }: Evidence): Row[] {
  return [
    ...kepMaintenances.map((kepMaintenance) => {
      const own = kepMaintenance === maintenanceC ? ['four'] : kepMaintenance.nodes;
      const { podPriority = 0 } = kepMaintenance.drainPlan[0] ?? {};
      const fact = `${kepMaintenance.name}: on ${own.join(' and ')}, no pod above ${podPriority} is evacuated before all others are gone`;
      return orderRow(fact, orderAt(own, podPriority), recording);
    }),
    same(
      'Drain targets never shrink',
      'never',
      targets.reductions.join('; ') || (targets.changes > 0 ? 'never' : 'no change'),
    ),
  ];
}

function orderAt(where: readonly string[], priority: number): Order {
  const there = nodeWorkloads.filter(({ node }) => where.includes(node));
  const names = (isFirst: boolean) =>
    there.filter((one) => one.priority <= priority === isFirst).map(({ name }) => name);
  return { first: names(true), second: names(false) };
}

function warningRows({ fastForwarded, shared, drained }: Evidence): Row[] {
  return [
    same(
      'Events FastForwarded',
      'Warning on maintenance-c: Node one is fast-forwarded by older maintenance-b: pods are evacuated before the drain plan of this maintenance targets them.',
      fastForwarded.join('; ') || 'none',
    ),
    ...nodes.map((name) =>
      same(
        `Condition MaintenanceInProgress of node ${name}`,
        heldText(
          kepMaintenances.filter((kepMaintenance) => kepMaintenance.nodes.some((node) => node === name)),
        ),
        holdersOf(shared, name),
      ),
    ),
    ...drained.maintenances.map(({ metadata, status }) => {
      const condition = status?.conditions.find(({ type }) => type === 'Drained');
      const actual = condition === undefined ? 'none' : `${condition.status}, ${condition.reason}`;
      return same(`Condition Drained of ${metadata.name}`, 'True, AllPodsTerminated', actual);
    }),
  ];
}

/** Returns the expected message of MaintenanceInProgress for a node with these maintenances. */
export function heldText(holders: readonly KepMaintenance[]): string {
  if (holders.length === 0) return 'none';
  return `NodeMaintenance ${holders.map(({ name }) => `${name} (Drain)`).join(', ')}`;
}

export function holdersOf(all: readonly Node[], name: string): string {
  const node = all.find(({ metadata }) => metadata.name === name);
  const condition = node?.status?.conditions?.find(({ type }) => type === 'MaintenanceInProgress');
  return condition?.message ?? 'none';
}

function podRows({ recording, evictions, drained }: Evidence): Row[] {
  const evacuable = drained.pods.filter((pod) => podTypeOf(pod) === 'Default' && pod.status.ready);
  const moved = evacuable.filter(({ spec }) => spareNodes.includes(spec.nodeName ?? '')).length;
  return [
    evacuationsRow(recording, allPods + nodes.length),
    evictionsRow(evictions, allPods),
    arrivalsRow(recording),
    same(`Pods that are ready on ${spareNodes.join(' and ')}`, String(allPods), String(moved)),
  ];
}

function uncordonedRows({ completed, recording, workflows }: Evidence): Row[] {
  const done = completed.map(({ name }) => name);
  return [
    ...completed.map(({ name, nodes: after }, index) => {
      const remaining = kepMaintenances.filter(
        (kepMaintenance) => !done.slice(0, index + 1).includes(kepMaintenance.name),
      );
      const held = nodes.filter((node) =>
        remaining.some((kepMaintenance) => kepMaintenance.nodes.includes(node)),
      );
      return same(
        `Unschedulable when ${name} is complete`,
        held.toSorted().join(', ') || 'none',
        unschedulable(after),
      );
    }),
    holdsRow(recording),
    same(
      'The workflows have completed',
      kepMaintenances.map(() => 'COMPLETED').join(', '),
      workflows.map(({ status }) => status).join(', '),
    ),
  ];
}
