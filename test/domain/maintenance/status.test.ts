import { describe, expect, test } from '@jest/globals';
import { BlockerReason } from '../../../domain/evacuation/blocker.ts';
import { decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import { emptyStatus, withDrain, withNodes, withStage } from '../../../domain/maintenance/status.ts';
import { pod } from '../../kit/builders.ts';

const now = '2026-01-01T12:00:00Z';
const plan = completeDrainPlan();

/** Returns the status of a drain of many nodes, with pods that cannot leave. */
function statusOf(count: number, nodeName: (i: number) => string, blocked: number) {
  const names = Array.from({ length: count }, (_, i) => nodeName(i));
  const blocker = { reason: BlockerReason.EvictionRejected, message: 'No. '.repeat(500) };
  const nodes = names.map((name, i) => ({
    name,
    pods: i < blocked ? [{ pod: pod({ name: `p-${i}` }), evacuating: true, blocker }] : [],
    reached: [],
  }));
  const createdAt = '2026-01-01T00:00:00Z';
  const own = { name: 'own', createdAt, plan, position: plan.length - 1, nodes: names };
  const snapshot = { maintenance: 'own', maintenances: [own], nodes, waiting: [], published: new Map() };
  const decision = decideDrain(snapshot);
  return withDrain(emptyStatus, decision, { planLength: plan.length, now, existing: new Set(names) });
}

describe('the status of 1,000 nodes', () => {
  // etcd takes requests of 1.5 MiB; the status is the largest part of the object.
  const bytes = (status: object) => JSON.stringify(status).length;

  test('with usual names and the plan of the KEP is smaller than half a MiB, for any number of blocked pods', () => {
    const status = statusOf(1_000, (i) => `ip-10-0-${i}-1.eu-central-1.compute.internal`, 1_000);
    expect(bytes(status)).toBeLessThan(512 * 1024);
    expect(status.podsBlocked).toBe(1_000);
    expect(status.blockedPods).toHaveLength(20);
  });

  test('with names of the maximum length is smaller than 1.5 MiB', () => {
    const status = statusOf(1_000, (i) => `${i}`.padStart(253, 'n'), 500);
    expect(bytes(status)).toBeLessThan(1.5 * 1024 * 1024);
  });
});

describe('the nodes of a status', () => {
  const recorded = (name: string, unschedulableBefore: boolean) => ({
    nodeRef: { name },
    drainTargets: [],
    drainMessage: '',
    podsPendingEvacuation: 2,
    podsEvacuating: 1,
    unschedulableBefore,
  });
  const before = { ...emptyStatus, nodeStatuses: [recorded('gone', true), recorded('left', true)] };

  test('keep the record of a node that is no longer selected, and drop the record of a node that is gone', () => {
    const status = withNodes(before, [recorded('new', false)], new Set(['left', 'new']));
    expect(status.nodeStatuses).toEqual([
      {
        ...recorded('left', true),
        drainMessage: 'No longer selected: stays unschedulable until the maintenance is complete.',
        podsPendingEvacuation: 0,
        podsEvacuating: 0,
      },
      { ...recorded('new', false), podsPeak: 3 },
    ]);
    expect(status).toMatchObject({ nodes: 1, podsPendingEvacuation: 2, podsEvacuating: 1 });
  });
});

test('remaining pods of a node that is no longer selected do not count as evacuated', () => {
  const recorded = {
    nodeRef: { name: 'left' },
    drainTargets: [],
    drainMessage: '',
    podsPendingEvacuation: 2,
    podsEvacuating: 1,
    podsPeak: 5,
    unschedulableBefore: false,
  };
  const status = withNodes({ ...emptyStatus, nodeStatuses: [recorded] }, [], new Set(['left']));
  expect(status.nodeStatuses).toMatchObject([{ podsPeak: 2, podsPendingEvacuation: 0, podsEvacuating: 0 }]);
});

test('a decision keeps what was recorded of a node before it was held', () => {
  const decided = {
    nodeRef: { name: 'one' },
    drainTargets: [],
    drainMessage: 'Drained',
    podsPendingEvacuation: 0,
    podsEvacuating: 0,
  };
  const record = { unschedulableBefore: true, autoscalerAnnotationsBefore: ['karpenter.sh/do-not-disrupt'] };
  const before = { ...emptyStatus, nodeStatuses: [{ ...decided, ...record }] };
  expect(withNodes(before, [decided], new Set(['one'])).nodeStatuses).toEqual([{ ...decided, ...record }]);
});

test('an earlier decision does not decrease published drain targets', () => {
  const target = (podPriority: number) => ({ podType: 'Default' as const, podPriority });
  const one = (podPriority: number) => ({
    nodeRef: { name: 'one' },
    drainTargets: [target(podPriority)],
    drainMessage: '',
    podsPendingEvacuation: 0,
    podsEvacuating: 0,
  });
  const status = withNodes({ ...emptyStatus, nodeStatuses: [one(10_000)] }, [one(5_000)], new Set(['one']));
  expect(status.nodeStatuses[0]?.drainTargets).toEqual([target(10_000)]);
});

describe('the deadline of a drain', () => {
  const drainDeadline = { after: '1h', onDeadline: 'Report' as const, steps: [] };
  const snapshot = (left: number) => ({
    maintenance: 'own',
    maintenances: [{ name: 'own', createdAt: now, plan, position: plan.length - 1, nodes: ['one'] }],
    nodes: [{ name: 'one', pods: left === 0 ? [] : [{ pod: pod(), evacuating: true }], reached: [] }],
    waiting: [],
    published: new Map(),
  });
  const begun = withStage(emptyStatus, 'Drain', now);
  const after = (status: typeof begun, left: number, time: string) =>
    withDrain(status, decideDrain(snapshot(left)), {
      planLength: plan.length,
      now: time,
      existing: new Set(['one']),
      deadline: drainDeadline,
    });
  const exceeded = (status: ReturnType<typeof after>) =>
    status.conditions.find(({ type }) => type === 'DrainDeadlineExceeded')?.status;

  test('is exceeded when pods are left, until the nodes are drained', () => {
    const before = after(begun, 1, '2026-01-01T12:59:59Z');
    expect(exceeded(before)).toBeUndefined();
    const past = after(before, 1, '2026-01-01T13:00:00Z');
    expect(exceeded(past)).toBe('True');
    const drained = after(past, 0, '2026-01-01T13:10:00Z');
    expect(exceeded(drained)).toBe('False');
    expect(drained.drainDeadline).toMatchObject({ drainedAt: '2026-01-01T13:10:00Z' });
  });

  test('is met by nodes that were drained before, also if pods appear later', () => {
    const drained = after(begun, 0, '2026-01-01T12:30:00Z');
    const later = after(drained, 1, '2026-01-01T14:00:00Z');
    expect(exceeded(later)).toBeUndefined();
    expect(later.drainDeadline).toMatchObject({ drainedAt: '2026-01-01T12:30:00Z' });
  });
});

describe('the condition Drained', () => {
  test('has the number of pods left, and one pod for each cause that blocks them', () => {
    const status = statusOf(3, (i) => `n-${i}`, 2);
    expect(status.conditions).toEqual([
      {
        type: 'Drained',
        status: 'False',
        reason: 'Blocked',
        message: expect.stringMatching(
          /^2 pods left to evacuate, of which 2 cannot leave: default\/p-0 \(No\. No\./,
        ),
        lastTransitionTime: now,
      },
    ]);
  });
});
