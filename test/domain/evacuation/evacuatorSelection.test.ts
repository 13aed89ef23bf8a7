import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type { Evacuation, EvacuationStatus, Evacuator } from '../../../api/evacuation.ts';
import {
  activationMessage,
  evacuationLabels,
  evacuationOf,
  exhaustedCondition,
  handOverMessage,
  registeredEvacuators,
  successorsOf,
  nextEvacuatorStep,
} from '../../../domain/evacuation/evacuatorSelection.ts';
import { daemonPod, mirrorPod, pod } from '../../kit/builders.ts';

const annotated = (classes: Record<string, string>) =>
  pod({
    annotations: Object.fromEntries(
      Object.entries(classes).map(([name, value]) => [
        `evacuation.coordination.k8s.io/priority_${name}`,
        value,
      ]),
    ),
  });
const field = (name: string) => `metadata.annotations[evacuation.coordination.k8s.io/priority_${name}]`;
const classesOf = (classes: Record<string, string>) =>
  registeredEvacuators(annotated(classes)).evacuators.map((one) => one.evacuatorClass);

describe('the evacuators of a pod', () => {
  test('are resolved from its annotations, as in the example of the KEP', () => {
    const { evacuators, problems } = registeredEvacuators(
      annotated({ 'deployment.apps.k8s.io': '10000/controller' }),
    );
    expect(evacuators).toEqual([
      { evacuatorClass: 'deployment.apps.k8s.io', priority: 10_000, role: 'controller' },
    ]);
    expect(problems).toEqual([]);
  });

  test('are sorted by priority, highest first, then by class', () => {
    expect(classesOf({ 'b.io': '5/x', 'a.io': '5/x', 'low.io': '-3/x', 'high.io': '2147483647/x' })).toEqual([
      'high.io',
      'a.io',
      'b.io',
      'low.io',
    ]);
  });

  test('are none without evacuator annotations', () => {
    const other = pod({ annotations: { 'evacuation.coordination.k8s.io/other': '1/x' } });
    expect(registeredEvacuators(other)).toEqual({ evacuators: [], problems: [] });
  });

  test('of a DaemonSet pod include the DaemonSet evacuator, with or without the annotation', () => {
    const implied = { evacuatorClass: 'daemonset.apps.k8s.io', priority: 10_000, role: 'controller' };
    expect(registeredEvacuators(daemonPod()).evacuators).toEqual([implied]);
    const annotations = { 'evacuation.coordination.k8s.io/priority_daemonset.apps.k8s.io': '7/owner' };
    expect(registeredEvacuators(daemonPod({ annotations })).evacuators).toEqual([
      { ...implied, priority: 7, role: 'owner' },
    ]);
  });

  test('of a static pod include the node agent, with or without the annotation', () => {
    const implied = { evacuatorClass: 'kubelet.k8s.io', priority: 10_000, role: 'controller' };
    expect(registeredEvacuators(mirrorPod()).evacuators).toEqual([implied]);
    const annotations = {
      'kubernetes.io/config.mirror': 'hash',
      'evacuation.coordination.k8s.io/priority_kubelet.k8s.io': '10000/controller',
      'evacuation.coordination.k8s.io/priority_data.io': '20000/owner',
    };
    expect(registeredEvacuators(mirrorPod({ annotations })).evacuators).toEqual([
      { evacuatorClass: 'data.io', priority: 20_000, role: 'owner' },
      implied,
    ]);
  });

  test.each([
    { value: 'high/controller' },
    { value: '10000' },
    { value: '10000/' },
    { value: '/controller' },
    { value: '1.5/controller' },
    { value: '2147483648/controller' },
    { value: '-2147483649/controller' },
    { value: '10000/two words' },
    { value: '10000/a/b' },
    { value: '' },
  ])('exclude one with the value "$value", and report its annotation', ({ value }) => {
    const { evacuators, problems } = registeredEvacuators(annotated({ 'a.io': value, 'b.io': '1/x' }));
    expect(evacuators.map((one) => one.evacuatorClass)).toEqual(['b.io']);
    expect(problems).toEqual([
      `${field('a.io')}: expected "<priority>/<role>", such as "10000/controller" (got "${value}")`,
    ]);
  });

  test.each([{ name: 'Upper.io' }, { name: '' }, { name: 'under_score' }, { name: '-a.io' }])(
    'exclude the class "$name", and report its annotation',
    ({ name }) => {
      const { evacuators, problems } = registeredEvacuators(annotated({ [name]: '1/x' }));
      expect(evacuators).toEqual([]);
      expect(problems).toEqual([
        `${field(name)}: expected an evacuator class after priority_, a DNS subdomain such as deployment.apps.k8s.io (got "${name}")`,
      ]);
    },
  );

  test('are at most 10, those with the highest priority', () => {
    const many = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`c${i}.io`, `${i}/x`]));
    const { evacuators, problems } = registeredEvacuators(annotated(many));
    expect(evacuators).toHaveLength(10);
    expect(evacuators[0]?.priority).toBe(99);
    expect(problems).toEqual([
      'metadata.annotations: expected at most 10 evacuators (got 100); those with the lowest priority are ignored',
    ]);
  });

  test('do not depend on the order of the annotations, and are always sorted', () => {
    const entry = fc.tuple(
      fc.stringMatching(/^[a-z]{1,3}\.io$/),
      fc.oneof(fc.integer({ min: -5, max: 5 }), fc.string()),
    );
    fc.assert(
      fc.property(fc.uniqueArray(entry, { selector: ([name]) => name }), fc.nat(), (entries, offset) => {
        const rotated = [
          ...entries.slice(offset % (entries.length + 1)),
          ...entries.slice(0, offset % (entries.length + 1)),
        ];
        const valuesOf = (list: typeof entries) =>
          Object.fromEntries(
            list.map(([name, value]) => [name, typeof value === 'number' ? `${value}/x` : value]),
          );
        const result = registeredEvacuators(annotated(valuesOf(entries)));
        expect(registeredEvacuators(annotated(valuesOf(rotated)))).toEqual(result);
        expect(result.evacuators.length + result.problems.length).toBe(entries.length);
        const priorities = result.evacuators.map((one) => one.priority);
        expect(priorities).toEqual(priorities.toSorted((a, b) => b - a));
      }),
    );
  });
});

