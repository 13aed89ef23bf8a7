import { describe, expect, test } from '@jest/globals';
import type { Deployment, EndpointSlice, Service } from '../../../api/core.ts';
import { parseRelease, type Release, releaseText } from '../../../domain/evacuation/podRelease.ts';
import {
  planReplacement,
  type Replica,
  type ReplacementInput,
} from '../../../domain/evacuation/replacement.ts';

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

interface Case {
  when: string;
  pods: Replica[];
  /** UIDs of released pods, and how many seconds ago they were released. */
  released?: Record<string, number>;
  servedBefore?: number;
  evacuated?: string[];
  spec?: Partial<Deployment['spec']>;
  deployment?: Partial<Deployment>;
  services?: Service[];
  slices?: EndpointSlice[];
  want: Record<string, string | RegExp>;
}

function inputOf(given: Case): ReplacementInput {
  const released = Object.entries(given.released ?? {}).map(([uid, seconds]): [string, Release] => [
    uid,
    release(ago(seconds), given.servedBefore),
  ]);
  return {
    deployment: deployment(given.spec, given.deployment),
    pods: given.pods,
    released: new Map(released),
    services: given.services ?? [],
    slices: given.slices ?? [],
    now,
  };
}

const four = ['a', 'b', 'c', 'd'].map((name) => pod(name));

