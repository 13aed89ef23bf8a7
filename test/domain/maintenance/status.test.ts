import { describe, expect, test } from '@jest/globals';
import { MAX_DEADLINE_STEPS } from '../../../api/drainDeadline.ts';
import { AUTOSCALER_ANNOTATIONS } from '../../../api/names.ts';
import type { CapacityFacts } from '../../../domain/capacity/condition.ts';
import type { Verification } from '../../../domain/drain/verification.ts';
import { BlockerReason } from '../../../domain/evacuation/blocker.ts';
import { decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import {
  emptyStatus,
  newNodeStatus,
  withCapacity,
  withDrain,
  withNodes,
  withStage,
} from '../../../domain/maintenance/status.ts';
import { mirrorPod, pod } from '../../kit/builders.ts';

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

  test.each([
    { each: 100, waits: 'Nothing' },
    { each: 100, waits: 'Nothing', text: '節' },
    { each: 100, waits: 'Lease' },
    { each: 100, waits: 'Lease', text: '節' },
    { each: 100, waits: 'Lease', text: '\u{1f6a7}' },
    { each: 0, waits: 'Working' },
    { each: 0, waits: 'Attached' },
  ] as const)(
    'with names of the maximum length is smaller than 1 MiB: $each pods each, waiting for $waits, messages with $text',
    ({ each, ...differs }) => {
      const { status, object } = worstCase(1_000, each, differs);
      expect(Buffer.byteLength(JSON.stringify(object))).toBeLessThan(1024 * 1024);
      expect(status.nodeStatuses).toHaveLength(1_000);
      expect(status.drainDeadline?.steps).toHaveLength(17);
      expect(status.conditions).toContainEqual(
        expect.objectContaining({ type: 'CapacityAvailable', status: 'False' }),
      );
    },
  );

  test('has messages with three names at most', () => {
    for (const waits of ['Nothing', 'Lease', 'Working', 'Attached'] as const) {
      for (const each of [0, 10]) {
        const { nodeStatuses, conditions } = worstCase(40, each, { waits }).status;
        const messages = [
          ...nodeStatuses.map(({ drainMessage }) => drainMessage),
          ...conditions.map(({ message }) => message),
        ];
        expect(messages.filter((message) => message === '')).toEqual([]);
        expect(messages.filter((message) => namesIn(message) > 3)).toEqual([]);
      }
    }
  });

  test('shortens messages only if they do not fit', () => {
    const message = 'm'.repeat(400);
    const recorded = (count: number) =>
      Array.from({ length: count }, (_, i) => ({ ...newNodeStatus(longest(i)), drainMessage: message }));
    const written = (count: number) => withNodes(emptyStatus, recorded(count), new Set());
    expect(new Set(written(500).nodeStatuses.map(({ drainMessage }) => drainMessage))).toEqual(
      new Set([message]),
    );
    const [first] = written(2_000).nodeStatuses;
    expect(first?.drainMessage).toMatch(/^m{95,}…$/);
  });
});

const drainStarted = { name: 'Drain' as const, startTimestamp: now };
const deadlineSteps = Array.from({ length: MAX_DEADLINE_STEPS }, (_, i) => ({
  before: `${MAX_DEADLINE_STEPS - i}h`,
  action: 'Notify' as const,
}));

/** Returns what is known about the places for many pods that have none: each for all reasons, with long names. */
function capacityOf(count: number, text: string): CapacityFacts {
  const reasons = new Map(Array.from({ length: 10 }, (_, i) => [`${text.repeat(100)} ${i}`, 1_000] as const));
  const unplaced = podsOf('n', count, { seed: 2, text }).map((one) => ({
    pod: one.pod,
    misfit: { nodes: 1_000, reasons },
  }));
  const stopped = Array.from({ length: count }, (_, i) => ({
    name: longest(i),
    stoppedReason: 'Paused' as const,
  }));
  return {
    waits: true,
    isComplete: true,
    unplaced,
    servedFirst: [],
    stopped,
    unread: [],
    stranded: [],
    deadlocks: [],
  };
}

