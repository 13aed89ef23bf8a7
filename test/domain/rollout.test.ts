import fc from 'fast-check';
import type { Rollout } from '../../api/maintenanceWindow.ts';
import { limitOf } from '../../domain/nodeBudget.ts';
import { decideRollout, type RolloutSight, type Turn } from '../../domain/rollout.ts';

const zone = 'topology.kubernetes.io/zone';
const node = (name: string, labels: Record<string, string> = {}) => ({ name, labels });
const nodes = ['n1', 'n2', 'n3', 'n4'].map((name) => node(name));
const now = Date.parse('2026-11-21T12:00:00Z');

const underWay: Turn = { kind: 'UnderWay' };
const failed: Turn = { kind: 'Failed' };
const succeeded = (secondsAgo = 3600): Turn => ({ kind: 'Succeeded', at: now - secondsAgo * 1_000 });
const inTurn = 'it has its turn in window w';

type Differs = Partial<Omit<RolloutSight, 'rollout' | 'turns' | 'outOfService' | 'refused'>> & {
  refused?: Record<string, string>;
  rollout?: Partial<Rollout>;
  turns?: Record<string, Turn>;
  outOfService?: Record<string, string>;
};

/** Turns that are not over are out of service, as they are in a cluster. */
function sight({
  rollout,
  turns = {},
  outOfService = {},
  refused = {},
  ...differs
}: Differs = {}): RolloutSight {
  const busy = Object.entries(turns).filter(([, { kind }]) => kind !== 'Succeeded');
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
    turns: new Map(Object.entries(turns)),
    outOfService: new Map([
      ...busy.map(([name]) => [name, inTurn] as const),
      ...Object.entries(outOfService),
    ]),
    budget: 10,
    approved: false,
    approvedNodes: [],
    paused: false,
    refused: new Map(Object.entries(refused)),
    isOver: false,
    now,
    ...differs,
  };
}

const zoned = [
  node('n1', { [zone]: 'b' }),
  node('n2', { [zone]: 'a' }),
  node('n3', { [zone]: 'a' }),
  node('n4'),
];

describe('turns begin', () => {
  test.each<{ when: string; given: Differs; want: string[] }>([
    { when: 'one at a time, by name', given: {}, want: ['n1'] },
    { when: 'not on a node whose turn is refused', given: { refused: { n1: 'no' } }, want: ['n2'] },
    { when: 'two at a time', given: { rollout: { maxUnavailable: 2 } }, want: ['n1', 'n2'] },
    { when: 'half of them at a time', given: { rollout: { maxUnavailable: '50%' } }, want: ['n1', 'n2'] },
    {
      when: 'as many as there is room beside those under way',
      given: { rollout: { maxUnavailable: 2 }, turns: { n1: underWay } },
      want: ['n2'],
    },
    { when: 'after those that had theirs', given: { turns: { n1: succeeded() } }, want: ['n2'] },
    {
      when: 'by a label, without it last',
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
      when: 'in the zone that is being worked on',
      given: {
        rollout: { topologyKey: zone, maxUnavailable: 4 },
        nodes: zoned,
        turns: { n4: succeeded(), n3: underWay },
      },
      want: ['n2'],
    },
    {
      when: 'as many as the cluster can spare',
      given: { rollout: { maxUnavailable: 4 }, budget: 3, outOfService: { other: 'it is not ready' } },
      want: ['n1', 'n2'],
    },
    {
      when: 'not on nodes that are out of service already',
      given: { rollout: { maxUnavailable: 2 }, outOfService: { n1: 'somebody cordoned it' } },
      want: ['n2'],
    },
    { when: 'once the window is approved', given: { approval: 'PerWindow', approved: true }, want: ['n1'] },
    {
      when: 'on the nodes that are approved',
      given: { approval: 'PerNode', approvedNodes: ['n3'], rollout: { maxUnavailable: 4 } },
      want: ['n3'],
    },
    {
      when: 'when the last one has been back for long enough',
      given: { rollout: { soakSeconds: 60 }, turns: { n1: succeeded(60) } },
      want: ['n2'],
    },
    {
      when: 'as long as fewer have failed than may',
      given: { rollout: { maxFailures: 2, maxUnavailable: 2 }, turns: { n1: failed } },
      want: ['n2'],
    },
  ])('$when', ({ given, want }) => {
    expect(decideRollout(sight(given))).toEqual({ kind: 'Start', nodes: want });
  });
});

