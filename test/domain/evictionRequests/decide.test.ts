import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Pod } from '../../../api/core.ts';
import type {
  EvictionRequest,
  EvictionStatus,
  LifecycleEviction,
  ResponderStatus,
} from '../../../api/lifecycle.ts';
import {
  EVICTION_REQUEST,
  IMPERATIVE_RESPONDER,
  LIFECYCLE_EVICTION,
  MAX_REQUESTERS,
} from '../../../api/names.ts';
import { isFinal } from '../../../domain/evacuation/evictionRequest.ts';
import {
  completionGraceMs,
  currentEviction,
  type EvictionSnapshot,
  lifecycleEvictionName,
  nextStep,
  type Step,
} from '../../../domain/evictionRequests/decide.ts';
import { compareResponders, overdueResponder } from '../../../domain/evictionRequests/responders.ts';
import { violations } from '../../kit/evictionRules.ts';

const target = { name: 'web-1', uid: '00000000-0000-4000-8000-000000000001' };
const start = Date.parse('2026-11-25T12:00:00Z');
const first = 'example.com/first';
const second = 'example.com/second';
const minute = 60_000;

/** A cluster with one pod, whose apiserver applies the rules of Kubernetes. */
class World {
  nowMs = start;
  /** When the controller started: long ago, unless it has started again. */
  startedAt = new Date(start - 60 * minute);
  pod: Pod | undefined;
  requests: EvictionRequest[] = [];
  evictions: LifecycleEviction[] = [];
  leftAt: Date | undefined;
  /** Writes of the controller. */
  readonly written: Step['kind'][] = [];
  #serial = 0;
  #created = 0;

  constructor(responders: readonly string[] = [], differs: Partial<Pod['spec']> = {}) {
    this.pod = {
      metadata: { ...target, namespace: 'default' },
      spec: {
        nodeName: 'node-1',
        ...differs,
        ...(responders.length > 0 && {
          evictionResponders: responders.map((name, i) => ({ name, priority: 9_000 - i })),
        }),
      },
      status: { phase: 'Running', ready: true },
    };
  }

  requested(requester: string, differs: Partial<EvictionRequest['metadata']> = {}): EvictionRequest {
    this.#serial += 1;
    const request: EvictionRequest = {
      apiVersion: EVICTION_REQUEST.apiVersion,
      kind: EVICTION_REQUEST.kind,
      metadata: {
        name: `r-${this.#serial}`,
        namespace: 'default',
        uid: `r-${this.#serial}`,
        generation: 1,
        ...differs,
      },
      spec: { target: { pod: target }, requester, intent: 'Eviction' },
    };
    this.requests = [...this.requests, request];
    return request;
  }

  intended(name: string, intent: EvictionRequest['spec']['intent']): void {
    this.requests = this.requests.map((one) =>
      one.metadata.name !== name || one.spec.intent === intent
        ? one
        : {
            ...one,
            metadata: { ...one.metadata, generation: (one.metadata.generation ?? 1) + 1 },
            spec: { ...one.spec, intent },
          },
    );
  }

  removed(name: string): void {
    this.requests = this.requests.filter(({ metadata }) => metadata.name !== name);
  }

  /** Changes the status of the active responder, as it does. */
  reported(change: (status: ResponderStatus) => ResponderStatus): void {
    this.evictions = this.evictions.map((eviction) => {
      if (isFinal(eviction)) return eviction;
      const active = eviction.status?.targetResponders?.find(({ state }) => state === 'Active');
      const responders = eviction.status?.responders?.map((one) =>
        one.name === active?.name ? change(one) : one,
      );
      return { ...eviction, status: { ...eviction.status, ...(responders && { responders }) } };
    });
  }

