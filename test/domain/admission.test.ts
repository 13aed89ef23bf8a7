import { describe, expect, test } from '@jest/globals';
import type { NodeSelector } from '../../api/core.ts';
import type { NodeMaintenanceSpec, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import {
  admissionWarnings,
  denialMessage,
  nodesToAuthorize,
  type Proposal,
  storageProblem,
  type Surroundings,
} from '../../domain/admission.ts';
import { labelled, pods } from '../kit/builders.ts';

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
const cluster: Surroundings = {
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

test('a maintenance that exceeds the budget of the cluster is admitted with a warning that says by how much', () => {
  const claims = [{ node: 'c1', window: 'w', since: '2026-11-21T12:00:00Z' }];
  const status = { conditions: [], observedGeneration: 1, nodes: 4, allowed: 2, outOfService: 1, claims };
  const budget = { spec: { maxUnavailable: 2 }, status };
  const warningsOf = (nodeSelector: NodeSelector, stage: NodeMaintenanceStage = 'Drain') =>
    admissionWarnings({ name: 'me', spec: spec(nodeSelector, stage) }, { ...cluster, budget });
  expect(warningsOf(rack('1', '2'))).toEqual([
    'spec.nodeSelector takes 2 more nodes out of service, 1 are already, and the NodeBudget of the cluster allows 2: windows wait until there are fewer',
  ]);
  expect(warningsOf(rack('1'))).toEqual([]);
  expect(warningsOf(rack('1', '2'), 'Idle')).toEqual([]);
});

describe('a maintenance is admitted with a warning', () => {
  const unrecoverable = 'the cluster may get into a degraded and unrecoverable state';

  test.each<{
    when: string;
    proposal?: Partial<Proposal>;
    others?: Surroundings['maintenances'];
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
      want: ['spec.nodeSelector matches no node now'],
    },
    {
      when: 'when it names nodes that do not exist',
      proposal: { spec: spec(named('n1', 'n9', 'n8', 'n9')) },
      want: ['spec.nodeSelector names nodes that do not exist: "n8", "n9"'],
    },
    {
      when: 'when others hold some of its nodes; five are named',
      others: [
        ...['g', 'f', 'e', 'd', 'b', 'c'].map((name) => other(name, rack('1', '3'))),
        other('another rack', rack('2')),
        other('idle', rack('1'), 'Idle'),
        other('me', rack('1')),
      ],
      want: [
        'spec.nodeSelector matches nodes that other maintenances hold: "b", "c", "d", "e", "f" and 1 more; pods leave as the slowest plan says, and a node is given back when the last one is complete',
      ],
    },
    {
      when: 'when its selector changes while it is in progress',
      proposal: { before: spec(rack('2'), 'Cordon') },
      want: [
        'spec.nodeSelector changes in stage Cordon: nodes that match now are cordoned at once, nodes that match no longer stay cordoned until Complete',
      ],
    },
    {
      when: 'not when its selector changes in Idle',
      proposal: { before: spec(rack('2'), 'Idle') },
      want: [],
    },
    {
      when: 'not when it is on its way to Complete',
      proposal: { spec: spec(everything, 'Complete'), before: spec(everything) },
      want: [],
    },
    {
      when: 'not again when neither stage nor nodes change',
      proposal: { spec: { ...spec(everything), reason: 'b' }, before: { ...spec(everything), reason: 'a' } },
      want: [],
    },
    {
      when: 'again when it goes on to the next stage',
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
  const surroundings = { nodes: many, maintenances: [] };
  const drainPlan = Array.from({ length: 20 }, (_, i) => labelled(pods(i), { app: `application-${i}` }));

  test('is refused, naming the field and the remedy', () => {
    expect(storageProblem({ name: 'me', spec: { ...spec(everything), drainPlan } }, surroundings)).toBe(
      'spec.drainPlan: the status of 2000 nodes with 23 drain targets each (one for every podType and podSelector) needs about 4.7 MiB, and 1 MiB can be stored: use fewer podSelectors, or select fewer nodes in each NodeMaintenance',
    );
  });

  test.each<{ when: string; proposal: Partial<Proposal> }>([
    { when: 'the plan has no selectors', proposal: {} },
    { when: 'it selects few nodes', proposal: { spec: { ...spec(named('node-1')), drainPlan } } },
    {
      when: 'it is on its way to Complete',
      proposal: { spec: { ...spec(everything, 'Complete'), drainPlan } },
    },
    {
      when: 'it is stored already, with these nodes',
      proposal: { spec: { ...spec(everything), drainPlan }, before: spec(everything, 'Idle') },
    },
  ])('is none when $when', ({ proposal }) => {
    expect(storageProblem({ name: 'me', spec: spec(everything), ...proposal }, surroundings)).toBeUndefined();
  });
});

describe('who wants to maintain nodes', () => {
  test('needs the right to delete those that match now, and those that matched before', () => {
    expect(nodesToAuthorize([spec(rack('1')), spec(named('c1'))], cluster.nodes)).toEqual(['c1', 'n1']);
  });

  test('needs it for a node that is named before it is there', () => {
    expect(nodesToAuthorize([spec(named('n9', 'n1'))], cluster.nodes)).toEqual(['n1', 'n9']);
  });

  test.each([
    { nodes: ['a'], unchecked: 0, says: 'node "a": ' },
    { nodes: ['a', 'b'], unchecked: 0, says: 'nodes "a", "b": ' },
    {
      nodes: ['a', 'b', 'c', 'd', 'e', 'f'],
      unchecked: 94,
      says: 'nodes "a", "b", "c", "d", "e" and 1 more (94 others were not checked): ',
    },
  ])('is told which are missing: $says', ({ nodes, unchecked, says }) => {
    expect(denialMessage({ user: 'jane', nodes, unchecked })).toBe(
      `spec.nodeSelector: user "jane" may not delete ${says}whoever maintains a node needs the right to delete it; select other nodes, or ask for verb delete on these`,
    );
  });
});
