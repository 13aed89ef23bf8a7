import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import { completeDrainPlan, entryKey } from '../../../domain/drain/plan.ts';
import {
  type DrainTargets,
  join,
  meet,
  resolveDrainTargets,
  targetsPod,
  desiredTargetsAt,
} from '../../../domain/drain/targets.ts';
import { daemonPod, daemons, labelled, mirrorPod, pod, pods, statics } from '../../kit/builders.ts';

const max = 2_147_483_647;
const postgres = (podPriority: number) => labelled(pods(podPriority), { app: 'postgres' });

// KEP-4212 > PodTypes and Label Selectors Progression, its six snapshots in its order.
describe('the desired targets of a maintenance', () => {
  const plan = [pods(1000), postgres(2000), pods(max), daemons(1000), daemons(max), statics(max)];
  test.each([
    { position: 0, desired: [pods(1000), postgres(1000)] },
    { position: 1, desired: [pods(1000), postgres(2000)] },
    { position: 2, desired: [pods(max), postgres(max)] },
    { position: 3, desired: [pods(max), postgres(max), daemons(1000)] },
    { position: 4, desired: [pods(max), postgres(max), daemons(max)] },
    { position: 5, desired: [pods(max), postgres(max), daemons(max), statics(max)] },
  ])('at position $position of the example plan', ({ position, desired }) => {
    expect(desiredTargetsAt(plan, position)).toEqual(desired);
  });
});

describe('the drain target of a node', () => {
  test.each([
    { when: 'one maintenance selects the node', reached: [], desired: [[pods(5000)]], want: [pods(5000)] },
    {
      when: 'a (5000) and b (10000): the least powerful wins',
      reached: [],
      desired: [[pods(10000)], [pods(5000)]],
      want: [pods(5000)],
    },
    {
      when: 'a advances to 15000: b limits the node',
      reached: [pods(5000)],
      desired: [[pods(15000)], [pods(10000)]],
      want: [pods(10000)],
    },
    {
      when: 'c arrives late at 2000: no backtracking',
      reached: [pods(10000)],
      desired: [[pods(10000)], [pods(2000)]],
      want: [pods(10000)],
    },
    {
      when: 'DaemonSet pods wait for every maintenance',
      reached: [],
      desired: [[pods(max), daemons(1)], [pods(9)]],
      want: [pods(9)],
    },
    {
      when: 'a selector is limited to the targets of the other plan for its pods',
      reached: [],
      desired: [[pods(1), postgres(9)], [pods(5)]],
      want: [pods(1), postgres(5)],
    },
  ])('$when', ({ reached, desired, want }) => {
    expect(resolveDrainTargets(reached, desired)).toEqual(want);
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
const desiredTargets = fc
  .tuple(plan, fc.nat(17))
  .map(([entries, at]) => desiredTargetsAt(entries, Math.min(at, entries.length - 1)));
const anyPod = fc
  .record({
    make: fc.constantFrom(pod, daemonPod, mirrorPod),
    priority: fc.integer({ min: 0, max: 25 }),
    app: fc.constantFrom(...apps, 'z'),
  })
  .map(({ make, priority, app }) => make({ priority, labels: { app } }));

describe('the lattice of drain targets', () => {
  test('desired targets grow with the position, until they select every pod', () => {
    fc.assert(
      fc.property(plan, anyPod, (entries, of) => {
        const selected = entries.map((_, position) => targetsPod(desiredTargetsAt(entries, position), of));
        expect(selected).toEqual(selected.toSorted((a, b) => Number(a) - Number(b)));
        expect(selected.at(-1)).toBe(true);
      }),
    );
  });

  test('a meet selects the pods that all targets select, a join those that any selects', () => {
    fc.assert(
      fc.property(fc.array(desiredTargets, { minLength: 1, maxLength: 4 }), anyPod, (desired, of) => {
        const selected = desired.map((targets) => targetsPod(targets, of));
        expect(targetsPod(meet(desired), of)).toBe(selected.every(Boolean));
        expect(targetsPod(join(desired), of)).toBe(selected.some(Boolean));
      }),
    );
  });

  test('targets do not depend on the order of the maintenances, never backtrack, and are stable', () => {
    fc.assert(
      fc.property(
        desiredTargets,
        fc.array(desiredTargets, { minLength: 1, maxLength: 4 }),
        (reached: DrainTargets, desired) => {
          const targets = resolveDrainTargets(reached, desired);
          expect(resolveDrainTargets(reached, desired.toReversed())).toEqual(targets);
          expect(join([targets, reached])).toEqual(targets);
          expect(resolveDrainTargets(targets, desired)).toEqual(targets);
        },
      ),
    );
  });
});