  completed(): void {
    this.reported((status) => ({ ...status, completionTime: this.#now() }));
  }

  heartbeat(): void {
    this.reported((status) => ({ ...status, heartbeatTime: this.#now() }));
  }

  left(): void {
    this.pod = undefined;
  }

  passed(ms: number): void {
    this.nowMs += ms;
  }

  restarted(): void {
    this.startedAt = new Date(this.nowMs);
  }

  get view(): EvictionSnapshot {
    let n = 1;
    while (this.evictions.some(({ metadata }) => metadata.name === lifecycleEvictionName(n, target.name)))
      n++;
    const { requests, evictions, pod } = this;
    const hasLeft = pod === undefined || pod.status.phase === 'Succeeded';
    this.leftAt = hasLeft ? (this.leftAt ?? new Date(this.nowMs)) : undefined;
    return {
      namespace: 'default',
      target,
      requests,
      evictions,
      pod,
      leftAt: this.leftAt,
      startedAt: this.startedAt,
      freeName: lifecycleEvictionName(n, target.name),
      now: new Date(this.nowMs),
    };
  }

  /** Lets the controller act until it waits. Returns when it wants to act again. */
  settled(): number | undefined {
    for (let i = 0; i < 100; i++) {
      const step = nextStep(this.view);
      if (step.kind === 'Wait') return step.untilMs;
      this.written.push(step.kind);
      this.#apply(step);
    }
    throw new Error(`the controller never rests: ${this.written.slice(-6).join(', ')}`);
  }

  /** Returns the status of the Eviction that counts. */
  get status(): EvictionStatus {
    return currentEviction(this.evictions)?.status ?? {};
  }

  get states(): string[] {
    return (this.status.targetResponders ?? []).map(({ name, state }) => `${name} ${state}`);
  }

  reasons(
    object: { status?: EvictionStatus | EvictionRequest['status'] } = { status: this.status },
  ): string[] {
    return (object.status?.conditions ?? []).map(({ type, status, reason }) => `${type} ${status} ${reason}`);
  }

  #now(): string {
    return new Date(this.nowMs).toISOString().replace(/\.\d+Z/, 'Z');
  }

  #apply(step: Exclude<Step, { kind: 'Wait' }>): void {
    if (step.kind === 'CreateEviction') {
      this.#created += 1;
      const { status: _, ...created } = step.eviction;
      const metadata = {
        ...created.metadata,
        uid: `e-${this.#created}`,
        generation: 1,
        creationTimestamp: this.#now(),
      };
      this.evictions = [...this.evictions, { ...created, metadata }];
      return;
    }
    if (step.kind === 'UpdateRequest') {
      this.requests = this.requests.map((one) =>
        one.metadata.uid === step.request.metadata.uid ? { ...one, status: step.status } : one,
      );
      return;
    }
    if (step.kind === 'UpdateEviction')
      expect(violations(step.eviction, step.status, new Date(this.nowMs))).toEqual([]);
    this.evictions = this.evictions.map((one) => {
      if (one.metadata.uid !== step.eviction.metadata.uid) return one;
      if (step.kind === 'UpdateEviction') return { ...one, status: step.status };
      const { labels, ownerReferences } = step;
      return {
        ...one,
        metadata: { ...one.metadata, labels: { ...labels }, ownerReferences: [...ownerReferences] },
      };
    });
  }
}

describe('Several EvictionRequests for a pod', () => {
  test('have one Eviction, which all of them own', () => {
    const world = new World();
    const a = world.requested('example.com/a');
    const b = world.requested('example.com/b');
    world.settled();
    const [eviction, ...others] = world.evictions;
    expect(others).toEqual([]);
    expect(eviction?.metadata).toMatchObject({
      name: 'pod-1-web-1',
      ownerReferences: [a, b].map(({ metadata: { name, uid } }) => ({
        apiVersion: EVICTION_REQUEST.apiVersion,
        kind: EVICTION_REQUEST.kind,
        name,
        uid,
      })),
    });
  });

  test('are named in its status and its labels, with their roles', () => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.requested(first);
    world.settled();
    expect(world.status.requesters).toEqual([
      { name: 'example.com/a', intent: 'Eviction' },
      { name: first, intent: 'Eviction' },
    ]);
    expect(world.evictions[0]?.metadata.labels).toEqual({
      'example.com/a': 'requester',
      [first]: 'requester-responder',
      [IMPERATIVE_RESPONDER]: 'responder',
    });
  });

  test('are named in a status that says which generation of the Eviction was observed', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    expect(world.status.observedGeneration).toBe(1);
    const regenerated = (generation: number | undefined) => {
      world.evictions = world.evictions.map((one) => {
        const { generation: _before, ...metadata } = one.metadata;
        return { ...one, metadata: { ...metadata, ...(generation !== undefined && { generation }) } };
      });
      world.settled();
    };
    // Without a generation it is the first one.
    regenerated(undefined);
    expect(world.status.observedGeneration).toBe(1);
    regenerated(2);
    expect(world.status.observedGeneration).toBe(2);
    // What was observed stays observed.
    regenerated(1);
    expect(world.status.observedGeneration).toBe(2);
  });

  test('are named in the labels of a new Eviction up to the number that its status may have', () => {
    const world = new World();
    for (let i = 0; i < MAX_REQUESTERS + 20; i++) world.requested(`example.com/r${i}`);
    const step = nextStep(world.view);
    const labels = step.kind === 'CreateEviction' ? step.eviction.metadata.labels : undefined;
    const roles = Object.values(labels ?? {});
    expect(roles.filter((role) => role === 'requester')).toHaveLength(MAX_REQUESTERS);
    expect(labels).toMatchObject({ [IMPERATIVE_RESPONDER]: 'responder' });
  });

  test('that come later become owners, too', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.requested('example.com/b');
    world.settled();
    expect(world.evictions).toHaveLength(1);
    expect(world.evictions[0]?.metadata.ownerReferences?.map(({ name }) => name)).toEqual(['r-1', 'r-2']);
  });
});

describe('The responders of an Eviction', () => {
  test('are those of the pod and the imperative one, the first of them Active', () => {
    const world = new World([first, second]);
    world.requested('example.com/a');
    world.settled();
    expect(world.states).toEqual([
      `${first} Active`,
      `${second} Inactive`,
      `${IMPERATIVE_RESPONDER} Inactive`,
    ]);
    expect(world.status.responders?.[0]).toEqual({ name: first, startTime: '2026-11-25T12:00:00Z' });
  });

  test('follow one another on completion', () => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    world.passed(minute);
    world.completed();
    world.settled();
    expect(world.states).toEqual([`${first} Completed`, `${IMPERATIVE_RESPONDER} Active`]);
    expect(world.status.responders?.[1]?.startTime).toBe('2026-11-25T12:01:00Z');
  });

  test('follow one another when the active one has not reported for 20 minutes', () => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    world.passed(10 * minute);
    world.heartbeat();
    expect(world.settled()).toBe(start + 30 * minute);
    world.passed(20 * minute - 1);
    world.settled();
    expect(world.states[0]).toBe(`${first} Active`);
    world.passed(1);
    world.settled();
    expect(world.states).toEqual([`${first} Interrupted`, `${IMPERATIVE_RESPONDER} Active`]);
  });

