import fc from 'fast-check';
import type { Rollout } from '../../../api/maintenanceWindow.ts';
import { type BudgetLimit, limitOf } from '../../../domain/budget/nodeDisruptionBudget.ts';
import type { NodeOutcome } from '../../../domain/windows/nodeOutcome.ts';
import type { NotRebootableReason } from '../../../domain/windows/rebootNeeds.ts';
import { decideRollout } from '../../../domain/windows/rollout.ts';
import type { RolloutInput } from '../../../domain/windows/rolloutFacts.ts';

const zone = 'topology.kubernetes.io/zone';
const node = (name: string, labels: Record<string, string> = {}) => ({ name, labels });
const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => node(name));
const nowMs = Date.parse('2026-11-21T12:00:00Z');

const inProgress: NodeOutcome = { state: 'InProgress' };
const failed: NodeOutcome = { state: 'Failed', reason: 'JobFailed', message: 'why' };
const succeeded = (secondsAgo = 3600): NodeOutcome => ({
  state: 'Succeeded',
  at: nowMs - secondsAgo * 1_000,
});
const inMaintenance = 'in maintenance by window w';

type Differs = Partial<
  Omit<RolloutInput, 'rollout' | 'outcomes' | 'outOfService' | 'rejected' | 'budgets'>
> & {
  /** The number of nodes that the budget of the whole cluster allows. */
  budget?: number;
  /** Budgets of some nodes. */
  pools?: readonly BudgetLimit[];
  rejected?: Record<string, string>;
  rollout?: Partial<Rollout>;
  outcomes?: Record<string, NodeOutcome>;
  outOfService?: Record<string, string>;
};

const pool = (name: string, allowed: number, ...names: string[]): BudgetLimit => ({
  name,
  allowed,
  nodes: new Set(names),
});

/** Nodes in progress and failed nodes are out of service, as they are in a cluster. */
const notRunning = (...names: string[]) =>
  new Map(names.map((name) => [name, 'NotRunning' as const] as const));

function inputOf({
  rollout,
  outcomes = {},
  outOfService = {},
  rejected = {},
  budget = 10,
  pools = [],
  ...differs
}: Differs = {}): RolloutInput {
  const busy = Object.entries(outcomes).filter(([, { state }]) => state !== 'Succeeded');
  return {
    rollout: {
      maxUnavailable: 1,
      order: { by: 'Name' },
      soakSeconds: 0,
      maxFailures: 1,
      readyTimeoutSeconds: 60,
      ...rollout,
    },
    approval: 'None',
    nodes,
    outcomes: new Map(Object.entries(outcomes)),
    isUnnecessary: () => false,
    notRebootable: new Map(),
    outOfService: new Map([
      ...busy.map(([name]) => [name, inMaintenance] as const),
      ...Object.entries(outOfService),
    ]),
    budgets: [
      pool('cluster', budget, ...[...nodes, ...(differs.nodes ?? [])].map(({ name }) => name), 'other'),
      ...pools,
    ],
    approved: false,
    approvedNodes: [],
    paused: false,
    areJobsMissing: false,
    rejected: new Map(Object.entries(rejected)),
    rejectedBefore: new Set(),
    hasEnded: false,
    isDeleted: false,
    nowMs,
    ...differs,
  };
}

const zoned = [
  node('n1', { [zone]: 'b' }),
  node('n2', { [zone]: 'a' }),
  node('n3', { [zone]: 'a' }),
  node('n4'),
];

