import { describe, expect, test } from '@jest/globals';
import type { Deployment, EndpointSlice, Service } from '../../api/core.ts';
import { parseRelease, type Release, releaseText } from '../../domain/release.ts';
import { planReplacement, type Replica, type Scene } from '../../domain/replacement.ts';

const now = new Date('2026-01-01T12:00:00Z');
const ago = (seconds: number) => new Date(now.getTime() - seconds * 1_000).toISOString();

interface Differs {
  state?: 'unscheduled' | 'starting' | 'ready' | 'terminating';
  readyFor?: number;
  labels?: Record<string, string>;
  owner?: string;
}

const pod = (
  name: string,
  { state = 'ready', readyFor = 100, labels = {}, owner = 'ReplicaSet' }: Differs = {},
): Replica => ({
  metadata: {
    name,
    namespace: 'default',
    uid: name,
    creationTimestamp: ago(readyFor + 10),
    labels: { app: 'web', 'pod-template-hash': 'abc', ...labels },
    ownerReferences: [{ apiVersion: 'apps/v1', kind: owner, name: 'web-abc', uid: 'rs', controller: true }],
    ...(state === 'terminating' && { deletionTimestamp: ago(1) }),
  },
  status: {
    phase: state === 'ready' ? 'Running' : 'Pending',
    conditions: [
      { type: 'PodScheduled', status: state === 'unscheduled' ? 'False' : 'True', message: 'no room' },
      { type: 'Ready', status: state === 'ready' ? 'True' : 'False', lastTransitionTime: ago(readyFor) },
    ],
  },
});

const release = (releasedAt: string, servedBefore?: number): Release => ({
  ...(servedBefore !== undefined && { servedBefore }),
  deployment: { name: 'web', uid: 'd' },
  replicaSet: { name: 'web-abc', uid: 'rs' },
  podTemplateHash: 'abc',
  releasedAt,
});

const deployment = (
  spec: Partial<Deployment['spec']> = {},
  differs: Partial<Deployment> = {},
): Deployment => ({
  metadata: { name: 'web', namespace: 'default', uid: 'd' },
  spec: { replicas: 1, selector: { matchLabels: { app: 'web' } }, ...spec },
  ...differs,
});

const web: Service = { metadata: { name: 'web', namespace: 'default' }, spec: { selector: { app: 'web' } } };

const sliceOf = (...uids: string[]): EndpointSlice => ({
  metadata: { name: 'web-1', labels: { 'kubernetes.io/service-name': 'web' } },
  endpoints: uids.map((uid) => ({ conditions: { ready: true }, targetRef: { uid } })),
});

interface Story {
  when: string;
  pods: Replica[];
  /** Released, and how many seconds ago. */
  released?: Record<string, number>;
  servedBefore?: number;
  leaving?: string[];
  spec?: Partial<Deployment['spec']>;
  deployment?: Partial<Deployment>;
  services?: Service[];
  slices?: EndpointSlice[];
  want: Record<string, string | RegExp>;
}

function sceneOf(story: Story): Scene {
  const released = Object.entries(story.released ?? {}).map(([uid, seconds]): [string, Release] => [
    uid,
    release(ago(seconds), story.servedBefore),
  ]);
  return {
    deployment: deployment(story.spec, story.deployment),
    pods: story.pods,
    released: new Map(released),
    services: story.services ?? [],
    slices: story.slices ?? [],
    now,
  };
}

const four = ['a', 'b', 'c', 'd'].map((name) => pod(name));

