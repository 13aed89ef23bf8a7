import { describe, expect, test } from '@jest/globals';
import type { NodeSelector } from '../../../api/core.ts';
import type { DrainDeadline } from '../../../api/drainDeadline.ts';
import type {
  NodeMaintenanceSpec,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../../../api/nodeMaintenance.ts';
import {
  admissionWarnings,
  deadlineProblem,
  denialMessage,
  nodesToAuthorize,
  type Proposal,
  storageProblem,
  type AdmissionContext,
} from '../../../domain/admission/maintenance.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { labelled, pods } from '../../kit/builders.ts';

const node = (name: string, labels: Record<string, string> = {}) => ({ metadata: { name, labels } });
const named = (...names: string[]): NodeSelector => ({
  nodeSelectorTerms: names.map((name) => ({
    matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
  })),
});
const rack = (...values: string[]): NodeSelector => ({
  nodeSelectorTerms: [{ matchExpressions: [{ key: 'rack', operator: 'In', values }] }],
});
const everything: NodeSelector = {
  nodeSelectorTerms: [{ matchExpressions: [{ key: 'nowhere', operator: 'DoesNotExist' }] }],
};
const spec = (nodeSelector: NodeSelector, stage: NodeMaintenanceStage = 'Drain'): NodeMaintenanceSpec => ({
  nodeSelector,
  stage,
});

const controlPlane = { 'node-role.kubernetes.io/control-plane': '' };
const cluster: AdmissionContext = {
  nodes: [
    node('c1', controlPlane),
    node('c2', controlPlane),
    node('n1', { rack: '1' }),
    node('n2', { rack: '2' }),
  ],
  maintenances: [],
};
const other = (name: string, nodeSelector: NodeSelector, stage: NodeMaintenanceStage = 'Drain') => ({
  metadata: { name },
  spec: spec(nodeSelector, stage),
});

describe('a deadline that has passed', () => {
  const now = new Date('2026-01-01T12:00:00Z');
  const at = (time: string, stage: NodeMaintenanceStage = 'Drain'): NodeMaintenanceSpec => ({
    ...spec(everything, stage),
    drainDeadline: { at: time, onDeadline: 'Report', steps: [] },
  });
  const past = '2026-01-01T11:00:00Z';
  const problem =
    'spec.drainDeadline.at: 2026-01-01T11:00:00Z has passed: set a later time, or spec.drainDeadline.after';
  test.each([
    { when: 'is rejected', proposal: { spec: at(past) }, want: problem },
    {
      when: 'is rejected when it is set',
      proposal: { spec: at(past), before: spec(everything) },
      want: problem,
    },
    {
      when: 'is rejected when the drain starts',
      proposal: { spec: at(past), before: at(past, 'Cordon') },
      want: problem,
    },
    { when: 'stays during the drain', proposal: { spec: at(past), before: at(past) }, want: undefined },
    {
      when: 'does not keep a maintenance from completing',
      proposal: { spec: at(past, 'Complete'), before: at(past) },
      want: undefined,
    },
    { when: 'is not one in the future', proposal: { spec: at('2026-01-01T13:00:00Z') }, want: undefined },
    { when: 'is not a duration', proposal: { spec: spec(everything) }, want: undefined },
  ])('$when', ({ proposal, want }) => {
    expect(deadlineProblem({ name: 'me', ...proposal }, now)).toBe(want);
  });
});

describe('a deadline in effect that has passed', () => {
  const now = new Date('2026-01-01T12:00:00Z');
  const deletes = (drainDeadline: Partial<DrainDeadline>): NodeMaintenanceSpec => ({
    ...spec(everything),
    drainDeadline: { onDeadline: 'Delete', steps: [], ...drainDeadline },
  });
  const reports = (drainDeadline: Partial<DrainDeadline>): NodeMaintenanceSpec =>
    deletes({ onDeadline: 'Report', ...drainDeadline });
  const drainedSince = (time: string, drainDeadline?: NodeMaintenanceStatus['drainDeadline']) => ({
    ...emptyStatus,
    stageStatuses: [{ name: 'Drain' as const, startTimestamp: time }],
    ...(drainDeadline && { drainDeadline }),
  });
  const started = '2026-01-01T09:00:00Z';
  const effective = { time: '2026-01-01T11:00:00Z', steps: [] };
  const problem =
    'spec.drainDeadline: the drain keeps its earliest deadline, 2026-01-01T11:00:00Z, which has passed, so that Delete would delete all pods that are left at once: keep onDeadline: Report and delete them yourself, or complete this NodeMaintenance and create another one';

  test.each([
    {
      when: 'rejects Delete with a later time',
      proposal: { spec: deletes({ at: '2026-01-02T12:00:00Z' }), before: reports({ after: '2h' }) },
      want: problem,
    },
    {
      when: 'rejects Delete with a duration that is over',
      proposal: { spec: deletes({ after: '2h' }), before: spec(everything) },
      want: 'spec.drainDeadline: 2026-01-01T11:00:00Z has passed, so that Delete would delete all pods that are left at once: set a later time, or delete them yourself',
    },
    {
      when: 'admits other changes of one that deletes already',
      proposal: {
        spec: { ...deletes({ after: '2h' }), reason: 'disks' },
        before: deletes({ after: '2h' }),
        status: drainedSince(started, effective),
      },
      want: undefined,
    },
    {
      when: 'admits Report',
      proposal: { spec: reports({ after: '2h' }), before: deletes({ after: '2h' }) },
      want: undefined,
    },
    {
      when: 'admits Delete once the nodes were drained',
      proposal: {
        spec: deletes({ after: '2h' }),
        before: reports({ after: '2h' }),
        status: drainedSince(started, { ...effective, drainedAt: '2026-01-01T10:00:00Z' }),
      },
      want: undefined,
    },
    {
      when: 'admits Delete before the deadline',
      proposal: {
        spec: deletes({ after: '4h' }),
        before: reports({ after: '4h' }),
        status: drainedSince(started),
      },
      want: undefined,
    },
  ])('$when', ({ proposal, want }) => {
    const known = { name: 'me', status: drainedSince(started, effective), ...proposal };
    expect(deadlineProblem(known, now)).toBe(want);
  });
});

test('a maintenance that exceeds NodeDisruptionBudgets is admitted with a warning that shows which, and by how much', () => {
  const reservations = [{ node: 'c1', window: 'w', since: '2026-11-21T12:00:00Z' }];
  const budgets = [
    { metadata: { name: 'cluster' }, spec: { maxUnavailable: 2 } },
    { metadata: { name: 'rack-2' }, spec: { maxUnavailable: 0, nodeSelector: rack('2') } },
    { metadata: { name: 'rack-3' }, spec: { maxUnavailable: 0, nodeSelector: rack('3') } },
  ];
  const warningsOf = (nodeSelector: NodeSelector, stage: NodeMaintenanceStage = 'Drain') =>
    admissionWarnings({ name: 'me', spec: spec(nodeSelector, stage) }, { ...cluster, budgets, reservations });
  expect(warningsOf(rack('1', '2'))).toEqual([
    'spec.nodeSelector: 3 nodes would be out of service, and NodeDisruptionBudget cluster allows 2 (exceeded as well: rack-2): this maintenance is not blocked, but maintenance windows start no node until fewer are out of service',
  ]);
  expect(warningsOf(rack('2'))).toEqual([
    'spec.nodeSelector: 1 node would be out of service, and NodeDisruptionBudget rack-2 allows 0: this maintenance is not blocked, but maintenance windows start no node until fewer are out of service',
  ]);
  expect(warningsOf(rack('1'))).toEqual([]);
  expect(warningsOf(rack('1', '2'), 'Idle')).toEqual([]);
});

describe('a maintenance is admitted with a warning', () => {
  const unrecoverable = 'the cluster may get into a degraded and unrecoverable state';

  test.each<{
    when: string;
    proposal?: Partial<Proposal>;
    others?: AdmissionContext['maintenances'];
    want: string[];
  }>([
    { when: 'not when it selects some nodes', want: [] },
    {
      when: 'when it selects all nodes',
      proposal: { spec: spec(everything) },
      want: [`spec.nodeSelector matches all 4 nodes: ${unrecoverable}`],
    },
    {
      when: 'when it selects all control plane nodes',
      proposal: { spec: spec(named('c1', 'c2', 'n1')) },
      want: [`spec.nodeSelector matches all 2 control plane nodes: ${unrecoverable}`],
    },
    {
      when: 'not when it leaves out a control plane node',
      proposal: { spec: spec(named('c1', 'n1')) },
      want: [],
    },
    {
      when: 'when it selects no node',
      proposal: { spec: spec(rack('9')) },
      want: ['spec.nodeSelector matches no node: check the names and labels of the nodes'],
    },
    {
      when: 'when it names nodes that do not exist',
      proposal: { spec: spec(named('n1', 'n9', 'n8', 'n9')) },
      want: ['spec.nodeSelector names nodes that do not exist: "n8", "n9"'],
    },
    {
      when: 'when others hold some of its nodes; at most three are named',
      others: [
        ...['g', 'f', 'e', 'd', 'b', 'c'].map((name) => other(name, rack('1', '3'))),
        other('another rack', rack('2')),
        other('idle', rack('1'), 'Idle'),
        other('me', rack('1')),
      ],
      want: [
        'spec.nodeSelector matches nodes that other maintenances hold: "b", "c", "d" and 3 more; the slowest drain plan limits which pods are evacuated, and a node is uncordoned when its last maintenance is complete',
      ],
    },
    {
      when: 'when its selector changes while it is in progress',
      proposal: { before: spec(rack('2'), 'Cordon') },
      want: [
        'spec.nodeSelector changes in stage Cordon: newly matching nodes are cordoned at once, and nodes that no longer match stay cordoned until Complete',
      ],
    },
    {
      when: 'not when its selector changes in Idle',
      proposal: { before: spec(rack('2'), 'Idle') },
      want: [],
    },
    {
      when: 'not when its stage becomes Complete',
      proposal: { spec: spec(everything, 'Complete'), before: spec(everything) },
      want: [],
    },
    {
      when: 'not again when neither stage nor nodes change',
      proposal: { spec: { ...spec(everything), reason: 'b' }, before: { ...spec(everything), reason: 'a' } },
      want: [],
    },
    {
      when: 'again when it moves to the next stage',
      proposal: { spec: spec(everything), before: spec(everything, 'Cordon') },
      want: [`spec.nodeSelector matches all 4 nodes: ${unrecoverable}`],
    },
  ])('$when', ({ proposal, others = [], want }) => {
    const proposed = { name: 'me', spec: spec(rack('1')), ...proposal };
    expect(admissionWarnings(proposed, { ...cluster, maintenances: others })).toEqual(want);
  });
});

describe('a maintenance whose status could not be stored', () => {
  const many = Array.from({ length: 2_000 }, (_, i) => node(`node-${i}`));
  const context = { nodes: many, maintenances: [] };
  const drainPlan = Array.from({ length: 20 }, (_, i) => labelled(pods(i), { app: `application-${i}` }));

  test('is rejected with the field and the remedy', () => {
    expect(storageProblem({ name: 'me', spec: { ...spec(everything), drainPlan } }, context)).toBe(
      'spec.drainPlan: the status of 2000 nodes with 23 drain targets each (one for every podType and podSelector) needs about 4.7 MiB, but only 1 MiB can be stored: use fewer podSelectors, or select fewer nodes per NodeMaintenance',
    );
  });

  test.each<{ when: string; proposal: Partial<Proposal> }>([
    { when: 'the plan has no selectors', proposal: {} },
    { when: 'it selects few nodes', proposal: { spec: { ...spec(named('node-1')), drainPlan } } },
    {
      when: 'its stage becomes Complete',
      proposal: { spec: { ...spec(everything, 'Complete'), drainPlan } },
    },
    {
      when: 'it is stored already, with these nodes',
      proposal: { spec: { ...spec(everything), drainPlan }, before: spec(everything, 'Idle') },
    },
  ])('is none when $when', ({ proposal }) => {
    expect(storageProblem({ name: 'me', spec: spec(everything), ...proposal }, context)).toBeUndefined();
  });
});

describe('a user who maintains nodes', () => {
  test('needs permission to delete the nodes that match now, and those that matched before', () => {
    expect(nodesToAuthorize([spec(rack('1')), spec(named('c1'))], cluster.nodes)).toEqual(['c1', 'n1']);
  });

  test('needs permission to delete a node that is named before it exists', () => {
    expect(nodesToAuthorize([spec(named('n9', 'n1'))], cluster.nodes)).toEqual(['n1', 'n9']);
  });

  test.each([
    { nodes: ['a'], unchecked: 0, nodesText: 'node "a": ' },
    { nodes: ['a', 'b'], unchecked: 0, nodesText: 'nodes "a", "b": ' },
    {
      nodes: ['a', 'b', 'c', 'd', 'e', 'f'],
      unchecked: 94,
      nodesText: 'nodes "a", "b", "c" and 3 more (94 more were not checked): ',
    },
  ])('gets a message that names the nodes: $nodesText', ({ nodes, unchecked, nodesText }) => {
    expect(denialMessage({ user: 'jane', nodes, unchecked })).toBe(
      `spec.nodeSelector: user "jane" may not delete ${nodesText}maintaining a node requires permission to delete it; select other nodes, or request the verb delete on these nodes`,
    );
  });
});