describe('no turn begins', () => {
  test.each<{ when: string; given: Differs; reason: string; message: string }>([
    {
      when: 'after the window is over',
      given: { isOver: true },
      reason: 'WindowOver',
      message: 'The window is over; 4 nodes are left for the next one.',
    },
    {
      when: 'while it is paused',
      given: { paused: true },
      reason: 'Paused',
      message: 'Paused: resume lets further nodes begin.',
    },
    {
      when: 'after too many failures',
      given: { turns: { n2: failed }, rollout: { maxUnavailable: 4 } },
      reason: 'TooManyFailures',
      message:
        'Stopped after 1 failure (n2): see to these nodes, then advance their turns or delete their NodeMaintenances.',
    },
    {
      when: 'before the window is approved',
      given: { approval: 'PerWindow' },
      reason: 'ApprovalNeeded',
      message: 'Waiting for somebody to approve the window; 4 nodes are left.',
    },
    {
      when: 'before a node is approved that is left',
      given: { approval: 'PerNode', approvedNodes: ['n1'], turns: { n1: succeeded() } },
      reason: 'ApprovalNeeded',
      message: 'Waiting for somebody to approve one of the nodes n2, n3, n4.',
    },
    {
      when: 'while the last one soaks',
      given: { rollout: { soakSeconds: 60 }, turns: { n1: succeeded(30) } },
      reason: 'Soaking',
      message: 'A node has only just come back: the next begins at 2026-11-21T12:00:30.000Z.',
    },
    {
      when: 'while as many of its nodes are out of service as may be, whoever took them out',
      given: { outOfService: { n4: 'somebody cordoned it' } },
      reason: 'MaxUnavailable',
      message:
        'rollout.maxUnavailable allows 1 of the selected nodes out of service, and there are 1 of them: n4 (somebody cordoned it).',
    },
    {
      when: 'while the cluster can spare none',
      given: { budget: 1, outOfService: { other: 'it is not ready' } },
      reason: 'NodeBudget',
      message:
        'The NodeBudget of the cluster allows 1 nodes out of service, and there are 1 of them: other (it is not ready).',
    },
    {
      when: 'while the budget of the cluster is 0',
      given: { budget: 0 },
      reason: 'NodeBudget',
      message:
        'The NodeBudget of the cluster allows no node out of service: no window begins a turn until its spec.maxUnavailable is more than 0.',
    },
    {
      when: 'while another zone is being worked on',
      given: {
        rollout: { topologyKey: zone, maxUnavailable: 4 },
        nodes: zoned.slice(0, 2),
        turns: { n1: underWay },
      },
      reason: 'TopologyDomain',
      message: `One ${zone} at a time: n1 must be back first.`,
    },
    {
      when: 'while all that are left are out of service',
      given: {
        turns: { n1: succeeded(), n2: succeeded() },
        outOfService: { n3: 'it is not ready', n4: 'maintenance a holds it' },
      },
      reason: 'NodesOutOfService',
      message:
        'The nodes that are left are out of service already: n3 (it is not ready), n4 (maintenance a holds it).',
    },
    {
      when: 'when all have begun',
      given: { nodes: nodes.slice(0, 2), turns: { n1: succeeded(), n2: underWay } },
      reason: 'LastTurns',
      message: 'The last turns are under way: n2.',
    },
    {
      when: 'when all have begun, and one has failed',
      given: { nodes: nodes.slice(0, 2), turns: { n1: failed, n2: underWay } },
      reason: 'LastTurns',
      message:
        'The last turns are under way: n2. The turn of n1 failed: see to these nodes, then advance their turns or delete their NodeMaintenances.',
    },
    {
      when: 'when none is left but those that have failed',
      given: { nodes: nodes.slice(0, 3), turns: { n1: failed, n2: succeeded(), n3: failed } },
      reason: 'FailedTurns',
      message:
        'The turns of n1, n3 failed: see to these nodes, then advance their turns or delete their NodeMaintenances.',
    },
    {
      when: 'when the apiserver refuses those that are left',
      given: {
        nodes: nodes.slice(0, 2),
        turns: { n1: succeeded() },
        refused: { n2: 'its plan is too long' },
      },
      reason: 'TurnRefused',
      message: 'The apiserver refuses the turn of n2: its plan is too long',
    },
    {
      when: 'when it has refused three: the rest would fare no better',
      given: { refused: { n1: 'no', n2: 'no', n3: 'no' } },
      reason: 'TurnRefused',
      message: 'The apiserver refuses the turn of n1, and 2 more: no',
    },
    {
      when: 'when a turn under way is refused what it needs, and there is no room beside it',
      given: { turns: { n1: underWay }, refused: { n1: 'no' } },
      reason: 'TurnRefused',
      message: 'The apiserver refuses the turn of n1: no',
    },
  ])('$when', ({ given, reason, message }) => {
    expect(decideRollout(sight(given))).toMatchObject({ kind: 'Wait', reason, message });
  });
});

test('a rollout is done when every node had its turn, or none is selected', () => {
  const done = { n1: succeeded(), n2: succeeded(), n3: succeeded(), n4: succeeded() };
  expect(decideRollout(sight({ turns: done }))).toEqual({ kind: 'Done' });
  expect(decideRollout(sight({ nodes: [] }))).toEqual({ kind: 'Done' });
});

