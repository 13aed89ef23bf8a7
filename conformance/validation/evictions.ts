import assert from 'node:assert/strict';
import type {
  EvictionStatus,
  LifecycleEviction,
  ResponderStatus,
  TargetResponder,
} from '../../api/lifecycle.ts';
import { IMPERATIVE_RESPONDER } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { type Check, validation } from '../check.ts';
import { type ConformanceCluster, condition, first, keyOf, second } from '../cluster.ts';

type Started = ReturnType<ConformanceCluster['started']>;

/** Writes the first status of an Eviction. */
const firstStatus =
  (change: (started: Started) => unknown) =>
  async (cluster: ConformanceCluster): Promise<LifecycleEviction> => {
    const eviction = await cluster.eviction(await cluster.pod());
    return cluster.write(eviction, change(cluster.started()) as EvictionStatus);
  };

/** Changes the status of an Eviction whose first responder is Active. */
const nextStatus =
  (change: (before: Started, cluster: ConformanceCluster) => unknown) =>
  async (cluster: ConformanceCluster): Promise<LifecycleEviction> => {
    const eviction = await cluster.startedEviction();
    const before = eviction.status as Started;
    return cluster.write(eviction, change(before, cluster) as EvictionStatus);
  };

/** Changes the status of an Eviction whose first responder has completed and is still Active. */
const afterCompletion =
  (change: (before: Started, cluster: ConformanceCluster) => unknown) =>
  async (cluster: ConformanceCluster): Promise<LifecycleEviction> => {
    const started = await cluster.startedEviction();
    const eviction = await cluster.report(started, { completionTime: cluster.time() });
    return cluster.write(eviction, change(eviction.status as Started, cluster) as EvictionStatus);
  };

const withStates = (states: readonly TargetResponder['state'][]) => (list: readonly TargetResponder[]) =>
  list.map((one, i) => ({ ...one, state: states[i] ?? one.state }));

const reporting = (change: (cluster: ConformanceCluster) => Partial<ResponderStatus>, name = first) =>
  nextStatus(({ responders }, cluster) => ({
    responders: responders.map((one) => (one.name === name ? { ...one, ...change(cluster) } : one)),
  }));

/** Writes twice as the active responder. */
const reportingTwice =
  (
    before: (cluster: ConformanceCluster) => Partial<ResponderStatus>,
    after: (cluster: ConformanceCluster) => object,
  ) =>
  async (cluster: ConformanceCluster): Promise<LifecycleEviction> => {
    const eviction = await cluster.report(await cluster.startedEviction(), before(cluster));
    return cluster.report(eviction, after(cluster));
  };

const targets = 'status.targetResponders';
const responders = 'status.responders';
const failed = (cluster: ConformanceCluster) => [
  condition('Failed', 'True', 'CanceledDueToNoRequesters', cluster.time()),
];

const handedOver = ({ targetResponders, responders: list }: Started, cluster: ConformanceCluster) => ({
  targetResponders: withStates(['Completed', 'Active'])(targetResponders),
  responders: list.map((one) => (one.name === second ? { ...one, startTime: cluster.time() } : one)),
});

/** Returns an Eviction that has one of the two final conditions. */
const finalWith =
  (type: string, change: (cluster: ConformanceCluster) => unknown) => async (cluster: ConformanceCluster) => {
    const eviction = await cluster.eviction(await cluster.pod());
    const conditions = [condition(type, 'True', 'Before', cluster.time())];
    const final = await cluster.write(eviction, { conditions });
    return cluster.write(final, change(cluster) as EvictionStatus);
  };