  test('may report late after an outage: nobody is interrupted in the first minute of the controller', () => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    world.passed(45 * minute);
    world.restarted();
    expect(world.settled()).toBe(start + 46 * minute);
    expect(world.states[0]).toBe(`${first} Active`);
    world.passed(minute - 1);
    world.heartbeat();
    expect(world.settled()).toBe(start + 66 * minute - 1_000);
    expect(world.states[0]).toBe(`${first} Active`);
  });

  test('that do not report after an outage follow one another after the first minute of the controller', () => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    world.passed(45 * minute);
    world.restarted();
    world.settled();
    world.passed(minute);
    world.settled();
    expect(world.states).toEqual([`${first} Interrupted`, `${IMPERATIVE_RESPONDER} Active`]);
  });

  test('that have completed during an outage follow one another at once', () => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    world.passed(45 * minute);
    world.completed();
    world.restarted();
    world.settled();
    expect(world.states).toEqual([`${first} Completed`, `${IMPERATIVE_RESPONDER} Active`]);
  });

  test('that have all completed fail the Eviction if the pod stays', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.completed();
    world.settled();
    const failed = ['Failed True NoFurtherResponder', 'TargetEvicted False EvictionFailed'];
    expect(world.reasons()).toEqual(failed);
    expect(world.reasons(world.requests[0])).toEqual(failed);
    expect(world.evictions).toHaveLength(1);
  });

  test('that have all completed do not fail the Eviction of a pod that terminates', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.completed();
    if (world.pod) world.pod.metadata.deletionTimestamp = new Date(start).toISOString();
    world.settled();
    expect(world.reasons()).toEqual([
      'Failed False AwaitingEviction',
      'TargetEvicted False AwaitingEviction',
    ]);
    world.left();
    world.settled();
    expect(world.reasons()).toEqual(['Failed False Succeeded', 'TargetEvicted True PodDeleted']);
    expect(world.states).toEqual([`${IMPERATIVE_RESPONDER} Completed`]);
  });
});

