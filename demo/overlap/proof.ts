import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { podTypeOf } from '../../domain/pod.ts';
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
} from '../proof.ts';
import type { Recording } from '../recording.ts';
import type { Row, Section } from '../table.ts';
import { type Actor, actors, allPods, maintenanceC, nodes, residents, spareNodes } from './cast.ts';
import type { Comparison, TargetRecord } from './published.ts';

/** Everything that the proof is made from: all of it comes from the API and from Temporal. */
export interface Evidence {
  /** Of each of the KEP's snapshots, in its order. */
  comparisons: readonly (readonly Comparison[])[];
  /** `TYPE on OBJECT: MESSAGE` of each Event FastForwarded. */
  fastForwarded: readonly string[];
  /** With all three maintenances under way. */
  shared: readonly Node[];
  drained: { maintenances: readonly NodeMaintenance[]; pods: readonly Pod[] };
  /** After each Complete, in this order. */
  completed: readonly { name: string; nodes: readonly Node[] }[];
  targets: TargetRecord;
  recording: Recording;
  evictions: Evictions;
  workflows: readonly WorkflowRecord[];
}

export function prove(evidence: Evidence): Section[] {
  return [
    {
      title: 'The snapshots of KEP-4212: drainMessage [drainTargets] pending/evacuating',
      rows: snapshotRows(evidence),
    },
    { title: 'The drain plans', rows: planRows(evidence) },
    { title: 'What others see', rows: warningRows(evidence) },
    { title: 'Pods', rows: podRows(evidence) },
    { title: 'With one maintenance after the other complete', rows: givenBackRows(evidence) },
  ];
}

function snapshotRows({ comparisons }: Evidence): Row[] {
  return comparisons.flatMap((ofSnapshot, index) =>
    ofSnapshot.map(({ maintenance, node, expected, seen }) =>
      same(`Snapshot ${index + 1}: ${maintenance} on node ${node}`, expected, seen),
    ),
  );
}

/** maintenance-c comes too late for its plan on node one, as the KEP says; on node four it holds. */
function planRows({ recording, targets }: Evidence): Row[] {
  return [
    ...actors.map((actor) => {
      const own = actor === maintenanceC ? ['four'] : actor.nodes;
      const { podPriority = 0 } = actor.drainPlan[0] ?? {};
      const fact = `${actor.name}: nothing above ${podPriority} leaves ${own.join(' and ')} before all else there has left`;
      return orderRow(fact, orderAt(own, podPriority), recording);
    }),
    same(
      'Drain targets never go back',
      'no setback',
      targets.setbacks.join('; ') || (targets.changes > 0 ? 'no setback' : 'no change'),
    ),
  ];
}

function orderAt(where: readonly string[], priority: number): Order {
  const there = residents.filter(({ node }) => where.includes(node));
  const names = (isFirst: boolean) =>
    there.filter((one) => one.priority <= priority === isFirst).map(({ name }) => name);
  return { first: names(true), second: names(false) };
}

function warningRows({ fastForwarded, shared, drained }: Evidence): Row[] {
  return [
    same(
      'Events FastForwarded',
      'Warning on maintenance-c: Node one is fast-forwarded by older maintenance-b: pods leave it before the drain plan of this maintenance asks for them.',
      fastForwarded.join('; ') || 'none',
    ),
    ...nodes.map((name) =>
      same(
        `Condition MaintenanceInProgress of node ${name}`,
        heldText(actors.filter((actor) => actor.nodes.some((node) => node === name))),
        holdersOf(shared, name),
      ),
    ),
    ...drained.maintenances.map(({ metadata, status }) => {
      const condition = status?.conditions.find(({ type }) => type === 'Drained');
      const seen = condition === undefined ? 'none' : `${condition.status}, ${condition.reason}`;
      return same(`Condition Drained of ${metadata.name}`, 'True, AllPodsTerminated', seen);
    }),
  ];
}

/** What a node says when these maintenances hold it. */
export function heldText(holders: readonly Actor[]): string {
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
    same(`Pods that are ready on ${spareNodes.join(' and ')} instead`, String(allPods), String(moved)),
  ];
}

function givenBackRows({ completed, recording, workflows }: Evidence): Row[] {
  const done = completed.map(({ name }) => name);
  return [
    ...completed.map(({ name, nodes: after }, index) => {
      const left = actors.filter((actor) => !done.slice(0, index + 1).includes(actor.name));
      const held = nodes.filter((node) => left.some((actor) => actor.nodes.includes(node)));
      return same(
        `Unschedulable when ${name} is complete`,
        held.toSorted().join(', ') || 'none',
        unschedulable(after),
      );
    }),
    holdsRow(recording),
    same(
      'The workflows have ended',
      actors.map(() => 'COMPLETED').join(', '),
      workflows.map(({ status }) => status).join(', '),
    ),
  ];
}