describe('an evacuated pod', () => {
  test.each<Case>([
    { when: 'is released', pods: [pod('a')], evacuated: ['a'], want: { a: 'Release' } },
    {
      when: 'waits until a replacement is created',
      pods: [pod('a')],
      released: { a: 1 },
      want: {
        a: 'Wait: 0 of 1 pods of Deployment default/web are available, not counting pods that are being evacuated: no replacement has been created yet.',
      },
    },
    {
      when: 'is replaced by a Ready pod of which the scheduler reports that it is not scheduled',
      pods: [
        pod('a'),
        {
          ...pod('b'),
          status: {
            conditions: [
              { type: 'PodScheduled', status: 'False', message: 'already assigned' },
              { type: 'Ready', status: 'True', lastTransitionTime: ago(60) },
            ],
          },
        },
      ],
      released: { a: 1 },
      want: { a: /^Replaced: Replaced: 1 of 1 / },
    },
    {
      when: 'waits while its replacement is not scheduled',
      pods: [pod('a'), pod('b', { state: 'unscheduled' })],
      released: { a: 1 },
      want: { a: /^Wait: 0 of 1 .*: b is not scheduled: no room\.$/ },
    },
    {
      when: 'is blocked when its replacement takes much longer than another pod did',
      pods: [pod('a'), pod('b', { state: 'starting' })],
      released: { a: 1_000 },
      want: { a: /^Wait: Blocked since 2026-01-01T11:44:20.000Z: 0 of 1 .*: b is not Ready\.$/ },
    },
    {
      when: 'waits until its replacement has been Ready for minReadySeconds',
      spec: { minReadySeconds: 30 },
      pods: [pod('a'), pod('b', { readyFor: 20 })],
      released: { a: 30 },
      want: { a: /b has not been Ready for 30 s yet \(minReadySeconds\)\.$/ },
    },
    {
      when: 'waits until its replacement is in the EndpointSlices of its Service',
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
      when: 'is replaced when its replacement is Ready and in the EndpointSlices of every Service of the pod',
      pods: [pod('a'), pod('b')],
      released: { a: 30 },
      services: [web, { metadata: { name: 'other' }, spec: { selector: { app: 'other' } } }],
      slices: [sliceOf('a', 'b')],
      want: {
        a: 'Replaced: Replaced: 1 of 1 pods of Deployment default/web are available, not counting pods that are being evacuated.',
      },
    },
    {
      when: 'waits when the replacement is terminating itself',
      pods: [pod('a'), pod('b', { state: 'terminating' })],
      released: { a: 30 },
      want: { a: /^Wait: 0 of 1/ },
    },
    {
      when: 'is skipped when it is not Ready',
      pods: [pod('a', { state: 'starting' })],
      evacuated: ['a'],
      want: { a: 'Skip: The pod is not Ready and serves no requests.' },
    },
    {
      when: 'waits when it became unready a moment ago',
      pods: [pod('a', { state: 'starting', readyFor: 5 })],
      evacuated: ['a'],
      want: { a: /^Wait: The pod has been unready for less than 30 s/ },
    },
    {
      when: 'waits for its replacement once it is released, even if it is not Ready',
      pods: [pod('a', { state: 'starting' }), pod('b', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1 .*: b is not Ready\.$/ },
    },
    {
      when: 'does not wait for a Service that selects no replacement, and reports it',
      pods: [pod('a', { labels: { role: 'leader' } }), pod('b')],
      released: { a: 30 },
      services: [web, { metadata: { name: 'leader' }, spec: { selector: { app: 'web', role: 'leader' } } }],
      slices: [sliceOf('a', 'b')],
      want: {
        a: /^Replaced: Replaced: 1 of 1 .*\. No replacement has the labels that Service leader selects\.$/,
      },
    },
    {
      when: 'is skipped when its Deployment uses the strategy Recreate',
      spec: { strategy: { type: 'Recreate' } },
      pods: [pod('a')],
      evacuated: ['a'],
      want: { a: /^Skip: .*strategy Recreate/ },
    },
    {
      when: 'is skipped when its Deployment is scaled to 0, released or not',
      spec: { replicas: 0 },
      pods: [pod('a'), pod('b')],
      released: { a: 1 },
      evacuated: ['a', 'b'],
      want: { a: /scaled to 0/, b: /scaled to 0/ },
    },
    {
      when: 'is skipped when its Deployment is being deleted',
      deployment: { metadata: { name: 'web', namespace: 'default', deletionTimestamp: ago(1) } },
      pods: [pod('a')],
      evacuated: ['a'],
      want: { a: /is being deleted/ },
    },
    {
      when: 'is skipped when a Service would no longer select it after its release',
      services: [
        { metadata: { name: 'canary' }, spec: { selector: { app: 'web', 'pod-template-hash': 'abc' } } },
      ],
      pods: [pod('a')],
      evacuated: ['a'],
      want: { a: /^Skip: Service canary selects pods by pod-template-hash/ },
    },
    {
      when: 'is skipped when it no longer belongs to the Deployment',
      pods: [pod('b')],
      evacuated: ['a'],
      want: { a: /^Skip: The pod no longer belongs/ },
    },
  ])('$when', (given) => {
    expectSteps(given);
  });
});

describe('several pods of one Deployment', () => {
  test.each<Case>([
    {
      when: 'are released as many at a time as a rollout would add, 25 % by default',
      spec: { replicas: 4 },
      pods: four,
      evacuated: ['d', 'c', 'b'],
      want: {
        b: 'Release',
        c: 'Wait: Waiting for other pods of Deployment default/web: at most 1 at a time are replaced (maxSurge).',
        d: /^Wait/,
      },
    },
    {
      when: 'are released by maxSurge in percent, rounded up',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: '30%' } } },
      pods: four,
      evacuated: ['a', 'b', 'c'],
      want: { a: 'Release', b: 'Release', c: /^Wait/ },
    },
    {
      when: 'are released one at a time when maxSurge is 0',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } } },
      pods: four,
      evacuated: ['a', 'b'],
      want: { a: 'Release', b: /^Wait/ },
    },
    {
      when: 'wait for pods that are already released',
      spec: { replicas: 4 },
      pods: [...four, pod('e', { state: 'starting' })],
      released: { d: 5 },
      evacuated: ['a'],
      want: { a: /^Wait: Waiting for other pods/ },
    },
    {
      when: 'are evicted as replacements become available, oldest release first, so that enough pods stay available',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: 2 } } },
      pods: [...four, pod('e'), pod('f', { state: 'starting' })],
      released: { a: 5, b: 9 },
      want: { b: /^Replaced/, a: /^Wait: 3 of 4 .*: f is not Ready\.$/ },
    },
    {
      when: 'all wait when a replacement is not available any more',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxSurge: 2 } } },
      pods: [...four, pod('e', { state: 'starting' }), pod('f', { state: 'starting' })],
      released: { a: 5, b: 9 },
      want: { a: /^Wait: 2 of 4 .*, 1 more not available\.$/, b: /^Wait/ },
    },
    {
      when: 'do not wait for a pod that was already missing before',
      spec: { replicas: 4 },
      servedBefore: 3,
      pods: [...four.slice(0, 3), pod('d', { state: 'unscheduled' }), pod('e')],
      released: { a: 5 },
      want: { a: /^Replaced: Replaced: 3 of 3/ },
    },
    {
      when: 'are never all evicted, even if none served before',
      servedBefore: 0,
      pods: [pod('a'), pod('b', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1/ },
    },
    {
      when: 'wait for as many pods as the Deployment wants after it was scaled up',
      spec: { replicas: 2 },
      pods: [pod('a'), pod('b')],
      released: { a: 5 },
      want: { a: /^Wait: 1 of 2/ },
    },
    {
      when: 'may be unavailable within maxUnavailable during a rollout',
      spec: { replicas: 4, strategy: { rollingUpdate: { maxUnavailable: 1 } } },
      deployment: { status: { replicas: 5, updatedReplicas: 2 } },
      pods: [...four, pod('e', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Replaced: Replaced: 3 of 3/ },
    },
    {
      when: 'are never all evicted during a rollout, even if maxUnavailable allows it',
      spec: { replicas: 1, strategy: { rollingUpdate: { maxUnavailable: 1 } } },
      deployment: { status: { replicas: 2, updatedReplicas: 1 } },
      pods: [pod('a'), pod('b', { state: 'starting' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1/ },
    },
    {
      when: 'are not counted when no ReplicaSet owns them',
      pods: [pod('a'), pod('b', { owner: 'Job' })],
      released: { a: 5 },
      want: { a: /^Wait: 0 of 1/ },
    },
  ])('$when', (given) => {
    expectSteps(given);
  });
});