const now = new Date('2026-11-21T12:00:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1_000).toISOString();
const two: Evacuator[] = [
  { evacuatorClass: 'first.io', priority: 2, role: 'x' },
  { evacuatorClass: 'second.io', priority: 1, role: 'x' },
];
const evacuation = (
  evacuators: Evacuator[] | undefined,
  status?: Partial<EvacuationStatus>,
): Pick<Evacuation, 'spec' | 'status'> => ({
  spec: {
    podRef: { name: 'p', uid: 'u' },
    progressDeadlineSeconds: 1800,
    ...(evacuators && { evacuators }),
  },
  ...(status && { status: status as EvacuationStatus }),
});
const exhausted = {
  conditions: [
    {
      type: exhaustedCondition,
      status: 'True' as const,
      reason: 'EvacuatorCompleted',
      message: '',
      lastTransitionTime: ago(1),
    },
  ],
};
const active = (evacuatorClass: string, seconds: number, differs: Partial<EvacuationStatus> = {}) => ({
  activeEvacuatorClass: evacuatorClass,
  activeEvacuatorCompleted: false,
  evacuationProgressTimestamp: ago(seconds),
  ...differs,
});

describe('the next step', () => {
  test.each([{ phase: 'Succeeded' }, { phase: 'Failed' }])(
    'is eviction when the pod has finished ($phase)',
    ({ phase }) => {
      expect(nextEvacuatorStep(evacuation(two, active('first.io', 1)), pod({ phase }), { now })).toEqual({
        kind: 'Evict',
      });
    },
  );

  test.each([
    { when: 'there are no evacuators: evict', evacuators: undefined, want: { kind: 'Evict' } },
    { when: 'the list of evacuators is empty: evict', evacuators: [], want: { kind: 'Evict' } },
    {
      when: 'no evacuator is active yet: activate the first',
      evacuators: two,
      want: { kind: 'Activate', evacuatorClass: 'first.io' },
    },
    {
      when: 'the first has reported progress: wait until its deadline',
      evacuators: two,
      status: active('first.io', 100),
      want: { kind: 'AwaitProgress', deadlineMs: Date.parse(ago(100)) + 1_800_000 },
    },
    {
      when: 'the first has completed: activate the second',
      evacuators: two,
      status: active('first.io', 1, { activeEvacuatorCompleted: true }),
      want: {
        kind: 'Activate',
        evacuatorClass: 'second.io',
        after: { from: 'first.io', reason: 'EvacuatorCompleted' },
      },
    },
    {
      when: 'the first has reached its deadline: activate the second',
      evacuators: two,
      status: active('first.io', 1800),
      want: {
        kind: 'Activate',
        evacuatorClass: 'second.io',
        after: { from: 'first.io', reason: 'ProgressDeadlineExceeded' },
      },
    },
    {
      when: 'the last has completed: exhausted',
      evacuators: two,
      status: active('second.io', 1, { activeEvacuatorCompleted: true }),
      want: { kind: 'Exhausted', after: { from: 'second.io', reason: 'EvacuatorCompleted' } },
    },
    {
      when: 'the evacuators are exhausted: evict',
      evacuators: two,
      status: exhausted,
      want: { kind: 'Evict' },
    },
    {
      when: 'the active class is not in the list: activate the first',
      evacuators: two,
      status: active('other.io', 1),
      want: { kind: 'Activate', evacuatorClass: 'first.io' },
    },
    {
      when: 'the progress timestamp is missing: reset it',
      evacuators: two,
      status: { activeEvacuatorClass: 'first.io' },
      want: { kind: 'ResetProgress' },
    },
    {
      when: 'the progress timestamp is in the future: reset it',
      evacuators: two,
      status: active('first.io', -3600),
      want: { kind: 'ResetProgress' },
    },
    {
      when: 'the progress timestamp is in the future by less than the clock skew: wait until its deadline',
      evacuators: two,
      status: active('first.io', -20),
      want: { kind: 'AwaitProgress', deadlineMs: Date.parse(ago(-20)) + 1_800_000 },
    },
  ])('$when', ({ evacuators, status, want }) => {
    expect(nextEvacuatorStep(evacuation(evacuators, status), pod(), { now })).toEqual(want);
  });

  test.each([
    {
      when: 'without an evacuator it is skipped',
      of: mirrorPod(),
      evacuators: undefined,
      want: { kind: 'Skip' },
    },
    {
      when: 'after the last evacuator the first becomes active again',
      of: mirrorPod(),
      evacuators: two,
      status: active('second.io', 1800),
      want: {
        kind: 'Activate',
        evacuatorClass: 'first.io',
        after: { from: 'second.io', reason: 'ProgressDeadlineExceeded' },
      },
    },
    {
      when: 'but not before the deadline of the last one, even if it has completed',
      of: mirrorPod(),
      evacuators: two,
      status: active('second.io', 1, { activeEvacuatorCompleted: true, activeEvacuatorSince: ago(100) }),
      want: { kind: 'AwaitProgress', deadlineMs: Date.parse(ago(100)) + 1_800_000 },
    },
    {
      when: 'even if the condition EvacuatorsExhausted is set manually',
      of: mirrorPod(),
      evacuators: two,
      status: exhausted,
      want: { kind: 'Activate', evacuatorClass: 'first.io' },
    },
    {
      when: 'also for a DaemonSet pod that the drain targets do not include',
      of: daemonPod(),
      evacuators: two,
      status: exhausted,
      want: { kind: 'Activate', evacuatorClass: 'first.io' },
    },
  ])('for a pod that may not be evicted: $when', ({ of, evacuators, status, want }) => {
    expect(nextEvacuatorStep(evacuation(evacuators, status), of, { now })).toEqual(want);
  });

  test.each([
    {
      when: 'while an evacuator works, it is waited for',
      evacuators: two,
      status: active('second.io', 1),
      want: { kind: 'AwaitProgress', deadlineMs: Date.parse(ago(1)) + 1_800_000 },
    },
    {
      when: 'after the last evacuator the eviction API is next',
      evacuators: two,
      status: active('second.io', 1800),
      want: { kind: 'Exhausted', after: { from: 'second.io', reason: 'ProgressDeadlineExceeded' } },
    },
    {
      when: 'when the evacuators are exhausted it is evicted',
      evacuators: two,
      status: exhausted,
      want: { kind: 'Evict' },
    },
    { when: 'without an evacuator it is evicted', evacuators: [], status: {}, want: { kind: 'Evict' } },
  ])('for a DaemonSet pod that the drain targets include: $when', ({ evacuators, status, want }) => {
    const targeted = { now, isTargeted: true };
    expect(nextEvacuatorStep(evacuation(evacuators, status), daemonPod(), targeted)).toEqual(want);
    expect(nextEvacuatorStep(evacuation(evacuators, status), mirrorPod(), targeted).kind).not.toMatch(
      /Evict|Exhausted/,
    );
  });

  test('activates every evacuator that makes no progress once, in order, and then evicts the pod', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.stringMatching(/^[a-z]{1,4}\.io$/), { maxLength: 6 }), (classes) => {
        const evacuators = classes.map((evacuatorClass, i) => ({ evacuatorClass, priority: -i, role: 'x' }));
        const activated: string[] = [];
        let status: Partial<EvacuationStatus> = {};
        for (let round = 0; round < 10; round++) {
          const step = nextEvacuatorStep(evacuation(evacuators, status), pod(), { now });
          if (step.kind === 'Activate') activated.push(step.evacuatorClass);
          if (step.kind === 'Activate') status = active(step.evacuatorClass, 1800);
          else if (step.kind === 'Exhausted') status = exhausted;
          else expect(step).toEqual({ kind: 'Evict' });
        }
        expect(activated).toEqual(classes);
      }),
    );
  });
});

