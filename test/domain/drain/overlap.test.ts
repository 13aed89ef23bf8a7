import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import type { DrainingMaintenance } from '../../../domain/drain/contention.ts';
import { podTypeOf } from '../../../domain/common/pod.ts';
import { type DrainDecision, decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan, entryKey } from '../../../domain/drain/plan.ts';
import {
  desiredTargetsAt,
  type DrainTargets,
  exceeds,
  join,
  targetsPod,
} from '../../../domain/drain/targets.ts';
import { daemonPod, daemons, labelled, liveAgent, mirrorPod, pod, pods } from '../../kit/builders.ts';

interface Actor {
  nodes: string[];
  plan: DrainPlanEntry[];
  position: number;
  createdAt: string;
  /** Node -> the drain targets in its status. */
  published: Map<string, DrainTargets>;
}

/** Overlapping maintenances that decide one after the other, as their activities do. */
class Overlap {
  readonly actors = new Map<string, Actor>();
  readonly pods = new Map<string, { pod: Pod; evacuating: boolean }[]>();
  /** Nodes whose agents report. */
  readonly agents = new Set<string>();

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
      ...(this.agents.has(node) && { agent: liveAgent }),
    }));
    return decideDrain({ maintenance: name, maintenances, nodes, waiting: [], published: own.published });
  }

  /** Decides for one maintenance, creates its Evacuations and publishes its targets. */
  step(name: string): DrainDecision {
    const decision = this.decide(name);
    const own = this.actors.get(name) as Actor;
    for (const each of decision.nodeStatuses) own.published.set(each.nodeRef.name, each.drainTargets);
    for (const each of [...this.pods.values()].flat())
      each.evacuating ||= decision.evacuate.includes(each.pod);
    own.position = Math.min(Math.max(own.position, decision.position), own.plan.length - 1);
    return decision;
  }

  /** Removes the pods of the node that are being evacuated. */
  evacuated(node: string): Pod[] {
    const all = this.pods.get(node) ?? [];
    this.pods.set(
      node,
      all.filter(({ evacuating }) => !evacuating),
    );
    return all.filter(({ evacuating }) => evacuating).map((each) => each.pod);
  }

  evacuatingNodes(): string[] {
    return [...this.pods].filter(([, all]) => all.some(({ evacuating }) => evacuating)).map(([node]) => node);
  }

  /** Returns `node: message [targets]` for each node of a maintenance. */
  statusTexts(name: string): string[] {
    return this.decide(name).nodeStatuses.map(({ nodeRef, drainMessage, drainTargets }) => {
      const targets = drainTargets.map(({ podType, podPriority }) => `${podType} ${podPriority}`).join(' + ');
      return `${nodeRef.name}: ${drainMessage} [${targets}]`;
    });
  }
}

// KEP-4212 > Pod Selection and DrainTargets Example: its snapshots, messages and targets, in its order.
describe("the KEP's example of maintenance-a, -b and -c", () => {
  const overlap = new Overlap();
  const [a, b, c] = ['maintenance-a', 'maintenance-b', 'maintenance-c'];
  overlap.maintenance(a, ['one', 'two'], [pods(5000), pods(15000), daemons(3000)]);
  overlap.maintenance(b, ['one', 'three'], [pods(10000), pods(15000), daemons(4000)]);
  overlap.place(
    'one',
    [4000, 9000, 14000].map((priority) => pod({ priority })),
  );
  overlap.place(
    'two',
    [4500, 14500].map((priority) => pod({ priority })),
  );
  overlap.place(
    'three',
    [9500, 14700].map((priority) => pod({ priority })),
  );
  const step = (...names: string[]) => names.map((name) => overlap.step(name));

  test('"for the intersecting nodes, the entry with the lowest priority in the drainPlan is resolved first"', () => {
    step(a, b);
    expect(overlap.statusTexts(a)).toEqual([
      'one: Evacuating [Default 5000]',
      'two: Evacuating [Default 5000]',
    ]);
    expect(overlap.statusTexts(b)).toEqual([
      'one: Evacuating (limited by maintenance-a) [Default 5000]',
      'three: Evacuating [Default 10000]',
    ]);
  });

  test('"if the node three is drained, then it has to wait for the node one"', () => {
    overlap.evacuated('three');
    step(a, b);
    expect(overlap.statusTexts(b)).toEqual([
      'one: Evacuating (limited by maintenance-a) [Default 5000]',
      'three: Waiting for node one. [Default 10000]',
    ]);
  });

  test('"if the node one is drained, we still have to wait for the maintenance-a to drain node two"', () => {
    overlap.evacuated('one');
    step(a, b);
    expect(overlap.statusTexts(a)).toEqual([
      'one: Waiting for node two. [Default 5000]',
      'two: Evacuating [Default 5000]',
    ]);
    expect(overlap.statusTexts(b)).toEqual([
      'one: Waiting for node two (maintenance-a). [Default 5000]',
      'three: Waiting for node two (maintenance-a). [Default 10000]',
    ]);
  });

  test('"once the node two drains, we can increment the drainTargets"', () => {
    overlap.evacuated('two');
    step(a, b, a, b);
    expect(overlap.statusTexts(a)).toEqual([
      'one: Evacuating (limited by maintenance-b) [Default 10000]',
      'two: Evacuating [Default 15000]',
    ]);
    expect(overlap.statusTexts(b)).toEqual([
      'one: Evacuating [Default 10000]',
      'three: Waiting for node one. [Default 10000]',
    ]);
  });

  test('"maintenance-c ... will be fast-forwarded for node one regardless of its drainPlan", with an Event, once', () => {
    overlap.maintenance(c, ['one', 'four'], [pods(2000), pods(15000)]);
    overlap.place(
      'four',
      [1000, 14000].map((priority) => pod({ priority })),
    );
    const [first, second] = step(c, c);
    expect(first?.fastForwarded).toEqual([{ node: 'one', by: 'fast-forwarded by older maintenance-b' }]);
    expect(second?.fastForwarded).toEqual([]);
    expect(overlap.statusTexts(c)).toEqual([
      'four: Evacuating [Default 2000]',
      'one: Evacuating (fast-forwarded by older maintenance-b) [Default 10000]',
    ]);
  });

  test('in the end all three are drained', () => {
    for (let round = 0; round < 20; round++) {
      for (const node of ['one', 'two', 'three', 'four']) overlap.evacuated(node);
      step(a, b, c);
    }
    for (const name of [a, b, c]) {
      expect(overlap.decide(name).position).toBe(overlap.actors.get(name)?.plan.length);
      expect(overlap.decide(name).nodeStatuses.map(({ drainMessage }) => drainMessage)).toEqual([
        'Drained',
        'Drained',
      ]);
    }
  });
});

