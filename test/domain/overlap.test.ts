import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core.ts';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import type { DrainingMaintenance } from '../../domain/contention.ts';
import { type DrainDecision, decideDrain } from '../../domain/drain.ts';
import { completeDrainPlan, entryKey } from '../../domain/drainPlan.ts';
import { type DrainTargets, exceeds, join, targetsPod } from '../../domain/drainTargets.ts';
import { daemonPod, daemons, labelled, pod, pods } from '../kit/builders.ts';

interface Actor {
  nodes: string[];
  plan: DrainPlanEntry[];
  position: number;
  createdAt: string;
  /** What its status says of each node. */
  published: Map<string, DrainTargets>;
}

/** A world of overlapping maintenances: their decisions, taken one after the other as their activities do. */
class Overlap {
  readonly actors = new Map<string, Actor>();
  readonly pods = new Map<string, { pod: Pod; evacuating: boolean }[]>();

  maintenance(name: string, nodes: string[], plan: DrainPlanEntry[]): void {
    const createdAt = `2026-01-01T00:00:${String(this.actors.size).padStart(2, '0')}Z`;
    const position = 0;
    this.actors.set(name, {
      nodes,
      plan: completeDrainPlan(plan),
      position,
      createdAt,
      published: new Map(),
    });
  }

  place(node: string, living: readonly Pod[]): void {
    const all = this.pods.get(node) ?? [];
    this.pods.set(node, [...all, ...living.map((one) => ({ pod: one, evacuating: false }))]);
  }

  decide(name: string): DrainDecision {
    const own = this.actors.get(name) as Actor;
    const maintenances: DrainingMaintenance[] = [...this.actors].map(([each, actor]) => ({
      ...actor,
      name: each,
    }));
    const names = new Set(maintenances.flatMap(({ nodes }) => nodes));
    const nodes = [...names].map((node) => ({
      name: node,
      pods: this.pods.get(node) ?? [],
      reached: join([...this.actors.values()].map(({ published }) => published.get(node) ?? [])),
    }));
    return decideDrain({ maintenance: name, maintenances, nodes, waiting: [], published: own.published });
  }

  /** Decides for one maintenance, makes its Evacuations and publishes its targets. */
  turn(name: string): DrainDecision {
    const decision = this.decide(name);
    const own = this.actors.get(name) as Actor;
    for (const each of decision.nodeStatuses) own.published.set(each.nodeRef.name, each.drainTargets);
    for (const each of [...this.pods.values()].flat())
      each.evacuating ||= decision.evacuate.includes(each.pod);
    own.position = Math.min(Math.max(own.position, decision.position), own.plan.length - 1);
    return decision;
  }

  /** All pods of the node that are being evacuated are gone. */
  gone(node: string): Pod[] {
    const all = this.pods.get(node) ?? [];
    this.pods.set(
      node,
      all.filter(({ evacuating }) => !evacuating),
    );
    return all.filter(({ evacuating }) => evacuating).map((each) => each.pod);
  }

  /** `node: message, target` for each node of a maintenance. */
  shown(name: string): string[] {
    return this.decide(name).nodeStatuses.map(({ nodeRef, drainMessage, drainTargets }) => {
      const targets = drainTargets.map(({ podType, podPriority }) => `${podType} ${podPriority}`).join(' + ');
      return `${nodeRef.name}: ${drainMessage} [${targets}]`;
    });
  }
}