const finalizers = Array.from({ length: 10 }, (_, at) => `example.com/${'f'.repeat(240)}${at}`);
const longest = (i: number) => `${i}`.padStart(4, '0').padStart(253, 'n');

/** Returns the status of a maintenance that competes with another one for nodes with the longest names, and its whole object. */
function worstCase(
  count: number,
  podsEach: number,
  { waits, text = '"' }: { waits: 'Nothing' | 'Lease' | 'Working' | 'Attached'; text?: string },
) {
  const names = Array.from({ length: count }, (_, i) => longest(i));
  const snapshots = names.map((name, i) => ({
    name,
    pods: podsOf(name, podsEach, { seed: i, text }),
    reached: [],
  }));
  const waiting = snapshots.map((node) => ({
    ...node,
    because: text.repeat(500),
    hasCordonRecord: false,
  }));
  const nodes = waits === 'Lease' ? snapshots.slice(0, 1) : snapshots;
  const own = { name: longest(1), createdAt: now, plan, position: 3, nodes: nodes.map(({ name }) => name) };
  const decision = decideDrain({
    maintenance: own.name,
    maintenances: [own, { ...own, name: longest(2), position: 0 }, { ...own, name: longest(3), position: 1 }],
    nodes,
    waiting: waits === 'Lease' ? waiting.slice(1) : [],
    published: new Map(),
  });
  const five = Array.from({ length: 5 }, (_, i) => longest(i));
  const onNodes = names.flatMap((node) =>
    five.map((name) => ({ node, volume: name, claim: `${name}/${name}`, job: name, maintenance: name })),
  );
  const verification: Verification =
    waits === 'Working'
      ? { kind: 'Working', work: onNodes }
      : waits === 'Attached'
        ? { kind: 'Attached', volumes: onNodes }
        : { kind: 'Pending' };
  const recorded = names.map((name) => ({
    ...newNodeStatus(name),
    unschedulableBefore: false,
    autoscalerAnnotationsBefore: [...AUTOSCALER_ANNOTATIONS],
    podsPeak: 100,
  }));
  const input = { planLength: plan.length, now, existing: new Set(names), generation: 7, verification };
  const started = { ...emptyStatus, nodeStatuses: recorded, stageStatuses: [drainStarted] };
  const deadline = { at: now, onDeadline: 'Delete' as const, steps: deadlineSteps };
  const drained = withDrain(started, decision, { ...input, deadline });
  const status = withCapacity(drained, capacityOf(1_000, text), now);
  const nodeSelectorTerms = [{ matchExpressions: [{ key: 'pool', operator: 'Exists' }] }];
  const object = {
    metadata: { name: own.name, managedFields: managedFieldsOf(status) },
    spec: {
      nodeSelector: { nodeSelectorTerms },
      stage: 'Drain',
      drainPlan: plan,
      reason: text.repeat(1024).slice(0, 1024),
      drainDeadline: deadline,
      requireCapacity: true,
    },
    status,
  };
  return { status, object };
}

/** Returns pods of a node with the longest names: of each kind some. */
function podsOf(node: string, count: number, { seed, text }: { seed: number; text: string }) {
  const blocker = {
    reason: BlockerReason.EvictionRejected,
    message: `${seed} ${`${text}No.\n`.repeat(500)}`,
  };
  return Array.from({ length: count }, (_, i) => {
    const name = `${i}`.padStart(4, '0').padStart(253, 'p');
    const namespace = 's'.repeat(63);
    const terminating = { deletionTimestamp: now, deletionGracePeriodSeconds: 3600, finalizers };
    const kind = (i + seed) % 4;
    const one =
      kind === 0
        ? mirrorPod({ name, namespace })
        : pod({ name, namespace, priority: (seed % 3) * 1_000_000_000, ...(kind === 1 && terminating) });
    return {
      pod: { ...one, spec: { ...one.spec, nodeName: node } },
      evacuating: true,
      ...(kind === 2 && { blocker }),
    };
  });
}