// A deviation from KEP-4212 > Pod Selection: ADR 67.
describe('the next entry of a plan', () => {
  const overlap = new Overlap();
  overlap.maintenance('a', ['one', 'two'], [pods(5000), pods(15000)]);
  overlap.maintenance('b', ['one', 'three'], [pods(10000), pods(15000)]);
  for (const node of ['one', 'two'])
    overlap.place(node, [pod({ priority: 5000 }), pod({ name: `last-on-${node}`, priority: 15000 })]);
  overlap.place('three', [pod({ priority: 10000 })]);
  for (const name of ['a', 'b']) overlap.step(name);
  for (const node of ['one', 'two']) overlap.evacuated(node);
  overlap.step('a');

  test('is reached when the own nodes are done, while a node of an intersecting maintenance is not', () => {
    expect(overlap.statusTexts('a')).toEqual([
      'one: Waiting for node two, node three (b). [Default 10000]',
      'two: Evacuating [Default 15000]',
    ]);
    expect(overlap.statusTexts('b')[1]).toBe('three: Evacuating [Default 10000]');
  });

  test('selects nothing more on the shared node until the intersecting maintenance is done', () => {
    expect(overlap.step('a').evacuate.map(({ metadata }) => metadata.name)).toEqual(['last-on-two']);
    overlap.evacuated('two');
    expect(overlap.step('a').evacuate).toEqual([]);
    overlap.evacuated('three');
    overlap.step('b');
    expect(overlap.step('a').evacuate.map(({ metadata }) => metadata.name)).toEqual(['last-on-one']);
  });
});

describe('the message of a waiting node', () => {
  test('names all nodes: its own first, and those of other maintenances with their names', () => {
    const overlap = new Overlap();
    overlap.maintenance('limiter', ['shared', 'far-1', 'far-2'], [pods(1)]);
    overlap.maintenance('own', ['here', 'near', 'shared'], [pods(5)]);
    overlap.place('shared', [pod({ priority: 5 })]);
    overlap.place('near', [pod({ priority: 5 })]);
    for (const node of ['far-1', 'far-2']) overlap.place(node, [pod({ priority: 1 })]);
    expect(overlap.statusTexts('own')[0]).toBe(
      'here: Waiting for node near, nodes far-1, far-2 (limiter). [Default 5]',
    );
  });
});

describe('a thousand nodes that two maintenances share', () => {
  test('wait for one other node; the decision visits every maintenance once', () => {
    const overlap = new Overlap();
    const shared = Array.from({ length: 1_000 }, (_, i) => `n-${i}`);
    overlap.maintenance('a', [...shared, 'last'], [pods(5)]);
    overlap.maintenance('b', shared, [pods(10)]);
    overlap.place('last', [pod({ priority: 5 })]);
    for (const node of shared) overlap.place(node, [pod({ priority: 10 })]);
    const messages = new Set(overlap.decide('b').nodeStatuses.map(({ drainMessage }) => drainMessage));
    expect([...messages]).toEqual(['Waiting for node last (a).']);
  });
});

