import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type { NodeMaintenanceStatus } from '../../../api/nodeMaintenance.ts';
import { decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { desiredTargetsAt, targetsPod } from '../../../domain/drain/targets.ts';
import { drainTierAt, lastDrainedTier, tiersWithPods } from '../../../domain/drain/tiers.ts';
import { emptyStatus, withDrain } from '../../../domain/maintenance/status.ts';
import { daemonPod, labelled, liveAgent, mirrorPod, pod, pods as upTo } from '../../kit/builders.ts';

const web = { app: 'web' };
const plan = completeDrainPlan([upTo(1000), labelled(upTo(5000), web), upTo(5000)]);
const position = (text: string) =>
  plan.findIndex(({ podType, podPriority, podSelector }) =>
    [podType, podPriority, ...(podSelector === undefined ? [] : ['web'])].join(' ').startsWith(text),
  );

const somePod = fc
  .record({
    make: fc.constantFrom(pod, daemonPod, mirrorPod),
    priority: fc.constantFrom(0, 1000, 3000, 9000, 2_000_000_000),
    labels: fc.constantFrom({}, web),
  })
  .map(({ make, ...differs }) => make(differs));
const somePods = fc.array(somePod, { maxLength: 8 });

describe('the tiers that contain pods', () => {
  test('are those of the first entry that selects each pod', () => {
    const living = [daemonPod(), pod({ priority: 3000, labels: web }), pod({ priority: 3000 }), mirrorPod()];
    expect(tiersWithPods(plan, 0, living)).toEqual([1, 2, position('DaemonSet'), position('Static')]);
  });

  test('contain late pods of earlier tiers in the current one', () => {
    expect(tiersWithPods(plan, 2, [pod(), daemonPod()])).toEqual([2, position('DaemonSet')]);
  });

  test('are the positions whose desired targets select pods that those before do not', () => {
    fc.assert(
      fc.property(somePods, fc.nat(plan.length - 1), (living, from) => {
        const desired = plan.map((_, at) => desiredTargetsAt(plan, at));
        const isAt = (at: number) => (one: Pod) =>
          targetsPod(desired[at] ?? [], one) && (at === from || !targetsPod(desired[at - 1] ?? [], one));
        const expected = plan.flatMap((_, at) => (at >= from && living.some(isAt(at)) ? [at] : []));
        expect(tiersWithPods(plan, from, living)).toEqual(expected);
      }),
    );
  });
});

type Progress = Pick<NodeMaintenanceStatus, 'drainPosition' | 'drainTier'>;
const at = (drainPosition: number, number?: number, total = number): Progress => ({
  drainPosition,
  ...(number !== undefined && total !== undefined && { drainTier: { number, total } }),
});

describe('the tier of a drain', () => {
  test.each<{ when: string; before: Progress; to: number; tiers: number[]; after: object | undefined }>([
    { when: 'no node has pods', before: at(0), to: 0, tiers: [], after: undefined },
    { when: 'the first tier has pods', before: at(0), to: 0, tiers: [0, 4], after: { number: 1, total: 2 } },
    { when: 'the first tiers are empty', before: at(0), to: 3, tiers: [3], after: { number: 1, total: 1 } },
    { when: 'pods leave', before: at(0, 1, 3), to: 0, tiers: [0, 4], after: { number: 1, total: 2 } },
    { when: 'a tier is drained', before: at(0, 1, 2), to: 4, tiers: [4], after: { number: 2, total: 2 } },
    {
      when: 'a tier gets its first pods',
      before: at(4, 2),
      to: 4,
      tiers: [4, 5],
      after: { number: 2, total: 3 },
    },
    { when: 'all tiers are drained', before: at(4, 2), to: 14, tiers: [], after: { number: 2, total: 2 } },
    { when: 'late pods appear', before: at(14, 2), to: 14, tiers: [14], after: { number: 2, total: 2 } },
    {
      when: 'its pods leave while it is paused',
      before: at(0, 1, 2),
      to: 0,
      tiers: [4],
      after: { number: 1, total: 2 },
    },
    { when: 'it was paused before it started', before: at(0), to: 0, tiers: [4], after: undefined },
  ])('when $when', ({ before, to, tiers, after }) => {
    expect(drainTierAt(before, to, tiers)).toEqual(after);
  });

  test('that was drained last is the one before the current tier, or the current one without pods', () => {
    expect(lastDrainedTier(at(0), [])).toBeUndefined();
    expect(lastDrainedTier(at(3, 1), [3])).toBeUndefined();
    expect(lastDrainedTier(at(4, 2), [4])).toEqual({ number: 1, total: 2 });
    expect(lastDrainedTier(at(14, 2), [])).toEqual({ number: 2, total: 2 });
  });
});

/** Returns the status after a decision about these pods of one node. */
function nextStatus(status: NodeMaintenanceStatus, living: readonly Pod[], isPaused: boolean) {
  const own = { name: 'own', createdAt: '2026-01-01T00:00:00Z', plan, nodes: ['one'] };
  const decision = decideDrain({
    maintenance: 'own',
    maintenances: [{ ...own, position: status.drainPosition }],
    nodes: [
      {
        name: 'one',
        pods: living.map((one) => ({ pod: one, evacuating: false })),
        reached: [],
        agent: liveAgent,
      },
    ],
    waiting: [],
    published: new Map(),
  });
  const input = {
    planLength: plan.length,
    now: '2026-01-01T12:00:00Z',
    existing: new Set(['one']),
    isPaused,
  };
  return { decision, status: withDrain(status, decision, input) };
}

/** A step of a drain: pods that appear, then the share of targeted pods that leave. */
const someStep = fc.record({
  late: fc.array(somePod, { maxLength: 2 }),
  leaves: fc.boolean(),
  isPaused: fc.boolean(),
});

test('its number never exceeds the total, never decreases, and counts no empty tier', () => {
  fc.assert(
    fc.property(somePods, fc.array(someStep, { maxLength: 30 }), (initial, steps) => {
      let living: readonly Pod[] = initial;
      let status = emptyStatus;
      const tiersWithPodsSoFar = new Set<number>();
      for (const { late, leaves, isPaused } of steps) {
        const next = nextStatus(status, [...living, ...late], isPaused);
        const before = status.drainTier?.number ?? 0;
        living = [...living, ...late];
        status = next.status;
        const { drainTier, drainPosition } = status;
        const tiers = tiersWithPods(plan, drainPosition, living);
        // At the last position the plan is drained, unless a static pod has such a priority: late pods add no tier.
        const isCounted = drainPosition < plan.length - 1 || tiersWithPodsSoFar.size === 0;
        if (isCounted && tiers.includes(drainPosition)) tiersWithPodsSoFar.add(drainPosition);
        const { number, total } = drainTier ?? { number: 0, total: 0 };
        expect(number).toBe(tiersWithPodsSoFar.size);
        expect(number).toBeGreaterThanOrEqual(before);
        expect(number).toBeLessThanOrEqual(before + 1);
        expect(total).toBeGreaterThanOrEqual(number);
        if (number > 0) expect(total - number).toBe(tiers.filter((tier) => tier > drainPosition).length);
        if (!leaves) continue;
        const left = new Set(next.decision.evacuate);
        living = living.filter((one) => !left.has(one));
      }
    }),
  );
});