/** Returns what the apiserver adds for the fields of a status: one entry for each field, and none for the elements of atomic lists. */
function managedFieldsOf(status: object) {
  const fields = Object.fromEntries(Object.keys(status).map((field) => [`f:${field}`, {}]));
  return [
    {
      manager: 'node-maintenance',
      operation: 'Update',
      fieldsType: 'FieldsV1',
      fieldsV1: { 'f:status': fields },
    },
  ];
}

/** Counts the names in the longest list of a message. A name has many equal letters; what is in parentheses belongs to the name before. */
function namesIn(message: string): number {
  const lists = message.replaceAll(/ \([^()]*\)| of NodeMaintenance \S+/g, '').split(/[:;.] /);
  return Math.max(...lists.map((list) => list.match(/\S*([a-z])\1{8}\S*/g)?.length ?? 0));
}

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
        drainMessage:
          'No longer selected: stays unschedulable until the maintenance is complete, or someone uncordons it.',
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
  const started = withStage(emptyStatus, 'Drain', now);
  const after = (status: typeof started, left: number, time: string) =>
    withDrain(status, decideDrain(snapshot(left)), {
      planLength: plan.length,
      now: time,
      existing: new Set(['one']),
      deadline: drainDeadline,
      verification: { kind: 'Verified', volumes: [] },
      mayBecomeDrained: true,
    });
  const exceeded = (status: ReturnType<typeof after>) =>
    status.conditions.find(({ type }) => type === 'DrainDeadlineExceeded')?.status;

  test('is exceeded when pods are left, until the nodes are drained', () => {
    const before = after(started, 1, '2026-01-01T12:59:59Z');
    expect(exceeded(before)).toBeUndefined();
    const past = after(before, 1, '2026-01-01T13:00:00Z');
    expect(exceeded(past)).toBe('True');
    const drained = after(past, 0, '2026-01-01T13:10:00Z');
    expect(exceeded(drained)).toBe('False');
    expect(drained.drainDeadline).toMatchObject({ drainedAt: '2026-01-01T13:10:00Z' });
  });

  test('is met by nodes that were drained before, also if pods appear later', () => {
    const drained = after(started, 0, '2026-01-01T12:30:00Z');
    const later = after(drained, 1, '2026-01-01T14:00:00Z');
    expect(exceeded(later)).toBeUndefined();
    expect(later.drainDeadline).toMatchObject({ drainedAt: '2026-01-01T12:30:00Z' });
    for (const { conditions } of [drained, later])
      expect(conditions.map(({ type }) => type)).toContain('Drained');
  });
});

test('a paused drain reaches no new tier', () => {
  const decision = decideDrain({
    maintenance: 'own',
    maintenances: [{ name: 'own', createdAt: now, plan, position: 0, nodes: ['n-0'] }],
    nodes: [{ name: 'n-0', pods: [], reached: [] }],
    waiting: [],
    published: new Map(),
  });
  const positionOf = (isPaused: boolean) =>
    withDrain(emptyStatus, decision, { planLength: plan.length, now, existing: new Set(['n-0']), isPaused })
      .drainPosition;
  expect(positionOf(false)).toBe(plan.length - 1);
  expect(positionOf(true)).toBe(0);
});