describe('nodes start', () => {
  test.each<{ when: string; given: Differs; want: string[] }>([
    { when: 'one at a time, by name', given: {}, want: ['n1'] },
    { when: 'except nodes whose maintenance is rejected', given: { rejected: { n1: 'no' } }, want: ['n2'] },
    {
      when: 'those that were rejected before after the others',
      given: { rejectedBefore: new Set(['n1', 'n2']), rollout: { maxUnavailable: 3 } },
      want: ['n3', 'n4', 'n1'],
    },
    {
      when: 'in another topology domain if all of the first were rejected before',
      given: {
        rejectedBefore: new Set(['n2', 'n3', 'n4']),
        rollout: { topologyKey: zone, maxUnavailable: 4 },
        nodes: zoned,
      },
      want: ['n1'],
    },
    {
      when: 'except nodes without a running agent',
      given: { notRebootable: notRunning('n1', 'n3'), rollout: { maxUnavailable: 4 } },
      want: ['n2', 'n4'],
    },
    {
      when: 'except nodes that need no maintenance',
      given: { isUnnecessary: (name) => name !== 'n3', rollout: { maxUnavailable: 4 } },
      want: ['n3'],
    },
    { when: 'two at a time', given: { rollout: { maxUnavailable: 2 } }, want: ['n1', 'n2'] },
    { when: 'half of them at a time', given: { rollout: { maxUnavailable: '50%' } }, want: ['n1', 'n2'] },
    {
      when: 'up to the limit, counting nodes in progress',
      given: { rollout: { maxUnavailable: 2 }, outcomes: { n1: inProgress } },
      want: ['n2'],
    },
    { when: 'after the nodes that have succeeded', given: { outcomes: { n1: succeeded() } }, want: ['n2'] },
    {
      when: 'by a label, nodes without it last',
      given: {
        rollout: { order: { by: 'Label', labelKey: 'rank' }, maxUnavailable: 3 },
        nodes: [node('n1'), node('n2', { rank: '2' }), node('n3', { rank: '1' })],
      },
      want: ['n3', 'n2', 'n1'],
    },
    {
      when: 'in one zone at a time, the nodes without one first',
      given: { rollout: { topologyKey: zone, maxUnavailable: 4 }, nodes: zoned },
      want: ['n4'],
    },
    {
      when: 'in the zone that is in progress',
      given: {
        rollout: { topologyKey: zone, maxUnavailable: 4 },
        nodes: zoned,
        outcomes: { n4: succeeded(), n3: inProgress },
      },
      want: ['n2'],
    },
    {
      when: 'up to the budget of the cluster',
      given: { rollout: { maxUnavailable: 4 }, budget: 3, outOfService: { other: 'not ready' } },
      want: ['n1', 'n2'],
    },
    {
      when: 'except nodes that the budget of their pool does not allow',
      given: {
        rollout: { maxUnavailable: 4 },
        outOfService: { other: 'not ready' },
        pools: [pool('gpu', 1, 'n1', 'n2', 'other'), pool('web', 1, 'n3', 'n4')],
      },
      want: ['n3'],
    },
    {
      when: 'as every budget that selects them allows',
      given: {
        rollout: { maxUnavailable: 4 },
        pools: [pool('a', 2, 'n1', 'n2', 'n3', 'n4'), pool('b', 1, 'n1', 'n2')],
      },
      want: ['n1', 'n3'],
    },
    {
      when: 'in the first zone in which a budget allows one',
      given: {
        rollout: { topologyKey: zone, maxUnavailable: 4 },
        nodes: zoned,
        pools: [pool('without-zone', 0, 'n4')],
      },
      want: ['n2', 'n3'],
    },
    {
      when: 'except nodes that are out of service already',
      given: { rollout: { maxUnavailable: 2 }, outOfService: { n1: 'cordoned' } },
      want: ['n2'],
    },
    { when: 'after the window is approved', given: { approval: 'PerWindow', approved: true }, want: ['n1'] },
    {
      when: 'if they are approved',
      given: { approval: 'PerNode', approvedNodes: ['n3'], rollout: { maxUnavailable: 4 } },
      want: ['n3'],
    },
    {
      when: 'after the last node has soaked',
      given: { rollout: { soakSeconds: 60 }, outcomes: { n1: succeeded(60) } },
      want: ['n2'],
    },
    {
      when: 'while fewer than maxFailures have failed',
      given: { rollout: { maxFailures: 2, maxUnavailable: 2 }, outcomes: { n1: failed } },
      want: ['n2'],
    },
  ])('$when', ({ given, want }) => {
    expect(decideRollout(inputOf(given))).toEqual({ kind: 'Start', nodes: want });
  });
});

