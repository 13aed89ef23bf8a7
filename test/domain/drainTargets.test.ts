import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../api/core.ts';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { completeDrainPlan, entryKey } from '../../domain/drainPlan.ts';
import {
  type DrainTargets,
  join,
  meet,
  resolveDrainTargets,
  targetsPod,
  wishAt,
} from '../../domain/drainTargets.ts';
import { daemonPod, daemons, labelled, mirrorPod, pod, pods, statics } from '../kit/builders.ts';

const max = 2_147_483_647;
const postgres = (podPriority: number) => labelled(pods(podPriority), { app: 'postgres' });

// KEP-4212 > PodTypes and Label Selectors Progression, its six snapshots in its order.
describe('the wish of a maintenance', () => {
  const plan = [pods(1000), postgres(2000), pods(max), daemons(1000), daemons(max), statics(max)];
  test.each([
    { position: 0, wish: [pods(1000), postgres(1000)] },
    { position: 1, wish: [pods(1000), postgres(2000)] },
    { position: 2, wish: [pods(max), postgres(max)] },
    { position: 3, wish: [pods(max), postgres(max), daemons(1000)] },
    { position: 4, wish: [pods(max), postgres(max), daemons(max)] },
    { position: 5, wish: [pods(max), postgres(max), daemons(max), statics(max)] },
  ])('at position $position of the example plan', ({ position, wish }) => {
    expect(wishAt(plan, position)).toEqual(wish);
  });
});

describe('the drain target of a node', () => {
  test.each([
    { when: 'one maintenance selects the node', reached: [], wishes: [[pods(5000)]], want: [pods(5000)] },
    {
      when: 'a (5000) and b (10000): the least powerful wins',
      reached: [],
      wishes: [[pods(10000)], [pods(5000)]],
      want: [pods(5000)],
    },
    {
      when: 'a moves on to 15000: b limits the node',
      reached: [pods(5000)],
      wishes: [[pods(15000)], [pods(10000)]],
      want: [pods(10000)],
    },
    {
      when: 'c arrives late at 2000: no backtracking',
      reached: [pods(10000)],
      wishes: [[pods(10000)], [pods(2000)]],
      want: [pods(10000)],
    },
    {
      when: 'DaemonSet pods wait for every maintenance',
      reached: [],
      wishes: [[pods(max), daemons(1)], [pods(9)]],
      want: [pods(9)],
    },
    {
      when: 'a selector is held to what the other plan wants of its pods',
      reached: [],
      wishes: [[pods(1), postgres(9)], [pods(5)]],
      want: [pods(1), postgres(5)],
    },
  ])('$when', ({ reached, wishes, want }) => {
    expect(resolveDrainTargets(reached, wishes)).toEqual(want);
  });
});

describe('a targeted pod', () => {
  test.each<{ when: string; target: DrainPlanEntry; of: Pod; targeted: boolean }>([
    { when: 'its priority is less', target: pods(10), of: pod({ priority: 9 }), targeted: true },
    { when: 'its priority is equal', target: pods(10), of: pod({ priority: 10 }), targeted: true },
    { when: 'its priority is greater', target: pods(10), of: pod({ priority: 11 }), targeted: false },
    { when: 'without a priority it has the default, 0', target: pods(0), of: pod(), targeted: true },
    {
      when: 'its labels match',
      target: postgres(10),
      of: pod({ labels: { app: 'postgres' } }),
      targeted: true,
    },
    {
      when: 'its labels do not match',
      target: postgres(10),
      of: pod({ labels: { app: 'web' } }),
      targeted: false,
    },
    { when: 'a DaemonSet pod is not a Default pod', target: pods(max), of: daemonPod(), targeted: false },
    { when: 'a DaemonSet pod', target: daemons(max), of: daemonPod(), targeted: true },
    { when: 'a static pod is not a DaemonSet pod', target: daemons(max), of: mirrorPod(), targeted: false },
    { when: 'a static pod', target: statics(max), of: mirrorPod(), targeted: true },
  ])('$when', ({ target, of, targeted }) => {
    expect(targetsPod([target], of)).toBe(targeted);
  });
});

const apps = ['x', 'y'];
const entry: fc.Arbitrary<DrainPlanEntry> = fc
  .record({
    podType: fc.constantFrom('Default' as const, 'DaemonSet' as const, 'Static' as const),
    podPriority: fc.integer({ min: 0, max: 20 }),
    app: fc.option(fc.constantFrom(...apps), { nil: undefined }),
  })
  .map(({ app, ...rest }) => (app === undefined ? rest : labelled(rest, { app })));
const plan = fc
  .array(entry, { maxLength: 6 })
  .map((entries) => completeDrainPlan([...new Map(entries.map((e) => [entryKey(e), e])).values()]));
const wish = fc
  .tuple(plan, fc.nat(17))
  .map(([entries, at]) => wishAt(entries, Math.min(at, entries.length - 1)));
const anyPod = fc
  .record({
    make: fc.constantFrom(pod, daemonPod, mirrorPod),
    priority: fc.integer({ min: 0, max: 25 }),
    app: fc.constantFrom(...apps, 'z'),
  })
  .map(({ make, priority, app }) => make({ priority, labels: { app } }));

describe('the lattice of drain targets', () => {
  test('a wish grows with its position, until it selects every pod', () => {
    fc.assert(
      fc.property(plan, anyPod, (entries, of) => {
        const selected = entries.map((_, position) => targetsPod(wishAt(entries, position), of));
        expect(selected).toEqual(selected.toSorted((a, b) => Number(a) - Number(b)));
        expect(selected.at(-1)).toBe(true);
      }),
    );
  });

  test('a meet selects what every wish selects, a join what any selects', () => {
    fc.assert(
      fc.property(fc.array(wish, { minLength: 1, maxLength: 4 }), anyPod, (wishes, of) => {
        const selected = wishes.map((targets) => targetsPod(targets, of));
        expect(targetsPod(meet(wishes), of)).toBe(selected.every(Boolean));
        expect(targetsPod(join(wishes), of)).toBe(selected.some(Boolean));
      }),
    );
  });

  test('targets do not depend on the order of the maintenances, never backtrack, and are stable', () => {
    fc.assert(
      fc.property(wish, fc.array(wish, { minLength: 1, maxLength: 4 }), (reached: DrainTargets, wishes) => {
        const targets = resolveDrainTargets(reached, wishes);
        expect(resolveDrainTargets(reached, wishes.toReversed())).toEqual(targets);
        expect(join([targets, reached])).toEqual(targets);
        expect(resolveDrainTargets(targets, wishes)).toEqual(targets);
      }),
    );
  });
});