describe('the condition Drained', () => {
  test('stays True if another worker has verified it since the decision that pods are left', () => {
    const decision = decideDrain({
      maintenance: 'own',
      maintenances: [{ name: 'own', createdAt: now, plan, position: 0, nodes: ['n-0'] }],
      nodes: [{ name: 'n-0', pods: [{ pod: pod(), evacuating: true }], reached: [] }],
      waiting: [],
      published: new Map(),
    });
    const drained = {
      type: 'Drained',
      status: 'True' as const,
      observedGeneration: 7,
      reason: 'AllPodsTerminated',
    };
    const status = {
      ...emptyStatus,
      conditions: [{ ...drained, message: 'No pod is left.', lastTransitionTime: now }],
    };
    const after = (wasDrained: boolean, generation: number) =>
      withDrain(status, decision, {
        planLength: plan.length,
        now,
        existing: new Set(['n-0']),
        generation,
        wasDrained,
      }).conditions[0]?.status;
    expect(after(false, 7)).toBe('True');
    expect(after(true, 7)).toBe('False');
    expect(after(false, 8)).toBe('False');
  });

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

  const volume = { node: 'n-0', volume: 'pv-1', claim: 'shop/data' };
  const verified: Verification = { kind: 'Verified', volumes: [] };
  const was = (status: 'True' | 'False', observedGeneration: number) => ({
    type: 'Drained',
    status,
    observedGeneration,
    reason: 'AllPodsTerminated',
    message: 'Before.',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  });

  test.each<{
    when: string;
    verification?: Verification;
    mayBecomeDrained?: boolean;
    before?: ReturnType<typeof was>;
    want: object;
  }>([
    { when: 'nothing is verified', want: { status: 'False', reason: 'Draining', observedGeneration: 7 } },
    { when: 'a write that may be late has been verified', verification: verified, want: { status: 'False' } },
    {
      when: 'a write that fails if the object has changed has been verified',
      verification: verified,
      mayBecomeDrained: true,
      want: { status: 'True', reason: 'AllPodsTerminated', observedGeneration: 7 },
    },
    { when: 'it was True for an earlier generation', before: was('True', 6), want: was('True', 6) },
    {
      when: 'it was True for an earlier generation, and a late write has been verified',
      verification: verified,
      before: was('True', 6),
      want: was('True', 6),
    },
    {
      when: 'it was True and another one has made it False since',
      verification: verified,
      before: was('False', 7),
      want: { status: 'False' },
    },
    {
      when: 'a Job works on a node',
      verification: { kind: 'Working', work: [{ node: 'n-0', job: 'j', maintenance: 'other' }] },
      before: was('True', 7),
      want: {
        status: 'False',
        reason: 'WorkInProgress',
        message:
          'No pod is left to evacuate, but a Job works on node n-0: node-maintenance-work/j of NodeMaintenance other.',
      },
    },
    {
      when: 'a volume is attached',
      verification: { kind: 'Attached', volumes: [volume] },
      before: was('True', 7),
      want: { status: 'False', reason: 'VolumesAttached' },
    },
    {
      when: 'the deadline has passed while a volume is attached',
      verification: { kind: 'Verified', volumes: [volume] },
      mayBecomeDrained: true,
      want: {
        status: 'True',
        reason: 'VolumesRemain',
        message:
          'No pod is left on the nodes. The deadline has passed, and 1 volume is still attached: pv-1 (shop/data).',
      },
    },
    {
      when: 'volumes cannot be listed',
      verification: { kind: 'Verified', volumes: [], volumesUnknown: 'the worker may not' },
      mayBecomeDrained: true,
      want: {
        status: 'True',
        message:
          'No pod is left on the nodes. It is not known whether volumes are attached: the worker may not.',
      },
    },
  ])('when no pod is left and $when', ({ before, want, ...verification }) => {
    const own = { name: 'own', createdAt: now, plan, position: 0, nodes: ['n-0'] };
    const nodes = [{ name: 'n-0', pods: [], reached: [] }];
    const decision = decideDrain({
      maintenance: 'own',
      maintenances: [own],
      nodes,
      waiting: [],
      published: new Map(),
    });
    const status = withDrain({ ...emptyStatus, conditions: before === undefined ? [] : [before] }, decision, {
      planLength: plan.length,
      now,
      existing: new Set(['n-0']),
      generation: 7,
      ...verification,
    });
    expect(status.conditions).toMatchObject([want]);
  });
});

test('a record of a cordon never changes, whatever a worker that was suspended writes late', () => {
  const record = (unschedulableBefore: boolean) => ({
    ...newNodeStatus('one'),
    unschedulableBefore,
  });
  const before = { ...emptyStatus, nodeStatuses: [record(true)] };
  const [kept] = withNodes(before, [record(false)], new Set(['one'])).nodeStatuses;
  expect(kept?.unschedulableBefore).toBe(true);
});