describe('no node starts', () => {
  test('if no remaining node needs a maintenance: the window is done', () => {
    expect(decideRollout(inputOf({ isUnnecessary: () => true }))).toEqual({ kind: 'Done' });
  });

  test.each<{ when: string; given: Differs; reason: string; message: string }>([
    {
      when: 'while no agent runs on any of them',
      given: { notRebootable: notRunning('n1', 'n2', 'n3', 'n4'), outcomes: { n1: succeeded() } },
      reason: 'AgentNotRunning',
      message:
        'No node agent runs on nodes n2, n3, n4: start it, or reboot these nodes in another way and remove the annotation nodemaintenance.k8s.io/reboot-required.',
    },
    {
      when: 'while no agent runs on the last one, and the others are in progress',
      given: {
        notRebootable: notRunning('n1'),
        outcomes: { n2: inProgress, n3: succeeded(), n4: succeeded() },
        rollout: { maxUnavailable: 4 },
      },
      reason: 'AgentNotRunning',
      message:
        'No node agent runs on node n1: start it, or reboot the node in another way and remove the annotation nodemaintenance.k8s.io/reboot-required.',
    },
    {
      when: 'while the agents of some of them have no reboot command',
      given: {
        notRebootable: new Map<string, NotRebootableReason>([
          ...notRunning('n3'),
          ['n1', 'NoRebootCommand'],
          ['n2', 'NoRebootCommand'],
          ['n4', 'BootIdUnknown'],
        ]),
      },
      reason: 'AgentNotRunning',
      message:
        'No node agent runs on node n3: start it. The node agent of nodes n1, n2 has no reboot command: set its --reboot-command (REBOOT_COMMAND). The kubelet of node n4 has not reported a boot ID: check it, or reboot these nodes in another way and remove the annotation nodemaintenance.k8s.io/reboot-required.',
    },
    {
      when: 'while the agent of the last one has no reboot command',
      given: {
        notRebootable: new Map([['n1', 'NoRebootCommand']]),
        outcomes: { n2: succeeded(), n3: succeeded(), n4: succeeded() },
      },
      reason: 'AgentNotRunning',
      message:
        'The node agent of node n1 has no reboot command: set its --reboot-command (REBOOT_COMMAND), or reboot the node in another way and remove the annotation nodemaintenance.k8s.io/reboot-required.',
    },
    {
      when: 'after the end of the window',
      given: { hasEnded: true },
      reason: 'WindowEnded',
      message: 'The window has ended; 4 nodes remain for the next opening.',
    },
    {
      when: 'while the window is paused',
      given: { paused: true },
      reason: 'Paused',
      message: 'The window is paused: resume it to start further nodes.',
    },
    {
      when: 'after too many failures',
      given: { outcomes: { n2: failed }, rollout: { maxUnavailable: 4 } },
      reason: 'TooManyFailures',
      message:
        'rollout.maxFailures is 1, and 1 node failed (n2): check these nodes, then mark their work as done (kubectl maintenance window advance) or delete their NodeMaintenances.',
    },
    {
      when: 'after the failure of a node that was deleted since, or that the window selects no more',
      given: { outcomes: { gone: failed }, rollout: { maxUnavailable: 4 } },
      reason: 'TooManyFailures',
      message:
        'rollout.maxFailures is 1, and 1 node failed (gone): check these nodes, then mark their work as done (kubectl maintenance window advance) or delete their NodeMaintenances.',
    },
    {
      when: 'before the window is approved',
      given: { approval: 'PerWindow' },
      reason: 'ApprovalNeeded',
      message: 'Waiting for approval of the window; 4 nodes remain.',
    },
    {
      when: 'before a remaining node is approved',
      given: { approval: 'PerNode', approvedNodes: ['n1'], outcomes: { n1: succeeded() } },
      reason: 'ApprovalNeeded',
      message: 'Waiting for approval of one of the nodes n2, n3, n4.',
    },
    {
      when: 'while the last node soaks',
      given: { rollout: { soakSeconds: 60 }, outcomes: { n1: succeeded(30) } },
      reason: 'Soaking',
      message: 'Soaking after the last node; the next node starts at 2026-11-21T12:00:30.000Z.',
    },
    {
      when: 'while maxUnavailable of its nodes are out of service, for whatever reason',
      given: { outOfService: { n4: 'cordoned' } },
      reason: 'MaxUnavailable',
      message: 'rollout.maxUnavailable is 1, and 1 selected node is out of service: n4 (cordoned).',
    },
    {
      when: 'while the budget of the cluster is reached',
      given: { budget: 1, outOfService: { other: 'not ready' } },
      reason: 'NodeDisruptionBudget',
      message:
        'NodeDisruptionBudget cluster allows 1 of 5 nodes to be out of service, and 1 node is out of service: other (not ready).',
    },
    {
      when: 'while the budget of the cluster is 0',
      given: { budget: 0 },
      reason: 'NodeDisruptionBudget',
      message:
        'NodeDisruptionBudget cluster allows no node to be out of service: increase its spec.maxUnavailable to start nodes.',
    },
    {
      when: 'while the budget of a pool is reached, which counts only nodes of the pool',
      given: {
        nodes: nodes.slice(0, 2),
        rollout: { maxUnavailable: 4 },
        outOfService: { other: 'cordoned', elsewhere: 'not ready' },
        pools: [pool('gpu', 1, 'n1', 'n2', 'other')],
      },
      reason: 'NodeDisruptionBudget',
      message:
        'NodeDisruptionBudget gpu allows 1 of 3 nodes to be out of service, and 1 node is out of service: other (cordoned).',
    },
    {
      when: 'while each remaining node is blocked by another budget, and all are named',
      given: {
        nodes: nodes.slice(0, 3),
        rollout: { maxUnavailable: 4 },
        outOfService: { other: 'cordoned' },
        pools: [
          pool('never', 0, 'n2'),
          pool('gpu', 1, 'n1', 'n3', 'other'),
          pool('rack', 1, 'n2', 'n3', 'other'),
        ],
      },
      reason: 'NodeDisruptionBudget',
      message:
        'NodeDisruptionBudget gpu allows 1 of 3 nodes to be out of service, and 1 node is out of service: other (cordoned). Exhausted as well: never, rack.',
    },
    {
      when: 'while budgets of 0 select all remaining nodes, whatever else limits the window',
      given: {
        nodes: nodes.slice(0, 2),
        outcomes: { n1: inProgress },
        pools: [pool('zero', 0, 'n2'), pool('full', 1, 'n1', 'n2')],
      },
      reason: 'NodeDisruptionBudget',
      message:
        'NodeDisruptionBudget zero allows no node to be out of service: increase its spec.maxUnavailable to start nodes. Exhausted as well: full.',
    },
    {
      when: 'while another zone is in progress',
      given: {
        rollout: { topologyKey: zone, maxUnavailable: 4 },
        nodes: zoned.slice(0, 2),
        outcomes: { n1: inProgress },
      },
      reason: 'TopologyDomain',
      message: `Only nodes with the same ${zone} are maintained at the same time: n1 must return to service first.`,
    },
    {
      when: 'while all remaining nodes are out of service',
      given: {
        outcomes: { n1: succeeded(), n2: succeeded() },
        outOfService: { n3: 'not ready', n4: 'held by NodeMaintenance a' },
      },
      reason: 'NodesOutOfService',
      message:
        'The remaining nodes are out of service already: n3 (not ready), n4 (held by NodeMaintenance a).',
    },
    {
      when: 'when all nodes have started',
      given: { nodes: nodes.slice(0, 2), outcomes: { n1: succeeded(), n2: inProgress } },
      reason: 'LastNodesInProgress',
      message: 'The last nodes are in progress: n2.',
    },
    {
      when: 'when all nodes have started and one has failed',
      given: { nodes: nodes.slice(0, 2), outcomes: { n1: failed, n2: inProgress } },
      reason: 'LastNodesInProgress',
      message:
        'The last nodes are in progress: n2. 1 node failed (n1): check these nodes, then mark their work as done (kubectl maintenance window advance) or delete their NodeMaintenances.',
    },
    {
      when: 'when only failed nodes are left',
      given: { nodes: nodes.slice(0, 3), outcomes: { n1: failed, n2: succeeded(), n3: failed } },
      reason: 'FailedNodes',
      message:
        '2 nodes failed (n1, n3): check these nodes, then mark their work as done (kubectl maintenance window advance) or delete their NodeMaintenances.',
    },
    {
      when: 'when the window runs a Job and Jobs are not enabled',
      given: { areJobsMissing: true, approval: 'PerWindow' },
      reason: 'JobsNotEnabled',
      message:
        'spec.work: Jobs of windows are not enabled, because the worker may not create Jobs in namespace node-maintenance-work: apply deploy/window-jobs (Helm chart: windowJobs.enabled; npm start -- --install --window-jobs), or set spec.work.type to None.',
    },
    {
      when: 'when a node is in progress and Jobs are not enabled any more',
      given: {
        nodes: nodes.slice(0, 2),
        outcomes: { n1: succeeded(), n2: inProgress },
        areJobsMissing: true,
      },
      reason: 'JobsNotEnabled',
      message: expect.stringContaining('apply deploy/window-jobs'),
    },
    {
      when: 'when the window has ended, whether or not Jobs are enabled',
      given: { areJobsMissing: true, hasEnded: true },
      reason: 'WindowEnded',
      message: expect.any(String),
    },
    {
      when: 'when the apiserver rejects the remaining nodes',
      given: {
        nodes: nodes.slice(0, 2),
        outcomes: { n1: succeeded() },
        rejected: { n2: 'its plan is too long' },
      },
      reason: 'MaintenanceRejected',
      message: 'The apiserver rejected the maintenance of node n2: its plan is too long',
    },
    {
      when: 'when it has rejected three nodes, because it would reject the others as well',
      given: { rejected: { n1: 'no', n2: 'no', n3: 'no' } },
      reason: 'MaintenanceRejected',
      message: 'The apiserver rejected the maintenance of node n1 and of 2 more nodes: no',
    },
    {
      when: 'when a node in progress is rejected and the limit is reached',
      given: { outcomes: { n1: inProgress }, rejected: { n1: 'no' } },
      reason: 'MaintenanceRejected',
      message: 'The apiserver rejected the maintenance of node n1: no',
    },
  ])('$when', ({ given, reason, message }) => {
    expect(decideRollout(inputOf(given))).toMatchObject({ kind: 'Wait', reason, message });
  });
});