describe('an evacuator that has not responded', () => {
  const since = (seconds: number, differs: Partial<EvacuationStatus> = {}) =>
    active('first.io', seconds, {
      activeEvacuatorSince: ago(seconds),
      message: activationMessage(evacuation(two), 'first.io', pod()),
      ...differs,
    });
  const unknown = { now, responseSeconds: 300 };
  const known = { ...unknown, isKnown: (name: string) => name === 'first.io' };
  const skipped = {
    kind: 'Activate',
    evacuatorClass: 'second.io',
    after: { from: 'first.io', reason: 'EvacuatorNotResponding' },
  };
  const awaited = (seconds: number, ofSeconds: number) => ({
    kind: 'AwaitProgress',
    deadlineMs: Date.parse(ago(seconds)) + ofSeconds * 1_000,
  });

  test.each([
    { when: 'has the time to respond', status: since(299), deadlines: unknown, want: awaited(299, 300) },
    { when: 'is skipped after that time', status: since(300), deadlines: unknown, want: skipped },
    {
      when: 'of a known class has the whole progress deadline',
      status: since(300),
      deadlines: known,
      want: awaited(300, 1800),
    },
    {
      when: 'has the whole progress deadline if no time to respond is set',
      status: since(300),
      deadlines: { now },
      want: awaited(300, 1800),
    },
    {
      when: 'but has written a message, has responded',
      status: since(300, { message: 'waiting for a slot' }),
      deadlines: unknown,
      want: awaited(300, 1800),
    },
    {
      when: 'but has reported progress, has responded',
      status: since(600, { evacuationProgressTimestamp: ago(400) }),
      deadlines: unknown,
      want: awaited(400, 1800),
    },
    {
      when: 'but expects a time, has responded',
      status: since(300, { expectedEvacuationFinishTime: ago(-60) }),
      deadlines: unknown,
      want: awaited(300, 1800),
    },
    {
      when: 'and was activated by an earlier release, counts as responded',
      status: active('first.io', 300),
      deadlines: unknown,
      want: awaited(300, 1800),
    },
  ])('$when', ({ status, deadlines, want }) => {
    expect(nextEvacuatorStep(evacuation(two, status), pod(), deadlines)).toEqual(want);
  });
});