// KEP-4212 > Pod Selection and DrainTargets Example: its snapshots, messages and targets, in its order.
describe("the KEP's story of maintenance-a, -b and -c", () => {
  const world = new Overlap();
  const [a, b, c] = ['maintenance-a', 'maintenance-b', 'maintenance-c'];
  world.maintenance(a, ['one', 'two'], [pods(5000), pods(15000), daemons(3000)]);
  world.maintenance(b, ['one', 'three'], [pods(10000), pods(15000), daemons(4000)]);
  world.place(
    'one',
    [4000, 9000, 14000].map((priority) => pod({ priority })),
  );
  world.place(
    'two',
    [4500, 14500].map((priority) => pod({ priority })),
  );
  world.place(
    'three',
    [9500, 14700].map((priority) => pod({ priority })),
  );
  const turn = (...names: string[]) => names.map((name) => world.turn(name));

  test('"for the intersecting nodes, the entry with the lowest priority in the drainPlan is resolved first"', () => {
    turn(a, b);
    expect(world.shown(a)).toEqual(['one: Evacuating [Default 5000]', 'two: Evacuating [Default 5000]']);
    expect(world.shown(b)).toEqual([
      'one: Evacuating (limited by maintenance-a) [Default 5000]',
      'three: Evacuating [Default 10000]',
    ]);
  });

  test('"if the node three is drained, then it has to wait for the node one"', () => {
    world.gone('three');
    turn(a, b);
    expect(world.shown(b)).toEqual([
      'one: Evacuating (limited by maintenance-a) [Default 5000]',
      'three: Waiting for node one. [Default 10000]',
    ]);
  });

  test('"if the node one is drained, we still have to wait for the maintenance-a to drain node two"', () => {
    world.gone('one');
    turn(a, b);
    expect(world.shown(a)).toEqual([
      'one: Waiting for node two. [Default 5000]',
      'two: Evacuating [Default 5000]',
    ]);
    expect(world.shown(b)).toEqual([
      'one: Waiting for node two (maintenance-a). [Default 5000]',
      'three: Waiting for node two (maintenance-a). [Default 10000]',
    ]);
  });

  test('"once the node two drains, we can increment the drainTargets"', () => {
    world.gone('two');
    turn(a, b, a, b);
    expect(world.shown(a)).toEqual([
      'one: Evacuating (limited by maintenance-b) [Default 10000]',
      'two: Evacuating [Default 15000]',
    ]);
    expect(world.shown(b)).toEqual([
      'one: Evacuating [Default 10000]',
      'three: Waiting for node one. [Default 10000]',
    ]);
  });

  test('"maintenance-c ... will be fast-forwarded for node one regardless of its drainPlan", with an Event, once', () => {
    world.maintenance(c, ['one', 'four'], [pods(2000), pods(15000)]);
    world.place(
      'four',
      [1000, 14000].map((priority) => pod({ priority })),
    );
    const [first, second] = turn(c, c);
    expect(first?.fastForwarded).toEqual([{ node: 'one', by: 'fast-forwarded by older maintenance-b' }]);
    expect(second?.fastForwarded).toEqual([]);
    expect(world.shown(c)).toEqual([
      'four: Evacuating [Default 2000]',
      'one: Evacuating (fast-forwarded by older maintenance-b) [Default 10000]',
    ]);
  });

  test('in the end all three are drained', () => {
    for (let round = 0; round < 20; round++) {
      for (const node of ['one', 'two', 'three', 'four']) world.gone(node);
      turn(a, b, c);
    }
    for (const name of [a, b, c]) {
      expect(world.decide(name).position).toBe(world.actors.get(name)?.plan.length);
      expect(world.decide(name).nodeStatuses.map(({ drainMessage }) => drainMessage)).toEqual([
        'Drained',
        'Drained',
      ]);
    }
  });
});

describe('the message of a node that waits', () => {
  test('names all nodes, its own maintenance first, and those of others with their maintenance', () => {
    const world = new Overlap();
    world.maintenance('limiter', ['shared', 'far-1', 'far-2'], [pods(1)]);
    world.maintenance('own', ['here', 'near', 'shared'], [pods(5)]);
    world.place('shared', [pod({ priority: 5 })]);
    world.place('near', [pod({ priority: 5 })]);
    for (const node of ['far-1', 'far-2']) world.place(node, [pod({ priority: 1 })]);
    expect(world.shown('own')[0]).toBe(
      'here: Waiting for node near, nodes far-1, far-2 (limiter). [Default 5]',
    );
  });
});

describe('a thousand nodes that two maintenances share', () => {
  test('wait for one elsewhere; the decision asks every maintenance once', () => {
    const world = new Overlap();
    const shared = Array.from({ length: 1_000 }, (_, i) => `n-${i}`);
    world.maintenance('a', [...shared, 'last'], [pods(5)]);
    world.maintenance('b', shared, [pods(10)]);
    world.place('last', [pod({ priority: 5 })]);
    for (const node of shared) world.place(node, [pod({ priority: 10 })]);
    const messages = new Set(world.decide('b').nodeStatuses.map(({ drainMessage }) => drainMessage));
    expect([...messages]).toEqual(['Waiting for node last (a).']);
  });
});

describe('plans that demand opposite orders', () => {
  const x = { app: 'x' };
  const y = { app: 'y' };
  const conflict = () => {
    const world = new Overlap();
    world.maintenance('a', ['one', 'two'], [labelled(pods(10), x), pods(50)]);
    world.maintenance('b', ['one', 'two'], [labelled(pods(10), y), pods(50)]);
    world.place('one', [pod({ priority: 5, labels: x }), pod({ priority: 5, labels: y })]);
    return world;
  };

  test('the oldest gets its wish, and names whom it passes', () => {
    const decision = conflict().decide('a');
    expect(decision.overruled).toEqual(['b']);
    expect(decision.evacuate.map(({ metadata }) => metadata.labels)).toEqual([x]);
  });

  test('the younger waits until then, and is fast-forwarded after', () => {
    const world = conflict();
    expect(world.decide('b')).toMatchObject({ overruled: [], evacuate: [] });
    expect(world.shown('b')[0]).toBe('one: Evacuating (limited by a) []');
    world.turn('a');
    expect(world.decide('b').fastForwarded).toEqual(
      ['one', 'two'].map((node) => ({ node, by: 'fast-forwarded by older a' })),
    );
    expect(world.decide('a').overruled).toEqual([]);
  });
});