test('a rollout that soaks says when it continues without any change', () => {
  const soaking = { rollout: { soakSeconds: 60 }, outcomes: { n1: succeeded(30) } };
  const untilMs = Date.parse('2026-11-21T12:00:30Z');
  expect(decideRollout(inputOf(soaking))).toMatchObject({ reason: 'Soaking', untilMs });
});

test('a rollout is done when every node has succeeded, or none is selected', () => {
  const done = { n1: succeeded(), n2: succeeded(), n3: succeeded(), n4: succeeded() };
  expect(decideRollout(inputOf({ outcomes: done }))).toEqual({ kind: 'Done' });
  expect(decideRollout(inputOf({ nodes: [] }))).toEqual({ kind: 'Done' });
  expect(decideRollout(inputOf({ outcomes: done, areJobsMissing: true }))).toEqual({ kind: 'Done' });
});

/** A cluster of up to 12 nodes in up to 3 zones, some of them out of service for other reasons. */
const clusters = fc.record({
  zones: fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 12 }),
  states: fc.array(fc.constantFrom('Remaining', 'InProgress', 'Failed', 'Succeeded', 'out'), {
    minLength: 12,
    maxLength: 12,
  }),
  maxUnavailable: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constantFrom('10%', '50%', '100%')),
  budget: fc.integer({ min: 0, max: 6 }),
  /** Each with the indexes of its nodes. They may overlap. */
  pools: fc.array(fc.record({ allowed: fc.integer({ min: 0, max: 3 }), nodes: fc.uniqueArray(fc.nat(11)) }), {
    maxLength: 4,
  }),
  topologyKey: fc.constantFrom(undefined, zone),
  maxFailures: fc.integer({ min: 1, max: 3 }),
});
type ClusterState = typeof clusters extends fc.Arbitrary<infer C> ? C : never;