describe('an evacuator of this project that cannot serve the pod', () => {
  const daemonSet = { evacuatorClass: 'daemonset.apps.k8s.io', priority: 3, role: 'controller' };
  const agent = { evacuatorClass: 'kubelet.k8s.io', priority: 3, role: 'controller' };
  const orphaned = (from: string) => ({
    from,
    reason: 'EvacuatorNotApplicable',
    why: from === agent.evacuatorClass ? 'it is not a static pod' : 'no DaemonSet controls the pod',
  });

  test.each([
    {
      when: 'a pod that its DaemonSet has orphaned is evicted at once',
      evacuators: [daemonSet],
      want: { kind: 'Exhausted', after: orphaned('daemonset.apps.k8s.io') },
    },
    {
      when: 'it was orphaned while the evacuator was active',
      evacuators: [daemonSet],
      status: active('daemonset.apps.k8s.io', 1),
      want: { kind: 'Exhausted', after: orphaned('daemonset.apps.k8s.io') },
    },
    {
      when: 'the next evacuator is asked at once',
      evacuators: [daemonSet, ...two],
      want: { kind: 'Activate', evacuatorClass: 'first.io', after: orphaned('daemonset.apps.k8s.io') },
    },
    {
      when: 'it comes last',
      evacuators: [...two, agent],
      status: active('kubelet.k8s.io', 1),
      want: { kind: 'Exhausted', after: orphaned('kubelet.k8s.io') },
    },
    {
      when: 'a static pod has only it, and waits for another to be registered',
      of: mirrorPod(),
      evacuators: [daemonSet],
      status: active('daemonset.apps.k8s.io', 1, { activeEvacuatorSince: ago(1) }),
      want: { kind: 'AwaitProgress', deadlineMs: Date.parse(ago(1)) + 1_800_000 },
    },
    {
      when: 'a DaemonSet controls the pod, which it can serve',
      of: daemonPod(),
      evacuators: [daemonSet],
      want: { kind: 'Activate', evacuatorClass: 'daemonset.apps.k8s.io' },
    },
  ])('completes at once: $when', ({ of = pod(), evacuators, status, want }) => {
    expect(nextEvacuatorStep(evacuation(evacuators, status), of, { now, isKnown: () => true })).toEqual(want);
  });

  test('never delays the eviction of a pod, however many of them there are and in which order', () => {
    const classes = fc.uniqueArray(fc.constantFrom(daemonSet, agent), {
      minLength: 1,
      selector: (one) => one.evacuatorClass,
    });
    fc.assert(
      fc.property(classes, (evacuators) => {
        let status: Partial<EvacuationStatus> | undefined;
        for (let steps = 0; steps <= evacuators.length; steps++) {
          const step = nextEvacuatorStep(evacuation(evacuators, status), pod(), { now, isKnown: () => true });
          if (step.kind === 'Exhausted') return;
          expect(step.kind).toBe('Activate');
          if (step.kind === 'Activate') status = active(step.evacuatorClass, 0);
        }
        throw new Error('The evacuators were not exhausted.');
      }),
    );
  });

  test('is named with the reason', () => {
    const after = { from: 'a.io', reason: 'EvacuatorNotApplicable', why: 'it is not a static pod' } as const;
    expect(handOverMessage(after, { progressSeconds: 1800, responseSeconds: 300 })).toBe(
      'a.io cannot evacuate the pod: it is not a static pod.',
    );
  });
});