/** Rules by which the apiserver checks the status of an Eviction. */
export const evictionRules: readonly Check[] = [
  ...['Failed', 'TargetEvicted'].map((type) =>
    validation({
      rule: `Eviction condition ${type} is never reverted once it is True`,
      legal: finalWith(type, (cluster) => ({
        conditions: [condition(type, 'True', 'Before', cluster.time())],
      })),
      illegal: [
        {
          what: 'False',
          field: 'status.conditions',
          write: finalWith(type, (cluster) => ({
            conditions: [condition(type, 'False', 'Before', cluster.time())],
          })),
        },
        {
          what: 'another reason',
          field: 'status.conditions',
          write: finalWith(type, (cluster) => ({
            conditions: [condition(type, 'True', 'After', cluster.time())],
          })),
        },
        {
          what: 'no condition',
          field: 'status.conditions',
          write: finalWith(type, () => ({ conditions: null })),
        },
      ],
    }),
  ),
  validation({
    rule: 'Eviction .status.observedGeneration is 1 or more, and never decreases or disappears',
    legal: nextStatus(() => ({ observedGeneration: 1 })),
    illegal: [
      { what: '0', field: 'status.observedGeneration', write: nextStatus(() => ({ observedGeneration: 0 })) },
      {
        what: 'a decrease',
        field: 'status.observedGeneration',
        write: async (cluster) => {
          const eviction = await cluster.eviction(await cluster.pod());
          await cluster.write(eviction, { observedGeneration: 2 });
          return cluster.write(eviction, { observedGeneration: 1 });
        },
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.requesters has at most 100 different names, each with an intent',
    legal: nextStatus(() => ({ requesters: [{ name: 'acme.io/a', intent: 'Eviction' }] })),
    illegal: [
      {
        what: '101 names',
        field: 'status.requesters',
        write: nextStatus(() => ({
          requesters: Array.from({ length: 101 }, (_, i) => ({ name: `acme.io/a${i}`, intent: 'Eviction' })),
        })),
      },
      {
        what: 'a name twice',
        field: 'status.requesters',
        write: nextStatus(() => ({
          requesters: ['Eviction', 'Withdrawn'].map((intent) => ({ name: 'acme.io/a', intent })),
        })),
      },
      {
        what: 'another intent',
        field: 'status.requesters',
        write: nextStatus(() => ({ requesters: [{ name: 'acme.io/a', intent: 'Maybe' }] })),
      },
    ],
  }),
  validation({
    rule: 'Eviction: the first write of the responders makes the first of them Active, with its startTime and the same names in both lists',
    legal: firstStatus((started) => started),
    illegal: [
      {
        what: 'all Inactive',
        field: targets,
        write: firstStatus((one) => ({
          ...one,
          targetResponders: withStates(['Inactive'])(one.targetResponders),
        })),
      },
      {
        what: 'the second Active',
        field: targets,
        write: firstStatus(({ targetResponders, responders: [a, b] }) => ({
          targetResponders: withStates(['Inactive', 'Active'])(targetResponders),
          responders: [{ name: a?.name }, { ...b, startTime: a?.startTime }],
        })),
      },
      {
        what: 'no startTime',
        field: responders,
        write: firstStatus((one) => ({ ...one, responders: one.responders.map(({ name }) => ({ name })) })),
      },
      {
        what: 'no responders',
        field: 'status',
        write: firstStatus(({ targetResponders }) => ({ targetResponders })),
      },
      {
        what: 'another name in responders',
        field: responders,
        write: firstStatus((one) => ({ ...one, responders: [one.responders[0], { name: 'acme.io/other' }] })),
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.targetResponders keeps its names once it is set, in any order, and has at most 11',
    legal: nextStatus(({ targetResponders }) => ({ targetResponders: targetResponders.toReversed() })),
    illegal: [
      {
        what: 'one less',
        field: targets,
        write: nextStatus((one) => ({
          targetResponders: one.targetResponders.slice(0, 1),
          responders: one.responders.slice(0, 1),
        })),
      },
      {
        what: 'one more',
        field: targets,
        write: nextStatus((one) => ({
          targetResponders: [
            ...one.targetResponders,
            { name: 'acme.io/a', priority: 1_000, state: 'Inactive' },
          ],
          responders: [...one.responders, { name: 'acme.io/a' }],
        })),
      },
      {
        what: 'another name',
        field: targets,
        write: nextStatus((one) => ({
          targetResponders: one.targetResponders.map((each) =>
            each.name === second ? { ...each, name: 'acme.io/a' } : each,
          ),
          responders: one.responders.map((each) => (each.name === second ? { name: 'acme.io/a' } : each)),
        })),
      },
      {
        what: 'none',
        field: 'status',
        write: nextStatus(() => ({ targetResponders: null, responders: null })),
      },
      {
        what: '12 from the start',
        field: targets,
        write: firstStatus((started) => {
          const names = Array.from({ length: 12 }, (_, i) => `acme.io/r-${String(i).padStart(2, '0')}`);
          return {
            targetResponders: names.map((name, i) => ({
              name,
              priority: 5_000,
              state: i === 0 ? 'Active' : 'Inactive',
            })),
            responders: names.map((name, i) => (i === 0 ? { ...started.responders[0], name } : { name })),
          };
        }),
      },
    ],
  }),
  validation({
    rule: 'Eviction: the imperative responder has priority 100, others 1000 to 100000, and no priority changes',
    legal: firstStatus(({ responders: [a] }) => ({
      targetResponders: [{ name: IMPERATIVE_RESPONDER, priority: 100, state: 'Active' }],
      responders: [{ ...a, name: IMPERATIVE_RESPONDER }],
    })),
    illegal: [
      {
        what: '101 for the imperative one',
        field: targets,
        write: firstStatus(({ responders: [a] }) => ({
          targetResponders: [{ name: IMPERATIVE_RESPONDER, priority: 101, state: 'Active' }],
          responders: [{ ...a, name: IMPERATIVE_RESPONDER }],
        })),
      },
      ...[999, 100_001, -1].map((priority) => ({
        what: `${priority} for another one`,
        field: targets,
        write: firstStatus((one: Started) => ({
          ...one,
          targetResponders: one.targetResponders.map((each) =>
            each.name === second ? { ...each, priority } : each,
          ),
        })),
      })),
      {
        what: 'a change',
        field: targets,
        write: nextStatus((one) => ({
          targetResponders: one.targetResponders.map((each) =>
            each.name === second ? { ...each, priority: 9_001 } : each,
          ),
        })),
      },
    ],
  }),
  validation({
    rule: 'Eviction: responders of one priority follow in the order of their domains from the top, then of their keys',
    legal: firstStatus(({ responders: [a] }) => ({
      targetResponders: [
        { name: 'a.example.org/a', priority: 5_000, state: 'Inactive' },
        { name: 'z.example.com/a', priority: 5_000, state: 'Active' },
      ],
      responders: [{ name: 'a.example.org/a' }, { ...a, name: 'z.example.com/a' }],
    })),
    illegal: [
      {
        what: 'the order of the names',
        field: targets,
        write: firstStatus(({ responders: [a] }) => ({
          targetResponders: [
            { name: 'a.example.org/a', priority: 5_000, state: 'Active' },
            { name: 'z.example.com/a', priority: 5_000, state: 'Inactive' },
          ],
          responders: [{ ...a, name: 'a.example.org/a' }, { name: 'z.example.com/a' }],
        })),
      },
    ],
  }),
  validation({
    rule: 'Eviction: a responder stays Active until it has completed, or its deadline of 20 minutes has passed',
    legal: afterCompletion(handedOver),
    illegal: ['Interrupted', 'Canceled', 'Completed', 'Inactive'].map((state) => ({
      what: `${state} at once`,
      field: targets,
      write: nextStatus((one, cluster) => {
        const next = handedOver(one, cluster);
        return {
          ...next,
          targetResponders: withStates([state as TargetResponder['state']])(next.targetResponders),
        };
      }),
    })),
  }),
  validation({
    rule: 'Eviction: the next responder becomes Active, with its startTime, in the write that ends the one before, and at most one is Active',
    legal: afterCompletion(handedOver),
    illegal: [
      {
        what: 'the next one stays Inactive',
        field: targets,
        write: afterCompletion(({ targetResponders }) => ({
          targetResponders: withStates(['Completed', 'Inactive'])(targetResponders),
        })),
      },
      {
        what: 'two are Active',
        field: targets,
        write: afterCompletion((one, cluster) => {
          const next = handedOver(one, cluster);
          return { ...next, targetResponders: withStates(['Active'])(next.targetResponders) };
        }),
      },
      {
        what: 'no startTime',
        field: responders,
        write: afterCompletion((one, cluster) => ({
          targetResponders: handedOver(one, cluster).targetResponders,
        })),
      },
    ],
  }),
  validation({
    rule: 'Eviction: a responder is Completed only if it has reported its completionTime',
    legal: afterCompletion(handedOver),
    illegal: [
      {
        what: 'Completed without it, although the Eviction has failed',
        field: targets,
        write: nextStatus(({ targetResponders }, cluster) => ({
          conditions: failed(cluster),
          targetResponders: withStates(['Completed'])(targetResponders),
        })),
      },
    ],
  }),
  validation({
    rule: 'Eviction: a responder that has ended never changes its state',
    legal: afterCompletion(handedOver),
    illegal: (['Active', 'Interrupted', 'Inactive'] as const).map((state) => ({
      what: `Completed to ${state}`,
      field: targets,
      write: async (cluster: ConformanceCluster) => {
        const eviction = await afterCompletion(handedOver)(cluster);
        const { targetResponders } = eviction.status as Started;
        return cluster.write(eviction, { targetResponders: withStates([state])(targetResponders) });
      },
    })),
  }),
  validation({
    rule: 'Eviction: the active responder ends in the write that makes the Eviction final, before any deadline, and no other one becomes Active',
    legal: nextStatus(({ targetResponders }, cluster) => ({
      conditions: failed(cluster),
      targetResponders: withStates(['Canceled'])(targetResponders),
    })),
    illegal: [
      {
        what: 'it stays Active',
        field: targets,
        write: nextStatus((_, cluster) => ({ conditions: failed(cluster) })),
      },
      {
        what: 'the next one becomes Active',
        field: targets,
        write: nextStatus((one, cluster) => {
          const next = handedOver(one, cluster);
          const states = withStates(['Canceled', 'Active'])(next.targetResponders);
          return { ...next, conditions: failed(cluster), targetResponders: states };
        }),
      },
    ],
  }),
  validation({
    rule: 'Eviction: only the entry of the active responder changes',
    legal: reporting((cluster) => ({ heartbeatTime: cluster.time(), message: 'in progress' })),
    illegal: [
      {
        what: 'a message of the next one',
        field: responders,
        write: reporting(() => ({ message: 'too early' }), second),
      },
      {
        what: 'a message of one that has completed',
        field: responders,
        write: async (cluster) => {
          const eviction = await afterCompletion(handedOver)(cluster);
          const list = (eviction.status as Started).responders;
          const changed = list.map((one) => (one.name === first ? { ...one, message: 'too late' } : one));
          return cluster.write(eviction, { responders: changed });
        },
      },
      {
        what: 'no entry any more',
        field: responders,
        write: nextStatus((one) => ({ responders: one.responders.slice(0, 1) })),
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.responders[].startTime is within 30 s of the clock of the apiserver, and immutable',
    legal: firstStatus((started) => started),
    illegal: [
      ...[-60, 60].map((offset) => ({
        what: `${offset} s`,
        field: responders,
        write: async (cluster: ConformanceCluster) =>
          firstStatus((one: Started) => ({
            ...one,
            responders: one.responders.map((each) =>
              each.name === first ? { ...each, startTime: cluster.time(offset) } : each,
            ),
          }))(cluster),
      })),
      {
        what: 'a change',
        field: responders,
        write: reporting((cluster) => ({ startTime: cluster.time(5) })),
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.responders[].heartbeatTime is within 30 s of the clock of the apiserver, and never goes back or disappears',
    legal: reporting((cluster) => ({ heartbeatTime: cluster.time(5) })),
    illegal: [
      ...[-60, 60].map((offset) => ({
        what: `${offset} s`,
        field: responders,
        write: reporting((cluster: ConformanceCluster) => ({ heartbeatTime: cluster.time(offset) })),
      })),
      {
        what: 'before the start',
        field: responders,
        write: reporting((cluster) => ({ heartbeatTime: cluster.time(-10) })),
      },
      {
        what: 'a decrease',
        field: responders,
        write: reportingTwice(
          (cluster) => ({ heartbeatTime: cluster.time(10) }),
          (cluster) => ({ heartbeatTime: cluster.time(2) }),
        ),
      },
      {
        what: 'none any more',
        field: responders,
        write: reportingTwice(
          (cluster) => ({ heartbeatTime: cluster.time(5) }),
          () => ({ heartbeatTime: undefined }),
        ),
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.responders[].expectedCompletionTime is not in the past, and at most ten years away',
    legal: reporting((cluster) => ({ expectedCompletionTime: cluster.time(3_600) })),
    illegal: [
      {
        what: 'a minute ago',
        field: responders,
        write: reporting((cluster) => ({ expectedCompletionTime: cluster.time(-60) })),
      },
      {
        what: 'in eleven years',
        field: responders,
        write: reporting((cluster) => ({ expectedCompletionTime: cluster.time(11 * 365 * 86_400) })),
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.responders[].completionTime is within 30 s of the clock of the apiserver, and immutable',
    legal: reporting((cluster) => ({ completionTime: cluster.time(1) })),
    illegal: [
      ...[-60, 60].map((offset) => ({
        what: `${offset} s`,
        field: responders,
        write: reporting((cluster: ConformanceCluster) => ({ completionTime: cluster.time(offset) })),
      })),
      {
        what: 'a change',
        field: responders,
        write: reportingTwice(
          (cluster) => ({ completionTime: cluster.time(2) }),
          (cluster) => ({ completionTime: cluster.time(8) }),
        ),
      },
      {
        what: 'none any more',
        field: responders,
        write: reportingTwice(
          (cluster) => ({ completionTime: cluster.time(2) }),
          () => ({ completionTime: undefined }),
        ),
      },
    ],
  }),
  validation({
    rule: 'Eviction .status.responders[].message has at most 4000 characters',
    legal: reporting(() => ({ message: 'a'.repeat(4_000) })),
    illegal: [{ what: '4001', field: responders, write: reporting(() => ({ message: 'a'.repeat(4_001) })) }],
  }),
  {
    subject: 'apiserver',
    rule: 'Eviction: a write of the status changes no labels and no spec',
    run: async (cluster) => {
      const eviction = await cluster.startedEviction();
      const patch = { metadata: { labels: { [first]: 'responder' } }, status: {} };
      const written: LifecycleEviction = await cluster.kube.mergePatch(
        resources.evictions,
        keyOf(eviction),
        patch,
        { subresource: 'status' },
      );
      assert.equal(written.metadata.labels?.[first], undefined);
    },
  },
];