describe('a pod that is to leave', () => {
  test.each<Story>([
    { when: 'is released first', pods: [pod('a')], leaving: ['a'], want: { a: 'Release' } },
    {
      when: 'stays while no replacement is made',
      pods: [pod('a')],
      released: { a: 1 },
      want: {
        a: 'Wait: 0 of 1 pods of Deployment default/web are available without those that leave: no replacement is made yet.',
      },
    },
    {
      when: 'stays while its replacement has no room, and says so',
      pods: [pod('a'), pod('b', { state: 'unscheduled' })],
      released: { a: 1 },
      want: { a: /^Wait: 0 of 1 .*: b is not scheduled: no room\.$/ },
    },
    {
      when: 'is blocked when its replacement takes far longer than another pod took',
      pods: [pod('a'), pod('b', { state: 'starting' })],
      released: { a: 1_000 },
      want: { a: /^Wait: Blocked since 2026-01-01T11:44:20.000Z: 0 of 1 .*: b is not Ready\.$/ },
    },
    {
      when: 'stays while its replacement is not Ready for minReadySeconds',
      spec: { minReadySeconds: 30 },
      pods: [pod('a'), pod('b', { readyFor: 20 })],
      released: { a: 30 },
      want: { a: /b is Ready, but not for 30 s yet\.$/ },
    },
    {
      when: 'stays while its replacement is not in the EndpointSlices of its Service',
      pods: [pod('a'), pod('b')],
      released: { a: 30 },
      services: [web],
      slices: [
        sliceOf('a'),
        { ...sliceOf(), endpoints: [{ conditions: { ready: false }, targetRef: { uid: 'b' } }] },
      ],
      want: { a: /b is not in the EndpointSlices of Service web yet\.$/ },
    },
    {
      when: 'may go when its replacement is Ready and in the EndpointSlices of every Service of the pod',
      pods: [pod('a'), pod('b')],
      released: { a: 30 },
      services: [web, { metadata: { name: 'other' }, spec: { selector: { app: 'other' } } }],
      slices: [sliceOf('a', 'b')],
      want: {
        a: 'LetGo: Replaced: 1 of 1 pods of Deployment default/web are available without those that leave.',
      },
    },
    {
      when: 'stays when the replacement is itself on its way out',
      pods: [pod('a'), pod('b', { state: 'terminating' })],
      released: { a: 30 },
      want: { a: /^Wait: 0 of 1/ },
    },
    {
      when: 'is handed over when it serves nobody',
      pods: [pod('a', { state: 'starting' })],
      leaving: ['a'],
      want: { a: 'HandOver: The pod is not Ready: it serves nobody.' },
    },
    {
      when: 'is not handed over for a moment in which it is not Ready',
      pods: [pod('a', { state: 'starting', readyFor: 5 })],
      leaving: ['a'],
      want: { a: /^Wait: The pod is not Ready since a moment ago/ },
    },
    {
      when: 'waits for its replacement once it was released, Ready or not',
      pods: [pod('a', { state: 'starting' }), pod('b', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1 .*: b is not Ready\.$/ },
    },
    {
      when: 'does not wait for a Service that no replacement can have, and says so',
      pods: [pod('a', { labels: { role: 'leader' } }), pod('b')],
      released: { a: 30 },
      services: [web, { metadata: { name: 'leader' }, spec: { selector: { app: 'web', role: 'leader' } } }],
      slices: [sliceOf('a', 'b')],
      want: {
        a: /^LetGo: Replaced: 1 of 1 .*\. None of those has the labels by which Service leader selects\.$/,
      },
    },
    {
      when: 'is handed over when its Deployment allows no second pod beside it',
      spec: { strategy: { type: 'Recreate' } },
      pods: [pod('a')],
      leaving: ['a'],
      want: { a: /^HandOver: .*strategy Recreate/ },
    },
    {
      when: 'is handed over when its Deployment is scaled to 0, released or not',
      spec: { replicas: 0 },
      pods: [pod('a'), pod('b')],
      released: { a: 1 },
      leaving: ['a', 'b'],
      want: { a: /scaled to 0/, b: /scaled to 0/ },
    },
    {
      when: 'is handed over when its Deployment is being deleted',
      deployment: { metadata: { name: 'web', namespace: 'default', deletionTimestamp: ago(1) } },
      pods: [pod('a')],
      leaving: ['a'],
      want: { a: /is being deleted/ },
    },
    {
      when: 'is handed over when releasing it would take it from a Service',
      services: [
        { metadata: { name: 'canary' }, spec: { selector: { app: 'web', 'pod-template-hash': 'abc' } } },
      ],
      pods: [pod('a')],
      leaving: ['a'],
      want: { a: /^HandOver: Service canary selects by pod-template-hash/ },
    },
    {
      when: 'is handed over when the Deployment has no such pod any more',
      pods: [pod('b')],
      leaving: ['a'],
      want: { a: /^HandOver: .*no such pod/ },
    },
  ])('$when', (story) => {
    expectSteps(story);
  });
});

describe('several pods of one Deployment', () => {
  test.each<Story>([
    {
      when: 'are released as many at a time as a rollout would add, a quarter unless told',
      spec: { replicas: 4 },
      pods: four,
      leaving: ['d', 'c', 'b'],
      want: {
        b: 'Release',
        c: 'Wait: In line: pods of Deployment default/web leave 1 at a time (maxSurge).',
        d: /^Wait/,
      },
    },
    {
      when: 'are released by maxSurge in percent, rounded up',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: '30%' } } },
      pods: four,
      leaving: ['a', 'b', 'c'],
      want: { a: 'Release', b: 'Release', c: /^Wait/ },
    },
    {
      when: 'are released one at a time where no rollout may add any',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } } },
      pods: four,
      leaving: ['a', 'b'],
      want: { a: 'Release', b: /^Wait/ },
    },
    {
      when: 'wait for those that are out already, whoever released them',
      spec: { replicas: 4 },
      pods: [...four, pod('e', { state: 'starting' })],
      released: { d: 5 },
      leaving: ['a'],
      want: { a: /^Wait: In line/ },
    },
    {
      when: 'go as replacements come, the first released first, so that never fewer are available than wanted',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: 2 } } },
      pods: [...four, pod('e'), pod('f', { state: 'starting' })],
      released: { a: 5, b: 9 },
      want: { b: /^LetGo/, a: /^Wait: 3 of 4 .*: f is not Ready\.$/ },
    },
    {
      when: 'all stay when a replacement has died meanwhile',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: 2 } } },
      pods: [...four, pod('e', { state: 'starting' }), pod('f', { state: 'starting' })],
      released: { a: 5, b: 9 },
      want: { a: /^Wait: 2 of 4 .*, and 1 more are behind\.$/, b: /^Wait/ },
    },
    {
      when: 'go with as many as there were before: one was missing already',
      spec: { replicas: 4 },
      servedBefore: 3,
      pods: [...four.slice(0, 3), pod('d', { state: 'unscheduled' }), pod('e')],
      released: { a: 5 },
      want: { a: /^LetGo: Replaced: 3 of 3/ },
    },
    {
      when: 'never all go, even if none served before',
      servedBefore: 0,
      pods: [pod('a'), pod('b', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1/ },
    },
    {
      when: 'wait for as many as there are to be now: the Deployment was scaled up',
      spec: { replicas: 2 },
      pods: [pod('a'), pod('b')],
      released: { a: 5 },
      want: { a: /^Wait: 1 of 2/ },
    },
    {
      when: 'go with as many as a rollout itself makes do with',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxUnavailable: 1 } } },
      deployment: { status: { replicas: 5, updatedReplicas: 2 } },
      pods: [...four, pod('e', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^LetGo: Replaced: 3 of 3/ },
    },
    {
      when: 'never all go in a rollout that may have none available',
      spec: { replicas: 1, strategy: { rollingUpdate: { maxUnavailable: 1 } } },
      deployment: { status: { replicas: 2, updatedReplicas: 1 } },
      pods: [pod('a'), pod('b', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1/ },
    },
    {
      when: 'are not counted when nobody would replace them',
      pods: [pod('a'), pod('b', { owner: 'Job' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1/ },
    },
  ])('$when', (story) => {
    expectSteps(story);
  });
});

