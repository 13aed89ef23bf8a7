import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Evacuation, EvacuationStatus, Evacuator } from '../../api/evacuation.ts';
import { exhaustedCondition, registeredEvacuators, successorsOf, turnOf } from '../../domain/evacuator.ts';
import { daemonPod, mirrorPod, pod } from '../kit/builders.ts';

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
const asked = (classes: Record<string, string>) =>
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

  test('come highest priority first, and by class where priorities are equal', () => {
    expect(asked({ 'b.io': '5/x', 'a.io': '5/x', 'low.io': '-3/x', 'high.io': '2147483647/x' })).toEqual([
      'high.io',
      'a.io',
      'b.io',
      'low.io',
    ]);
  });

  test('are none without annotations of theirs', () => {
    const other = pod({ annotations: { 'evacuation.coordination.k8s.io/other': '1/x' } });
    expect(registeredEvacuators(other)).toEqual({ evacuators: [], problems: [] });
  });

  test("of a DaemonSet's pod include its controller, annotated or not", () => {
    const implied = { evacuatorClass: 'daemonset.apps.k8s.io', priority: 10_000, role: 'controller' };
    expect(registeredEvacuators(daemonPod()).evacuators).toEqual([implied]);
    const annotations = { 'evacuation.coordination.k8s.io/priority_daemonset.apps.k8s.io': '7/owner' };
    expect(registeredEvacuators(daemonPod({ annotations })).evacuators).toEqual([
      { ...implied, priority: 7, role: 'owner' },
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
  ])('leave out one whose value is "$value", and name its annotation', ({ value }) => {
    const { evacuators, problems } = registeredEvacuators(annotated({ 'a.io': value, 'b.io': '1/x' }));
    expect(evacuators.map((one) => one.evacuatorClass)).toEqual(['b.io']);
    expect(problems).toEqual([
      `${field('a.io')}: expected "<priority>/<role>", such as "10000/controller" (got "${value}")`,
    ]);
  });

  test.each([{ name: 'Upper.io' }, { name: '' }, { name: 'under_score' }, { name: '-a.io' }])(
    'leave out the class "$name", and name its annotation',
    ({ name }) => {
      const { evacuators, problems } = registeredEvacuators(annotated({ [name]: '1/x' }));
      expect(evacuators).toEqual([]);
      expect(problems).toEqual([
        `${field(name)}: expected the class of an evacuator after priority_, a DNS name such as deployment.apps.k8s.io (got "${name}")`,
      ]);
    },
  );

  test('are a hundred at most, the first ones', () => {
    const many = Object.fromEntries(Array.from({ length: 103 }, (_, i) => [`c${i}.io`, `${i}/x`]));
    const { evacuators, problems } = registeredEvacuators(annotated(many));
    expect(evacuators).toHaveLength(100);
    expect(evacuators[0]?.priority).toBe(102);
    expect(problems).toEqual([
      'metadata.annotations: expected at most 100 evacuators (got 103); the last ones are left out',
    ]);
  });

  test('are the same whatever the order of the annotations, and the result is always sorted', () => {
    const entry = fc.tuple(
      fc.stringMatching(/^[a-z]{1,3}\.io$/),
      fc.oneof(fc.integer({ min: -5, max: 5 }), fc.string()),
    );
    fc.assert(
      fc.property(fc.uniqueArray(entry, { selector: ([name]) => name }), fc.nat(), (entries, turn) => {
        const rotated = [
          ...entries.slice(turn % (entries.length + 1)),
          ...entries.slice(0, turn % (entries.length + 1)),
        ];
        const valuesOf = (list: typeof entries) =>
          Object.fromEntries(
            list.map(([name, value]) => [name, typeof value === 'number' ? `${value}/x` : value]),
          );
        const seen = registeredEvacuators(annotated(valuesOf(entries)));
        expect(registeredEvacuators(annotated(valuesOf(rotated)))).toEqual(seen);
        expect(seen.evacuators.length + seen.problems.length).toBe(entries.length);
        const priorities = seen.evacuators.map((one) => one.priority);
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
const atWork = (evacuatorClass: string, seconds: number, differs: Partial<EvacuationStatus> = {}) => ({
  activeEvacuatorClass: evacuatorClass,
  activeEvacuatorCompleted: false,
  evacuationProgressTimestamp: ago(seconds),
  ...differs,
});

describe('whose turn it is', () => {
  test.each([{ phase: 'Succeeded' }, { phase: 'Failed' }])(
    "nobody's, when the pod has ended by itself ($phase): the eviction API",
    ({ phase }) => {
      expect(turnOf(evacuation(two, atWork('first.io', 1)), pod({ phase }), now)).toEqual({ kind: 'Evict' });
    },
  );

  test.each([
    { when: 'there are no evacuators: the eviction API', evacuators: undefined, want: { kind: 'Evict' } },
    { when: 'the list of evacuators is empty: the eviction API', evacuators: [], want: { kind: 'Evict' } },
    {
      when: 'nobody was asked yet: the first',
      evacuators: two,
      want: { kind: 'Ask', evacuatorClass: 'first.io' },
    },
    {
      when: 'the first has reported progress: it has until its deadline',
      evacuators: two,
      status: atWork('first.io', 100),
      want: { kind: 'Await', until: Date.parse(ago(100)) + 1_800_000 },
    },
    {
      when: 'the first has completed: the second',
      evacuators: two,
      status: atWork('first.io', 1, { activeEvacuatorCompleted: true }),
      want: {
        kind: 'Ask',
        evacuatorClass: 'second.io',
        after: { from: 'first.io', reason: 'EvacuatorCompleted' },
      },
    },
    {
      when: 'the first has reported nothing for just the deadline: the second',
      evacuators: two,
      status: atWork('first.io', 1800),
      want: {
        kind: 'Ask',
        evacuatorClass: 'second.io',
        after: { from: 'first.io', reason: 'EvacuatorMadeNoProgress' },
      },
    },
    {
      when: 'the last has completed: none',
      evacuators: two,
      status: atWork('second.io', 1, { activeEvacuatorCompleted: true }),
      want: { kind: 'Exhausted', after: { from: 'second.io', reason: 'EvacuatorCompleted' } },
    },
    {
      when: 'all had their turn: the eviction API',
      evacuators: two,
      status: exhausted,
      want: { kind: 'Evict' },
    },
    {
      when: 'the active class is none of them: the first',
      evacuators: two,
      status: atWork('other.io', 1),
      want: { kind: 'Ask', evacuatorClass: 'first.io' },
    },
    {
      when: 'no time of progress is there: it is set',
      evacuators: two,
      status: { activeEvacuatorClass: 'first.io' },
      want: { kind: 'Restamp' },
    },
    {
      when: 'the time of progress lies ahead: it is set back',
      evacuators: two,
      status: atWork('first.io', -3600),
      want: { kind: 'Restamp' },
    },
    {
      when: "the time of progress is ahead by no more than clocks differ: it is the evacuator's",
      evacuators: two,
      status: atWork('first.io', -20),
      want: { kind: 'Await', until: Date.parse(ago(-20)) + 1_800_000 },
    },
  ])('$when', ({ evacuators, status, want }) => {
    expect(turnOf(evacuation(evacuators, status), pod(), now)).toEqual(want);
  });

  test.each([
    {
      when: 'without an evacuator it is kept',
      of: mirrorPod(),
      evacuators: undefined,
      want: { kind: 'Keep' },
    },
    {
      when: 'after the last evacuator the first is asked again',
      of: daemonPod(),
      evacuators: two,
      status: atWork('second.io', 1800),
      want: {
        kind: 'Ask',
        evacuatorClass: 'first.io',
        after: { from: 'second.io', reason: 'EvacuatorMadeNoProgress' },
      },
    },
    {
      when: 'but not before the deadline of the last one, however soon that completes',
      of: daemonPod(),
      evacuators: two,
      status: atWork('second.io', 1, { activeEvacuatorCompleted: true, activeEvacuatorSince: ago(100) }),
      want: { kind: 'Await', until: Date.parse(ago(100)) + 1_800_000 },
    },
    {
      when: 'a condition set by hand does not change that',
      of: daemonPod(),
      evacuators: two,
      status: exhausted,
      want: { kind: 'Ask', evacuatorClass: 'first.io' },
    },
  ])('for a pod that nobody may evict: $when', ({ of, evacuators, status, want }) => {
    expect(turnOf(evacuation(evacuators, status), of, now)).toEqual(want);
  });

  test('every evacuator that makes no progress is asked once, in order, and then the pod is evicted', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.stringMatching(/^[a-z]{1,4}\.io$/), { maxLength: 6 }), (classes) => {
        const evacuators = classes.map((evacuatorClass, i) => ({ evacuatorClass, priority: -i, role: 'x' }));
        const said: string[] = [];
        let status: Partial<EvacuationStatus> = {};
        for (let step = 0; step < 10; step++) {
          const turn = turnOf(evacuation(evacuators, status), pod(), now);
          if (turn.kind === 'Ask') said.push(turn.evacuatorClass);
          if (turn.kind === 'Ask') status = atWork(turn.evacuatorClass, 1800);
          else if (turn.kind === 'Exhausted') status = exhausted;
          else expect(turn).toEqual({ kind: 'Evict' });
        }
        expect(said).toEqual(classes);
      }),
    );
  });
});

test.each([
  { of: 'a pod of its own', seen: pod(), want: 'second.io, then the eviction API' },
  { of: 'a pod that nobody may evict', seen: daemonPod(), want: 'second.io, then first.io again' },
])('who comes after the first evacuator of $of is said', ({ seen, want }) => {
  expect(successorsOf(evacuation(two), 'first.io', seen)).toBe(want);
});