describe('plans with opposite orders', () => {
  const x = { app: 'x' };
  const y = { app: 'y' };
  const conflict = () => {
    const overlap = new Overlap();
    overlap.maintenance('a', ['one', 'two'], [labelled(pods(10), x), pods(50)]);
    overlap.maintenance('b', ['one', 'two'], [labelled(pods(10), y), pods(50)]);
    overlap.place('one', [pod({ priority: 5, labels: x }), pod({ priority: 5, labels: y })]);
    return overlap;
  };

  test('the oldest proceeds, and names the maintenances that it overrules', () => {
    const decision = conflict().decide('a');
    expect(decision.overruled).toEqual(['b']);
    expect(decision.evacuate.map(({ metadata }) => metadata.labels)).toEqual([x]);
  });

  test('the younger waits until then, and is fast-forwarded afterwards', () => {
    const overlap = conflict();
    expect(overlap.decide('b')).toMatchObject({ overruled: [], evacuate: [] });
    expect(overlap.statusTexts('b')[0]).toBe('one: Evacuating (limited by a) []');
    overlap.step('a');
    expect(overlap.decide('b').fastForwarded).toEqual(
      ['one', 'two'].map((node) => ({ node, by: 'fast-forwarded by older a' })),
    );
    expect(overlap.decide('a').overruled).toEqual([]);
  });
});

// The minimum of two selectors selects no pod, although both select this one.
describe('plans that select a pod by different labels', () => {
  test('the oldest proceeds', () => {
    const overlap = new Overlap();
    const both = { app: 'x', tier: 'y' };
    overlap.maintenance('a', ['one'], [labelled(pods(5000), { app: 'x' })]);
    overlap.maintenance('b', ['one'], [labelled(pods(5000), { tier: 'y' })]);
    overlap.place('one', [pod({ priority: 0, labels: both })]);
    expect(overlap.statusTexts('b')).toEqual(['one: Evacuating (limited by a) []']);
    const { overruled, evacuate } = overlap.step('a');
    expect(overruled).toEqual(['b']);
    expect(evacuate.map(({ metadata }) => metadata.labels)).toEqual([both]);
  });
});

const apps = ['x', 'y'];
const entry: fc.Arbitrary<DrainPlanEntry> = fc
  .record({
    podType: fc.constantFrom('Default' as const, 'DaemonSet' as const, 'Static' as const),
    podPriority: fc.constantFrom(1, 5, 10, 50, 100),
    labels: fc.option(fc.constantFrom(...apps.map((app) => ({ app })), ...apps.map((tier) => ({ tier }))), {
      nil: undefined,
    }),
  })
  .map(({ labels, ...rest }) => (labels === undefined ? rest : labelled(rest, labels)));
const planOfEntries = (entries: fc.Arbitrary<DrainPlanEntry>): fc.Arbitrary<DrainPlanEntry[]> =>
  fc
    .array(entries, { maxLength: 4 })
    .map((all) => [...new Map(all.map((each) => [entryKey(each), each])).values()]);
const nodeNames = ['n0', 'n1', 'n2', 'n3'];
const overlapOf = (plans: fc.Arbitrary<DrainPlanEntry[]>): fc.Arbitrary<Overlap> =>
  fc
    .record({
      maintenances: fc.array(fc.record({ nodes: fc.subarray(nodeNames, { minLength: 1 }), plan: plans }), {
        minLength: 1,
        maxLength: 4,
      }),
      pods: fc.array(
        fc.record({
          node: fc.constantFrom(...nodeNames),
          make: fc.constantFrom(pod, pod, pod, daemonPod, mirrorPod),
          priority: fc.constantFrom(0, 1, 3, 5, 7, 10, 30, 50, 80, 100, 1_000_000_000),
          app: fc.constantFrom(...apps, 'z'),
          tier: fc.constantFrom(...apps, 'z'),
        }),
        { maxLength: 24 },
      ),
      agents: fc.subarray(nodeNames),
    })
    .map(({ maintenances, pods: placed, agents }) => {
      const overlap = new Overlap();
      for (const node of agents) overlap.agents.add(node);
      for (const [i, { nodes, plan }] of maintenances.entries()) overlap.maintenance(`m${i}`, nodes, plan);
      for (const { node, make, priority, ...labels } of placed)
        overlap.place(node, [make({ priority, labels })]);
      return overlap;
    });
const anyOverlap = overlapOf(planOfEntries(entry));
const overlapWithoutSelectors = overlapOf(
  planOfEntries(entry.map(({ podType, podPriority }) => ({ podType, podPriority }))),
);