describe('A pod that leaves', () => {
  test('gives the active responder a few seconds to report its completion', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.left();
    expect(world.settled()).toBe(start + completionGraceMs);
    expect(world.reasons()).toContain('TargetEvicted False AwaitingEviction');
    world.completed();
    world.settled();
    expect(world.states).toEqual([`${IMPERATIVE_RESPONDER} Completed`]);
    expect(world.reasons(world.requests[0])).toContain('TargetEvicted True PodDeleted');
  });

  test('interrupts a responder that does not', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.left();
    world.settled();
    world.passed(completionGraceMs);
    world.settled();
    expect(world.states).toEqual([`${IMPERATIVE_RESPONDER} Interrupted`]);
  });

  test('by itself is PodTerminal', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.completed();
    if (world.pod) world.pod.status.phase = 'Succeeded';
    world.settled();
    expect(world.reasons()).toEqual(['Failed False Succeeded', 'TargetEvicted True PodTerminal']);
  });

  test('is not reported as missing to a request that comes later', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.left();
    world.completed();
    world.settled();
    world.requested('example.com/b');
    world.settled();
    expect(world.reasons(world.requests[1])).toContain('TargetEvicted True PodDeleted');
    expect(world.evictions).toHaveLength(1);
  });

  test('stays evicted for a request whose Eviction was removed', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.left();
    world.completed();
    world.settled();
    world.evictions = [];
    const { written } = world;
    const before = written.length;
    world.settled();
    expect(written).toHaveLength(before);
  });
});

describe('A responder that becomes Interrupted', () => {
  const overdue = (change: (world: World) => void) => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    const [before] = world.evictions as [LifecycleEviction];
    change(world);
    world.settled();
    const [after] = world.evictions as [LifecycleEviction];
    expect(after.status?.targetResponders?.[0]?.state).toBe('Interrupted');
    return overdueResponder(before, after);
  };

  test('was overdue if the pod stays', () => {
    expect(overdue((world) => world.passed(20 * minute))).toBe(first);
  });

  test.each([
    {
      when: 'has terminated',
      leave: ({ pod }: World) => {
        if (pod !== undefined) pod.status.phase = 'Succeeded';
      },
    },
    { when: 'is gone', leave: (world: World) => world.left() },
  ])('was not overdue if the pod $when', ({ leave }) => {
    const leaves = (world: World) => {
      leave(world);
      world.settled();
      world.passed(completionGraceMs);
    };
    expect(overdue(leaves)).toBeUndefined();
  });
});