function clusterInput(cluster: ClusterState): RolloutInput {
  const { zones, states, maxUnavailable, budget, topologyKey, maxFailures } = cluster;
  const all = zones.map((value, index) => node(`n${index}`, { [zone]: value }));
  const outcomes: Record<string, NodeOutcome> = {};
  const outOfService: Record<string, string> = {};
  for (const [index, { name }] of all.entries()) {
    const state = states[index];
    if (state === 'InProgress') outcomes[name] = inProgress;
    if (state === 'Failed') outcomes[name] = failed;
    if (state === 'Succeeded') outcomes[name] = succeeded();
    if (state === 'out') outOfService[name] = 'cordoned';
  }
  const rollout = { maxUnavailable, maxFailures, ...(topologyKey && { topologyKey }) };
  const pools = cluster.pools.map(({ allowed, nodes: indexes }, index) =>
    pool(`pool-${index}`, allowed, ...indexes.map((one) => `n${one}`)),
  );
  return inputOf({ nodes: all, outcomes, outOfService, budget, pools, rollout });
}

describe('for every cluster', () => {
  const forEveryCluster = (law: (cluster: ClusterState) => void) => fc.assert(fc.property(clusters, law));

  const countOf = ({ nodes: names }: BudgetLimit, out: Iterable<string>) =>
    [...out].filter((name) => names.has(name)).length;

  test('the nodes that start never exceed the limits of the window and of any budget', () => {
    forEveryCluster((cluster) => {
      const input = clusterInput(cluster);
      const decision = decideRollout(input);
      if (decision.kind !== 'Start') return;
      const out = new Set([...input.outOfService.keys(), ...decision.nodes]);
      for (const limit of input.budgets)
        if (countOf(limit, decision.nodes) > 0)
          expect(countOf(limit, out)).toBeLessThanOrEqual(limit.allowed);
      expect(out.size).toBeLessThanOrEqual(limitOf(input.rollout.maxUnavailable, input.nodes.length));
    });
  });

  test('a node that is in progress, has failed, has succeeded or is out of service is never started', () => {
    forEveryCluster((cluster) => {
      const input = clusterInput(cluster);
      const decision = decideRollout(input);
      const startedNodes = decision.kind === 'Start' ? decision.nodes : [];
      expect(startedNodes.filter((name) => input.outcomes.has(name) || input.outOfService.has(name))).toEqual(
        [],
      );
    });
  });

  test('nodes of only one zone are in maintenance at a time', () => {
    forEveryCluster((cluster) => {
      const input = clusterInput({ ...cluster, topologyKey: zone });
      const decision = decideRollout(input);
      if (decision.kind !== 'Start') return;
      const busy = [...input.outcomes].filter(([, { state }]) => state !== 'Succeeded').map(([name]) => name);
      const working = new Set([...busy, ...decision.nodes]);
      const zones = input.nodes.filter(({ name }) => working.has(name)).map(({ labels }) => labels[zone]);
      expect(new Set(zones).size).toBe(1);
    });
  });

  test('a node starts whenever the limits allow it', () => {
    forEveryCluster((cluster) => {
      const input = clusterInput({ ...cluster, topologyKey: undefined });
      const isNew = ({ name }: { name: string }) =>
        !input.outcomes.has(name) && !input.outOfService.has(name);
      const failures = [...input.outcomes.values()].filter(({ state }) => state === 'Failed').length;
      const limit = limitOf(input.rollout.maxUnavailable, input.nodes.length);
      const isAllowed = ({ name }: { name: string }) =>
        input.budgets.every(
          (one) => !one.nodes.has(name) || countOf(one, input.outOfService.keys()) < one.allowed,
        );
      const capacity = limit - input.outOfService.size;
      const canStart =
        input.nodes.some((one) => isNew(one) && isAllowed(one)) &&
        capacity > 0 &&
        failures < input.rollout.maxFailures;
      expect(decideRollout(input).kind === 'Start').toBe(canStart);
    });
  });

  test('the decision does not depend on the order of the input', () => {
    forEveryCluster((cluster) => {
      const input = clusterInput(cluster);
      const reversed = {
        ...input,
        nodes: input.nodes.toReversed(),
        outcomes: new Map([...input.outcomes].toReversed()),
        outOfService: new Map([...input.outOfService].toReversed()),
        budgets: input.budgets.toReversed(),
      };
      expect(decideRollout(reversed)).toEqual(decideRollout(input));
    });
  });

  test('every node succeeds in the end', () => {
    forEveryCluster((cluster) => {
      const states = cluster.states.map((state) =>
        state === 'Failed' || state === 'out' ? 'Remaining' : state,
      );
      const pools = cluster.pools.map(({ allowed, ...one }) => ({ ...one, allowed: allowed + 1 }));
      let input = clusterInput({ ...cluster, states, pools, budget: cluster.budget + 1 });
      for (let step = 0; step < 100; step++) {
        const decision = decideRollout(input);
        if (decision.kind === 'Done') return;
        const outcomes = new Map(input.outcomes);
        const startedNodes = decision.kind === 'Start' ? decision.nodes : [];
        for (const name of startedNodes) outcomes.set(name, inProgress);
        const ended = [...input.outcomes].filter(([, { state }]) => state === 'InProgress');
        if (startedNodes.length === 0) for (const [name] of ended) outcomes.set(name, succeeded());
        const busy = [...outcomes].filter(([, { state }]) => state === 'InProgress');
        input = { ...input, outcomes, outOfService: new Map(busy.map(([name]) => [name, inMaintenance])) };
      }
      throw new Error('the rollout does not end');
    });
  });
});