describe('any set of overlapping maintenances', () => {
  test('finishes in any order of decisions and pods, as long as pods leave', () => {
    fc.assert(
      fc.property(anyOverlap, fc.infiniteStream(fc.nat()), (overlap, choices) => {
        const names = [...overlap.actors.keys()];
        const left = () =>
          names.filter((name) => overlap.decide(name).position < planOf(overlap, name).length);
        // Whether all are finished costs as much as several steps.
        const batch = 10;
        for (let steps = 0; left().length > 0; steps += batch) {
          expect(steps).toBeLessThan(2_000);
          for (let step = 0; step < batch; step++) {
            overlap.step(names[choices.next().value % names.length] as string);
            // The pods of one node, or none: a node whose pods stay would cost a step.
            const leaving = overlap.evacuatingNodes();
            const node = leaving[choices.next().value % (leaving.length + 1)];
            if (node !== undefined) overlap.evacuated(node);
          }
        }
        const held = new Set([...overlap.actors.values()].flatMap(({ nodes }) => nodes));
        for (const node of held) {
          const living = (overlap.pods.get(node) ?? []).map((each) => podTypeOf(each.pod));
          expect(overlap.agents.has(node) ? [] : ['Static']).toEqual(expect.arrayContaining(living));
        }
      }),
      { numRuns: 400 },
    );
  });

  test('never decreases drain targets, and evacuates only the pods that they select, while agents come and go', () => {
    fc.assert(
      fc.property(anyOverlap, fc.infiniteStream(fc.nat()), (overlap, choices) => {
        const names = [...overlap.actors.keys()];
        for (let step = 0; step < 30; step++) {
          const name = names[choices.next().value % names.length] as string;
          const changing = nodeNames[choices.next().value % nodeNames.length] as string;
          if (!overlap.agents.delete(changing)) overlap.agents.add(changing);
          const before = new Map(overlap.actors.get(name)?.published);
          const decision = overlap.step(name);
          for (const { nodeRef, drainTargets } of decision.nodeStatuses)
            expect(exceeds(before.get(nodeRef.name) ?? [], drainTargets)).toBe(false);
          const withAgent = [...overlap.agents].flatMap((node) => overlap.pods.get(node) ?? []);
          for (const one of decision.evacuate.filter((each) => podTypeOf(each) === 'Static'))
            expect(withAgent.map((each) => each.pod)).toContain(one);
          for (const one of decision.evacuate)
            expect(decision.nodeStatuses.some(({ drainTargets }) => targetsPod(drainTargets, one))).toBe(
              true,
            );
          overlap.evacuated(nodeNames[choices.next().value % nodeNames.length] as string);
        }
      }),
    );
  });

  // "If we were to start evacuating higher priority pods from node one earlier, we would not conform to the drainPlan of maintenance-a."
  test('conforms to every plan: no pod is evacuated before those of earlier entries are gone from all nodes of the plan', () => {
    const firstEntry = (entries: DrainPlanEntry[], { pod: one }: { pod: Pod }) =>
      entries.findIndex((_, position) => targetsPod(desiredTargetsAt(entries, position), one));
    fc.assert(
      fc.property(overlapWithoutSelectors, fc.infiniteStream(fc.nat()), (overlap, choices) => {
        const names = [...overlap.actors.keys()];
        const podsOf = (node: string) =>
          (overlap.pods.get(node) ?? []).filter(
            (each) => overlap.agents.has(node) || podTypeOf(each.pod) !== 'Static',
          );
        for (let step = 0; step < 60; step++) {
          const { evacuate } = overlap.step(names[choices.next().value % names.length] as string);
          for (const { nodes, plan } of overlap.actors.values()) {
            const left = nodes.flatMap(podsOf);
            const leaving = left.filter((each) => evacuate.includes(each.pod));
            const earliest = Math.min(...left.map((each) => firstEntry(plan, each)));
            for (const each of leaving) expect(firstEntry(plan, each)).toBe(earliest);
          }
          overlap.evacuated(nodeNames[choices.next().value % nodeNames.length] as string);
        }
      }),
      { numRuns: 50 },
    );
  });

  test('gives the same decisions for any order of maintenances, nodes and pods', () => {
    fc.assert(
      fc.property(anyOverlap, (overlap) => {
        const reversed = new Overlap();
        for (const [name, actor] of [...overlap.actors].toReversed())
          reversed.actors.set(name, { ...actor, nodes: actor.nodes.toReversed() });
        for (const [node, living] of [...overlap.pods].toReversed())
          reversed.pods.set(node, living.toReversed());
        for (const node of overlap.agents) reversed.agents.add(node);
        for (const name of overlap.actors.keys()) expect(reversed.decide(name)).toEqual(overlap.decide(name));
      }),
    );
  });
});

function planOf(overlap: Overlap, name: string): DrainPlanEntry[] {
  return overlap.actors.get(name)?.plan ?? [];
}