describe('an Evacuation', () => {
  const unserved = (count: number): Evacuator[] =>
    Array.from({ length: count }, (_, i) => ({ evacuatorClass: `c${i}.io`, priority: -i, role: 'x' }));

  /** Returns the seconds after which a pod is evicted none of whose evacuators ever responds. */
  function secondsToEviction(
    { spec }: Pick<Evacuation, 'spec'>,
    deadlines: Omit<Parameters<typeof nextEvacuatorStep>[2], 'now'>,
  ): number {
    let at = now;
    let status: EvacuationStatus | undefined;
    for (;;) {
      const step = nextEvacuatorStep({ spec, ...(status && { status }) }, pod(), { ...deadlines, now: at });
      if (step.kind === 'Evict' || step.kind === 'Exhausted') return (at.getTime() - now.getTime()) / 1_000;
      if (step.kind === 'AwaitProgress') at = new Date(step.deadlineMs);
      if (step.kind === 'Activate')
        status = {
          ...active(step.evacuatorClass, 0),
          activeEvacuatorSince: at.toISOString(),
          evacuationProgressTimestamp: at.toISOString(),
          message: activationMessage({ spec }, step.evacuatorClass, pod()),
          failedEvictionCounter: 0,
          conditions: [],
        };
    }
  }

  test('never keeps a pod longer than its limits allow, whatever its spec says', () => {
    const spec = fc.record({
      progressDeadlineSeconds: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      evacuators: fc.integer({ min: 0, max: 100 }).map(unserved),
    });
    fc.assert(
      fc.property(
        spec,
        fc.integer({ min: 1, max: 3_600 }),
        fc.boolean(),
        (given, responseSeconds, isKnown) => {
          const whole = { ...evacuation(undefined).spec, ...given };
          const seconds = secondsToEviction({ spec: whole }, { responseSeconds, isKnown: () => isKnown });
          const each = Math.min(given.progressDeadlineSeconds, isKnown ? 86_400 : responseSeconds, 86_400);
          expect(seconds).toBe(Math.min(given.evacuators.length, 10) * each);
        },
      ),
    );
  });

  test('with a deadline of 68 years and 100 classes without an evacuator ends within the hour', () => {
    const spec = {
      ...evacuation(unserved(100)).spec,
      progressDeadlineSeconds: 2_147_483_647,
    };
    expect(secondsToEviction({ spec }, { responseSeconds: 300 })).toBe(3_000);
  });
});