describe('An Eviction that nobody requests any more', () => {
  test.each([
    { when: 'all requests are withdrawn', withdraw: (world: World) => world.intended('r-1', 'Withdrawn') },
    { when: 'all requests are removed', withdraw: (world: World) => world.removed('r-1') },
    {
      when: 'a finalizer keeps a request that was deleted',
      withdraw: (world: World) => {
        const deletionTimestamp = new Date(start).toISOString();
        world.requests = world.requests.map((one) => ({
          ...one,
          metadata: { ...one.metadata, deletionTimestamp },
        }));
      },
    },
  ])('is cancelled: $when', ({ withdraw }) => {
    const world = new World([first]);
    world.requested('example.com/a');
    world.settled();
    withdraw(world);
    world.settled();
    expect(world.states).toEqual([`${first} Canceled`, `${IMPERATIVE_RESPONDER} Inactive`]);
    expect(world.reasons()).toEqual([
      'Failed True CanceledDueToNoRequesters',
      'TargetEvicted False EvictionFailed',
    ]);
    expect(world.status.requesters).toEqual([{ name: 'example.com/a', intent: 'Withdrawn' }]);
  });

  test('continues while one request is left', () => {
    const world = new World();
    world.requested('example.com/a');
    world.requested('example.com/b');
    world.settled();
    world.intended('r-1', 'Withdrawn');
    world.settled();
    expect(world.states).toEqual([`${IMPERATIVE_RESPONDER} Active`]);
    expect(world.status.requesters?.map(({ intent }) => intent)).toEqual(['Withdrawn', 'Eviction']);
  });

  test('is followed by another one when a request wants it again', () => {
    const world = new World();
    world.requested('example.com/a');
    world.settled();
    world.intended('r-1', 'Withdrawn');
    world.settled();
    world.passed(1_000);
    world.intended('r-1', 'Eviction');
    world.settled();
    expect(world.evictions.map(({ metadata }) => metadata.name)).toEqual(['pod-1-web-1', 'pod-2-web-1']);
    expect(world.reasons(world.requests[0])).toEqual([
      'Failed False AwaitingEviction',
      'TargetEvicted False AwaitingEviction',
    ]);
    expect(world.requests[0]?.status?.observedGeneration).toBe(3);
  });
});

test('An Eviction whose requests were deleted without it, so that it has no owner, is cancelled', () => {
  const world = new World();
  world.requested('example.com/a');
  world.settled();
  world.evictions = world.evictions.map((one) => ({
    ...one,
    metadata: { ...one.metadata, ownerReferences: [] },
  }));
  world.removed('r-1');
  world.settled();
  expect(world.evictions.every(isFinal)).toBe(true);
});

describe('An EvictionRequest is invalid', () => {
  const invalid = ['Failed True EvictionInvalid', 'TargetEvicted False EvictionFailed'];

  test('if its pod does not exist', () => {
    const world = new World();
    world.left();
    world.requested('example.com/a');
    world.settled();
    expect(world.reasons(world.requests[0])).toEqual(invalid);
    expect(world.evictions).toEqual([]);
  });

  test('if its pod is part of a group', () => {
    const world = new World([], { hasSchedulingGroup: true });
    world.requested('example.com/a');
    world.settled();
    expect(world.reasons(world.requests[0])).toEqual(invalid);
    expect(world.evictions).toEqual([]);
  });
});

test('An Eviction that nobody has requested is left as it is', () => {
  const world = new World();
  const { apiVersion, kind } = LIFECYCLE_EVICTION;
  const metadata = { name: 'by-hand', namespace: 'default', uid: 'by-hand' };
  world.evictions = [{ apiVersion, kind, metadata, spec: { target: { pod: target } } }];
  world.settled();
  expect(world.written).toEqual([]);
});

test('A second Eviction in progress for the same pod is failed as invalid', () => {
  const world = new World();
  world.requested('example.com/a');
  world.settled();
  const { apiVersion, kind } = LIFECYCLE_EVICTION;
  const metadata = {
    name: 'z',
    namespace: 'default',
    uid: 'z',
    generation: 1,
    creationTimestamp: '2026-11-25T12:00:05Z',
  };
  world.evictions = [...world.evictions, { apiVersion, kind, metadata, spec: { target: { pod: target } } }];
  world.settled();
  expect(world.reasons(world.evictions[1])).toContain('Failed True EvictionInvalid');
  expect(world.states).toEqual([`${IMPERATIVE_RESPONDER} Active`]);
});

test.each([
  { when: 'the highest priority comes first', a: ['z.example.com/a', 2_000], b: ['a.example.com/a', 1_000] },
  { when: 'top labels are compared first', a: ['z.alpha.com/a', 1_000], b: ['a.beta.com/a', 1_000] },
  {
    when: 'a domain comes before its subdomains',
    a: ['example.com/z', 1_000],
    b: ['a.example.com/a', 1_000],
  },
  { when: 'keys are compared last', a: ['example.com/a', 1_000], b: ['example.com/b', 1_000] },
] as const)('The order of responders: $when', ({ a, b }) => {
  const [before, after] = [
    { name: a[0], priority: a[1] },
    { name: b[0], priority: b[1] },
  ];
  expect(compareResponders(before, after)).toBeLessThan(0);
  expect(compareResponders(after, before)).toBeGreaterThan(0);
});