function expectSteps(given: Case): void {
  const evacuated = given.evacuated ?? Object.keys(given.released ?? {});
  const { steps } = planReplacement(inputOf(given), new Set(evacuated));
  const actual = [...steps].map(([uid, step]) => [
    uid,
    'message' in step ? `${step.kind}: ${step.message}` : step.kind,
  ]);
  const want = Object.entries(given.want).map(([uid, message]) => [
    uid,
    typeof message === 'string' ? message : expect.stringMatching(message),
  ]);
  expect(Object.fromEntries(actual)).toEqual(Object.fromEntries(want));
}

test('progress grows with every stage of a replacement', () => {
  const progressWith = (...others: Replica[]) => {
    const given = { when: '', pods: [pod('a'), ...others], released: { a: 1 }, want: {} };
    return planReplacement(inputOf(given), new Set(['a'])).progress;
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

test('serving counts Ready pods, including released ones', () => {
  const pods = [pod('a'), pod('b'), pod('c', { state: 'starting' }), pod('d', { state: 'terminating' })];
  const given = { when: '', pods, released: { a: 1 }, want: {} };
  expect(planReplacement(inputOf(given), new Set(['a'])).serving).toBe(2);
});

describe('the annotation of a released pod', () => {
  test('contains all that is needed to return the pod', () => {
    const value = release(ago(1));
    expect(parseRelease(releaseText(value))).toEqual(value);
  });

  test.each([undefined, '', '{', 'null', '{"deployment":{"name":"web"}}', '[]'])(
    'is not parsed from %p',
    (text) => {
      expect(parseRelease(text)).toBeUndefined();
    },
  );
});