function expectSteps(story: Story): void {
  const leaving = story.leaving ?? Object.keys(story.released ?? {});
  const { steps } = planReplacement(sceneOf(story), new Set(leaving));
  const seen = [...steps].map(([uid, step]) => [
    uid,
    'message' in step ? `${step.kind}: ${step.message}` : step.kind,
  ]);
  const want = Object.entries(story.want).map(([uid, words]) => [
    uid,
    typeof words === 'string' ? words : expect.stringMatching(words),
  ]);
  expect(Object.fromEntries(seen)).toEqual(Object.fromEntries(want));
}

test('progress grows with every step of a replacement, and does not with one that comes and goes', () => {
  const progressWith = (...others: Replica[]) => {
    const story = { when: '', pods: [pod('a'), ...others], released: { a: 1 }, want: {} };
    return planReplacement(sceneOf(story), new Set(['a'])).progress;
  };
  const steps = [
    progressWith(),
    progressWith(pod('b', { state: 'unscheduled' })),
    progressWith(pod('b', { state: 'starting' })),
    progressWith(pod('b')),
  ];
  expect(steps).toEqual(steps.toSorted((a, b) => a - b));
  expect(new Set(steps).size).toBe(steps.length);
});

test('those that serve are counted with those that were released, and without those that do not', () => {
  const pods = [pod('a'), pod('b'), pod('c', { state: 'starting' }), pod('d', { state: 'terminating' })];
  const story = { when: '', pods, released: { a: 1 }, want: {} };
  expect(planReplacement(sceneOf(story), new Set(['a'])).serving).toBe(2);
});

describe('the note on a released pod', () => {
  test('says all that is needed to give it back', () => {
    const note = release(ago(1));
    expect(parseRelease(releaseText(note))).toEqual(note);
  });

  test.each([undefined, '', '{', 'null', '{"deployment":{"name":"web"}}', '[]'])('is not %p', (text) => {
    expect(parseRelease(text)).toBeUndefined();
  });
});