/** Changes that may happen to the cluster; a number says to which request. */
const happenings: Record<string, (world: World, n: number) => void> = {
  'a request is made': (world, n) => world.requested(`example.com/${n}`),
  'a request is withdrawn': (world, n) => world.intended(nameOf(world, n), 'Withdrawn'),
  'a request is made again': (world, n) => world.intended(nameOf(world, n), 'Eviction'),
  'a request is removed': (world, n) => world.removed(nameOf(world, n)),
  'the active responder reports': (world) => world.heartbeat(),
  'the active responder completes': (world) => world.completed(),
  'seconds pass': (world) => world.passed(7_000),
  'minutes pass': (world, n) => world.passed((n + 1) * 5 * minute),
  'the deadline passes': (world) => world.passed(20 * minute),
  'the controller starts again': (world) => world.restarted(),
  'the pod begins to terminate': ({ pod, nowMs }) => {
    if (pod !== undefined) pod.metadata.deletionTimestamp ??= new Date(nowMs).toISOString();
  },
  'the pod has terminated': ({ pod }) => {
    if (pod !== undefined) pod.status.phase = 'Succeeded';
  },
  'the pod is gone': (world) => world.left(),
};
const nameOf = ({ requests }: World, n: number) => requests[n]?.metadata.name ?? '';
const happening = fc.record({ what: fc.constantFrom(...Object.keys(happenings)), n: fc.nat(3) });

function happens(world: World, { what, n }: { what: string; n: number }): void {
  happenings[what]?.(world, n);
}

describe('Whatever happens', () => {
  const history = fc.record({
    responders: fc.uniqueArray(fc.constantFrom(first, second, 'a.example.org/x', 'z.dev/y'), {
      maxLength: 4,
    }),
    events: fc.array(fc.record({ event: happening, acts: fc.boolean() }), { maxLength: 30 }),
  });

  test('the apiserver accepts every write, and the controller comes to rest', () => {
    fc.assert(
      fc.property(history, ({ responders, events }) => {
        const world = new World(responders);
        for (const { event, acts } of events) {
          happens(world, event);
          if (acts) world.settled();
        }
        world.settled();
      }),
      { numRuns: 300 },
    );
  });

  test('at most one Eviction is in progress, at most one responder is Active, and both lists have the same names', () => {
    fc.assert(
      fc.property(history, ({ responders, events }) => {
        const world = new World(responders);
        for (const { event } of events) {
          happens(world, event);
          world.settled();
          expect(world.evictions.filter((one) => !isFinal(one)).length).toBeLessThanOrEqual(1);
          for (const { status = {} } of world.evictions) {
            const { targetResponders = [], responders: reported = [] } = status;
            const active = targetResponders.filter(({ state }) => state === 'Active');
            expect(active.length).toBeLessThanOrEqual(1);
            expect(targetResponders).toEqual(targetResponders.toSorted(compareResponders));
            expect(reported.map(({ name }) => name)).toEqual(targetResponders.map(({ name }) => name));
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  test('requests say what their Eviction says, and name the generation that was observed', () => {
    fc.assert(
      fc.property(history, ({ responders, events }) => {
        const world = new World(responders);
        for (const { event } of events) happens(world, event);
        world.settled();
        for (const request of world.requests) {
          expect(request.status?.observedGeneration).toBe(request.metadata.generation);
          if (world.evictions.length > 0) expect(world.reasons(request)).toEqual(world.reasons());
        }
      }),
      { numRuns: 200 },
    );
  });

  test('deciding twice writes once', () => {
    fc.assert(
      fc.property(history, ({ responders, events }) => {
        const world = new World(responders);
        for (const { event } of events) happens(world, event);
        world.settled();
        const before = world.written.length;
        world.settled();
        expect(world.written).toHaveLength(before);
      }),
      { numRuns: 100 },
    );
  });
});