const apps = ['x', 'y'];
const entry: fc.Arbitrary<DrainPlanEntry> = fc
  .record({
    podType: fc.constantFrom('Default' as const, 'DaemonSet' as const, 'Static' as const),
    podPriority: fc.constantFrom(1, 5, 10, 50, 100),
    app: fc.option(fc.constantFrom(...apps), { nil: undefined }),
  })
  .map(({ app, ...rest }) => (app === undefined ? rest : labelled(rest, { app })));
const somePlan = fc
  .array(entry, { maxLength: 4 })
  .map((entries) => [...new Map(entries.map((each) => [entryKey(each), each])).values()]);
const nodeNames = ['n0', 'n1', 'n2', 'n3'];
const overlap = fc
  .record({
    maintenances: fc.array(fc.record({ nodes: fc.subarray(nodeNames, { minLength: 1 }), plan: somePlan }), {
      minLength: 1,
      maxLength: 4,
    }),
    pods: fc.array(
      fc.record({
        node: fc.constantFrom(...nodeNames),
        make: fc.constantFrom(pod, pod, pod, daemonPod),
        priority: fc.constantFrom(0, 1, 3, 5, 7, 10, 30, 50, 80, 100, 1_000_000_000),
        app: fc.constantFrom(...apps, 'z'),
      }),
      { maxLength: 24 },
    ),
  })
  .map(({ maintenances, pods: placed }) => {
    const world = new Overlap();
    for (const [i, { nodes, plan }] of maintenances.entries()) world.maintenance(`m${i}`, nodes, plan);
    for (const { node, make, priority, app } of placed)
      world.place(node, [make({ priority, labels: { app } })]);
    return world;
  });

describe('any set of overlapping maintenances', () => {
  test('finishes, whoever decides when and whichever pod leaves first, as long as pods do leave', () => {
    fc.assert(
      fc.property(overlap, fc.infiniteStream(fc.nat()), (world, choices) => {
        const names = [...world.actors.keys()];
        const left = () => names.filter((name) => world.decide(name).position < planOf(world, name).length);
        for (let step = 0; left().length > 0; step++) {
          expect(step).toBeLessThan(2_000);
          world.turn(names[choices.next().value % names.length] as string);
          world.gone(nodeNames[choices.next().value % nodeNames.length] as string);
        }
        const held = new Set([...world.actors.values()].flatMap(({ nodes }) => nodes));
        for (const node of held) expect(world.pods.get(node) ?? []).toEqual([]);
      }),
      { numRuns: 400 },
    );
  });

  test('never takes drain targets back, and evacuates only what they select', () => {
    fc.assert(
      fc.property(overlap, fc.infiniteStream(fc.nat()), (world, choices) => {
        const names = [...world.actors.keys()];
        for (let step = 0; step < 30; step++) {
          const name = names[choices.next().value % names.length] as string;
          const before = new Map(world.actors.get(name)?.published);
          const decision = world.turn(name);
          for (const { nodeRef, drainTargets } of decision.nodeStatuses)
            expect(exceeds(before.get(nodeRef.name) ?? [], drainTargets)).toBe(false);
          for (const one of decision.evacuate)
            expect(decision.nodeStatuses.some(({ drainTargets }) => targetsPod(drainTargets, one))).toBe(
              true,
            );
          world.gone(nodeNames[choices.next().value % nodeNames.length] as string);
        }
      }),
    );
  });

  test('is decided the same in whichever order maintenances, nodes and pods are listed', () => {
    fc.assert(
      fc.property(overlap, (world) => {
        const turned = new Overlap();
        for (const [name, actor] of [...world.actors].toReversed())
          turned.actors.set(name, { ...actor, nodes: actor.nodes.toReversed() });
        for (const [node, living] of [...world.pods].toReversed()) turned.pods.set(node, living.toReversed());
        for (const name of world.actors.keys()) expect(turned.decide(name)).toEqual(world.decide(name));
      }),
    );
  });
});

function planOf(world: Overlap, name: string): DrainPlanEntry[] {
  return world.actors.get(name)?.plan ?? [];
}