/** A cluster of up to 12 nodes in up to 3 zones, some of them out of service for other reasons. */
const worlds = fc.record({
  zones: fc.array(fc.constantFrom('a', 'b', 'c'), { minLength: 1, maxLength: 12 }),
  kinds: fc.array(fc.constantFrom('new', 'UnderWay', 'Failed', 'Succeeded', 'out'), {
    minLength: 12,
    maxLength: 12,
  }),
  maxUnavailable: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.constantFrom('10%', '50%', '100%')),
  budget: fc.integer({ min: 0, max: 6 }),
  topologyKey: fc.constantFrom(undefined, zone),
  maxFailures: fc.integer({ min: 1, max: 3 }),
});

function sightOf({
  zones,
  kinds,
  maxUnavailable,
  budget,
  topologyKey,
  maxFailures,
}: typeof worlds extends fc.Arbitrary<infer W> ? W : never): RolloutSight {
  const all = zones.map((value, index) => node(`n${index}`, { [zone]: value }));
  const turns: Record<string, Turn> = {};
  const outOfService: Record<string, string> = {};
  for (const [index, { name }] of all.entries()) {
    const kind = kinds[index];
    if (kind === 'UnderWay' || kind === 'Failed') turns[name] = { kind };
    if (kind === 'Succeeded') turns[name] = succeeded();
    if (kind === 'out') outOfService[name] = 'somebody cordoned it';
  }
  const rollout = { maxUnavailable, maxFailures, ...(topologyKey && { topologyKey }) };
  return sight({ nodes: all, turns, outOfService, budget, rollout });
}

describe('whatever the cluster', () => {
  test('never more nodes are out of service than window and cluster allow, because of what begins', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const seen = sightOf(world);
        const decision = decideRollout(seen);
        if (decision.kind !== 'Start') return;
        const out = new Set([...seen.outOfService.keys(), ...decision.nodes]);
        expect(decision.nodes.every((name) => !seen.outOfService.has(name) && !seen.turns.has(name))).toBe(
          true,
        );
        expect(out.size).toBeLessThanOrEqual(seen.budget);
        expect(out.size).toBeLessThanOrEqual(limitOf(seen.rollout.maxUnavailable, seen.nodes.length));
      }),
    );
  });

  test('nodes of one zone alone have their turn at a time', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const seen = sightOf({ ...world, topologyKey: zone });
        const decision = decideRollout(seen);
        if (decision.kind !== 'Start') return;
        const busy = [...seen.turns].filter(([, { kind }]) => kind !== 'Succeeded').map(([name]) => name);
        const working = new Set([...busy, ...decision.nodes]);
        expect(
          new Set(seen.nodes.filter(({ name }) => working.has(name)).map(({ labels }) => labels[zone])).size,
        ).toBe(1);
      }),
    );
  });

  test('a turn begins when there is room for it', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const seen = sightOf({ ...world, topologyKey: undefined });
        const isNew = ({ name }: { name: string }) => !seen.turns.has(name) && !seen.outOfService.has(name);
        const hasFailed = [...seen.turns.values()].filter(({ kind }) => kind === 'Failed').length;
        const limit = limitOf(seen.rollout.maxUnavailable, seen.nodes.length);
        const room = Math.min(limit, seen.budget) - seen.outOfService.size;
        const mayBegin = seen.nodes.some(isNew) && room > 0 && hasFailed < seen.rollout.maxFailures;
        expect(decideRollout(seen).kind === 'Start').toBe(mayBegin);
      }),
    );
  });

  test('the order in which things are seen changes nothing', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const seen = sightOf(world);
        const reversed = {
          ...seen,
          nodes: seen.nodes.toReversed(),
          turns: new Map([...seen.turns].toReversed()),
          outOfService: new Map([...seen.outOfService].toReversed()),
        };
        expect(decideRollout(reversed)).toEqual(decideRollout(seen));
      }),
    );
  });

  test('played to its end, every node has its turn', () => {
    fc.assert(
      fc.property(worlds, (world) => {
        const kinds = world.kinds.map((kind) => (kind === 'Failed' || kind === 'out' ? 'new' : kind));
        let seen = sightOf({ ...world, kinds, budget: world.budget + 1 });
        for (let step = 0; step < 100; step++) {
          const decision = decideRollout(seen);
          if (decision.kind === 'Done') return;
          const turns = new Map(seen.turns);
          const ended = [...seen.turns].filter(([, { kind }]) => kind === 'UnderWay');
          const begun = decision.kind === 'Start' ? decision.nodes : [];
          for (const name of begun) turns.set(name, underWay);
          if (begun.length === 0) for (const [name] of ended) turns.set(name, succeeded());
          const busy = [...turns].filter(([, { kind }]) => kind === 'UnderWay');
          seen = { ...seen, turns, outOfService: new Map(busy.map(([name]) => [name, inTurn])) };
        }
        throw new Error('it never ends');
      }),
    );
  });
});