test.each([
  { of: 'an evictable pod', given: pod(), want: 'second.io, then the eviction API' },
  {
    of: 'a DaemonSet pod',
    given: daemonPod(),
    want: 'second.io, then the eviction API if the drain targets of the node include the pod',
  },
  { of: 'a static pod', given: mirrorPod(), want: 'second.io, then first.io again' },
])('lists the successors of the first evacuator of $of', ({ given, want }) => {
  expect(successorsOf(evacuation(two), 'first.io', given)).toBe(want);
});

describe('the labels of the Evacuation', () => {
  const key = 'nodemaintenance.k8s.io/node';
  const on = (nodeName: string, of: Pod) => ({ ...of, spec: { ...of.spec, nodeName } });

  test.each([
    { of: 'a pod', given: pod({ labels: { app: 'x' } }), want: { app: 'x' } },
    { of: 'a pod without labels', given: pod(), want: undefined },
    { of: 'a pod that names a node', given: pod({ labels: { [key]: 'node-9' } }), want: undefined },
    {
      of: 'a static pod',
      given: mirrorPod({ labels: { app: 'x', [key]: 'node-9' } }),
      want: { app: 'x', [key]: 'node-1' },
    },
    {
      of: 'a static pod on a node whose name fits',
      given: on('n'.repeat(63), mirrorPod()),
      want: { [key]: 'n'.repeat(63) },
    },
    {
      of: 'a static pod on a node whose name is too long',
      given: on('n'.repeat(64), mirrorPod()),
      want: undefined,
    },
  ])('of $of', ({ given, want }) => {
    expect(evacuationOf(given, 1800).metadata.labels).toEqual(want);
  });

  test('keep those that it has, except of another node', () => {
    const given = { app: 'mine', [key]: 'node-9' };
    expect(evacuationLabels(mirrorPod({ labels: { app: 'x', tier: 'y' } }), given)).toEqual({
      app: 'mine',
      tier: 'y',
      [key]: 'node-1',
    });
  });
});

describe('the Evacuation of a static pod', () => {
  const given = mirrorPod({ phase: 'Failed' });
  const { spec } = evacuationOf(given, 1800);
  const secondsAgo = (seconds: number) => new Date(now.getTime() - seconds * 1_000).toISOString();
  const since = (seconds: number) => ({
    spec,
    status: {
      activeEvacuatorClass: 'kubelet.k8s.io',
      activeEvacuatorSince: secondsAgo(seconds),
      evacuationProgressTimestamp: secondsAgo(seconds),
      activeEvacuatorCompleted: false,
      failedEvictionCounter: 0,
      message: activationMessage({ spec }, 'kubelet.k8s.io', given),
      conditions: [],
    },
  });

  test.each([
    { when: 'it is new', of: { spec }, hasAgent: true, want: 'Activate' },
    { when: 'an agent may respond', of: since(400), hasAgent: true, want: 'AwaitProgress' },
    { when: 'no agent responds', of: since(400), hasAgent: false, want: 'AwaitProgress' },
    {
      when: 'no agent has responded for the whole deadline',
      of: since(1_801),
      hasAgent: false,
      want: 'Activate',
    },
    { when: 'the agent reports no progress', of: since(1_801), hasAgent: true, want: 'Activate' },
  ])('is never an eviction: when $when', ({ of, hasAgent, want }) => {
    const step = nextEvacuatorStep(of, given, { now, responseSeconds: 300, isKnown: () => hasAgent });
    expect(step.kind).toBe(want);
  });

  test('says which agent it waits for', () => {
    expect(since(0).status.message).toBe(
      'Waiting for kubelet.k8s.io to respond, the agent of node node-1; next: kubelet.k8s.io again.',
    );
    const after = { from: 'kubelet.k8s.io', reason: 'EvacuatorNotResponding' } as const;
    expect(handOverMessage(after, { progressSeconds: 1800, responseSeconds: 300 })).toBe(
      'kubelet.k8s.io has not responded for 300 s: check that the node agent of its node is running.',
    );
  });
});
