import assert from 'node:assert/strict';
import type { LifecycleEviction } from '../../api/lifecycle.ts';
import { EVICTION_REQUEST, EvictionRole, IMPERATIVE_RESPONDER } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Check } from '../check.ts';
import {
  type ConformanceCluster,
  first,
  otherRequester,
  reasonsOf,
  requester,
  second,
  statesOf,
} from '../cluster.ts';
import { throughout, until } from '../until.ts';

const awaiting = { Failed: 'False AwaitingEviction', TargetEvicted: 'False AwaitingEviction' };
const canceled = { Failed: 'True CanceledDueToNoRequesters', TargetEvicted: 'False EvictionFailed' };
const deleted = { Failed: 'False Succeeded', TargetEvicted: 'True PodDeleted' };
const invalid = { Failed: 'True EvictionInvalid', TargetEvicted: 'False EvictionFailed' };

/** Responders of the suite, which act when a check lets them: without them, the imperative responder would evict the pod. */
const responders = [
  { name: second, priority: 9_000 },
  { name: first, priority: 10_000 },
];

const isActive = (name: string) => (eviction: LifecycleEviction) =>
  assert.equal(statesOf(eviction).find(([, state]) => state === 'Active')?.[0], name);

async function requested(cluster: ConformanceCluster) {
  const pod = await cluster.pod({ responders });
  const request = await cluster.request(pod);
  const eviction = await cluster.eventually('the first responder to be Active', pod, isActive(first));
  return { pod, request, eviction };
}

const promise = (rule: string, run: Check['run']): Check => ({ subject: 'controller', rule, run });

/** Promises of the KEP and of the types about the controller of EvictionRequests. */
export const controllerPromises: readonly Check[] = [
  promise('one Eviction for a pod is made from many requests, and all of them own it', async (cluster) => {
    const pod = await cluster.pod({ responders });
    const requests = [await cluster.request(pod), await cluster.request(pod, { requester: otherRequester })];
    await cluster.eventually('one Eviction that both own', pod, ({ metadata }) => {
      const owners = (metadata.ownerReferences ?? []).map(({ kind, uid }) => `${kind} ${uid}`);
      const expected = requests.map((one) => `${EVICTION_REQUEST.kind} ${one.metadata.uid}`);
      assert.deepEqual(owners.toSorted(), expected.toSorted());
    });
  }),
  promise('a request that comes later becomes an owner, too', async (cluster) => {
    const { pod } = await requested(cluster);
    const later = await cluster.request(pod, { requester: otherRequester });
    await cluster.eventually('the later owner', pod, ({ metadata }) =>
      assert.ok(metadata.ownerReferences?.some(({ uid }) => uid === later.metadata.uid)),
    );
    await cluster.eventuallyReported(later, awaiting);
  }),
  promise('the Eviction is removed when all requests are', async (cluster) => {
    const { pod, request } = await requested(cluster);
    await cluster.deleteRequest(request);
    await until('no Eviction', async () => assert.deepEqual(await cluster.evictionsOf(pod), []));
    assert.ok(await cluster.currentPod(pod), 'the pod is gone');
  }),
  promise('labels name the requesters and the responders with their roles', async (cluster) => {
    const pod = await cluster.pod({ responders });
    await cluster.request(pod);
    await cluster.request(pod, { requester: first });
    await cluster.eventually('the labels', pod, ({ metadata: { labels = {} } }) => {
      assert.equal(labels[requester], EvictionRole.Requester);
      assert.equal(labels[first], EvictionRole.RequesterResponder);
      assert.equal(labels[second], EvictionRole.Responder);
      assert.equal(labels[IMPERATIVE_RESPONDER], EvictionRole.Responder);
    });
  }),
  promise(
    'the responders are those of the pod and the imperative one; the first is Active',
    async (cluster) => {
      const { eviction } = await requested(cluster);
      const states = Object.fromEntries(statesOf(eviction));
      assert.deepEqual(states, {
        [first]: 'Active',
        [second]: 'Inactive',
        [IMPERATIVE_RESPONDER]: 'Inactive',
      });
      const { targetResponders = [], responders: reported = [] } = eviction.status ?? {};
      const priorities = targetResponders.map(({ priority }) => priority).toSorted((a, b) => b - a);
      assert.deepEqual(priorities, [10_000, 9_000, 100]);
      assert.deepEqual(
        reported.map(({ name }) => name).toSorted(),
        targetResponders.map(({ name }) => name).toSorted(),
      );
      const started = reported.filter(({ startTime }) => startTime !== undefined);
      assert.deepEqual(
        started.map(({ name }) => name),
        [first],
      );
    },
  ),
  promise('responders of one priority become active in the order of their domains', async (cluster) => {
    const [org, com] = ['a.example.org/a', 'z.example.com/a'];
    const pod = await cluster.pod({
      responders: [org, com].map((name) => ({ name, priority: 5_000 })),
    });
    await cluster.request(pod);
    await cluster.eventually('com before org', pod, isActive(com));
  }),
  promise(
    'conditions and observedGeneration are reported on the Eviction and on the request',
    async (cluster) => {
      const { pod, request } = await requested(cluster);
      await cluster.eventuallyReported(request, awaiting);
      await cluster.eventually('the conditions of the Eviction', pod, ({ metadata, status }) => {
        assert.deepEqual(reasonsOf(status?.conditions), awaiting);
        assert.equal(status?.observedGeneration, metadata.generation);
      });
    },
  ),
  promise('requesters are listed with their intents', async (cluster) => {
    const { pod } = await requested(cluster);
    await cluster.request(pod, { requester: otherRequester, intent: 'Withdrawn' });
    await cluster.eventually('both requesters', pod, ({ status }) => {
      const intents = Object.fromEntries(
        (status?.requesters ?? []).map(({ name, intent }) => [name, intent]),
      );
      assert.deepEqual(intents, { [requester]: 'Eviction', [otherRequester]: 'Withdrawn' });
    });
  }),
  promise('a responder that has completed hands over to the next one', async (cluster) => {
    const { pod, eviction } = await requested(cluster);
    await cluster.report(eviction, { heartbeatTime: cluster.time(), message: 'working' });
    await cluster.report(eviction, { completionTime: cluster.time(), message: 'done' });
    const next = await cluster.eventually('the second responder to be Active', pod, isActive(second));
    const states = Object.fromEntries(statesOf(next));
    assert.deepEqual(states, {
      [first]: 'Completed',
      [second]: 'Active',
      [IMPERATIVE_RESPONDER]: 'Inactive',
    });
    const status = next.status?.responders?.find(({ name }) => name === first);
    assert.equal(status?.message, 'done', 'the report of the first responder is lost');
  }),
  promise('a responder that reports within its deadline stays Active', async (cluster) => {
    const { pod, eviction } = await requested(cluster);
    await cluster.report(eviction, { heartbeatTime: cluster.time(), message: 'working' });
    await throughout('the first responder is Active', 3_000, async () => {
      const [current] = await cluster.evictionsOf(pod);
      assert.ok(current);
      isActive(first)(current);
    });
  }),
  {
    subject: 'controller',
    rule: 'a responder that has not reported for 20 minutes is interrupted, and hands over to the next one',
    minutes: 21,
    run: async (cluster) => {
      const { pod } = await requested(cluster);
      const next = await until(
        'the second responder to be Active',
        async () => {
          const [eviction] = await cluster.evictionsOf(pod);
          assert.ok(eviction);
          isActive(second)(eviction);
          return eviction;
        },
        22 * 60_000,
      );
      assert.equal(Object.fromEntries(statesOf(next))[first], 'Interrupted');
    },
  },
  promise('the Eviction is cancelled when all requests are withdrawn', async (cluster) => {
    const { pod, request } = await requested(cluster);
    const other = await cluster.request(pod, { requester: otherRequester });
    await cluster.eventuallyReported(other, awaiting);
    await cluster.intend(request, 'Withdrawn');
    await cluster.eventually('the intent of the first requester', pod, ({ status }) =>
      assert.ok(status?.requesters?.some(({ name, intent }) => name === requester && intent === 'Withdrawn')),
    );
    await cluster.eventually('the first responder still to be Active', pod, isActive(first));
    await cluster.intend(other, 'Withdrawn');
    const eviction = await cluster.eventually('the end of the Eviction', pod, ({ status }) =>
      assert.deepEqual(reasonsOf(status?.conditions), canceled),
    );
    const states = Object.fromEntries(statesOf(eviction));
    assert.deepEqual(states, {
      [first]: 'Canceled',
      [second]: 'Inactive',
      [IMPERATIVE_RESPONDER]: 'Inactive',
    });
    await cluster.eventuallyReported(request, canceled);
    assert.ok(await cluster.currentPod(pod), 'the pod is gone');
  }),
  promise('a request that is being deleted counts as withdrawn', async (cluster) => {
    const { pod, request } = await requested(cluster);
    const finalizer = 'conformance.node-maintenance.dev/keep';
    const key = { namespace: cluster.namespace, name: request.metadata.name };
    const write = (finalizers: string[]) =>
      cluster.kube.mergePatch(resources.evictionRequests, key, { metadata: { finalizers } });
    await write([finalizer]);
    await cluster.deleteRequest(request);
    try {
      await cluster.eventually('the end of the Eviction', pod, ({ status }) =>
        assert.deepEqual(reasonsOf(status?.conditions), canceled),
      );
    } finally {
      await write([]);
    }
  }),
  promise(
    'a new intent after a cancellation is another Eviction, and resets the conditions of the request',
    async (cluster) => {
      const { pod, request, eviction } = await requested(cluster);
      await cluster.intend(request, 'Withdrawn');
      await cluster.eventuallyReported(request, canceled);
      await cluster.intend(request, 'Eviction');
      const others = await until('another Eviction', async () => {
        const found = (await cluster.evictionsOf(pod)).filter(
          ({ metadata }) => metadata.uid !== eviction.metadata.uid,
        );
        const [other] = found;
        assert.ok(other !== undefined && found.length === 1);
        isActive(first)(other);
        return found;
      });
      assert.equal(others.length, 1);
      await cluster.eventuallyReported(request, awaiting);
      const before = (await cluster.evictionsOf(pod)).find(
        ({ metadata }) => metadata.uid === eviction.metadata.uid,
      );
      assert.deepEqual(reasonsOf(before?.status?.conditions), canceled, 'the first Eviction was reverted');
    },
  ),
  promise('a pod that is deleted makes the Eviction and its requests succeed', async (cluster) => {
    const { pod, request, eviction } = await requested(cluster);
    await cluster.report(eviction, { completionTime: cluster.time() });
    await cluster.eventually('the second responder to be Active', pod, isActive(second));
    await cluster.deletePod(pod);
    const ended = await cluster.eventually('the end of the Eviction', pod, ({ status }) =>
      assert.deepEqual(reasonsOf(status?.conditions), deleted),
    );
    assert.ok(statesOf(ended).every(([, state]) => state !== 'Active'));
    await cluster.eventuallyReported(request, deleted);
  }),
  promise('a pod that has terminated makes the Eviction succeed as PodTerminal', async (cluster) => {
    const { pod, request } = await requested(cluster);
    await cluster.finished(pod);
    await cluster.eventuallyReported(request, {
      Failed: 'False Succeeded',
      TargetEvicted: 'True PodTerminal',
    });
  }),
  promise('an Eviction that has succeeded stays so when another pod of the name appears', async (cluster) => {
    const { pod, request } = await requested(cluster);
    await cluster.deletePod(pod);
    await cluster.eventuallyReported(request, deleted);
    const object = cluster.newPod();
    await cluster.create(resources.pods, {
      ...object,
      metadata: { ...object.metadata, name: pod.metadata.name },
    });
    await throughout('the Eviction has succeeded', 2_000, async () => {
      const current = await cluster.currentRequest(request);
      assert.deepEqual(reasonsOf(current?.status?.conditions), deleted);
    });
  }),
  promise('a request for a pod that does not exist is invalid, and has no Eviction', async (cluster) => {
    const pod = await cluster.pod();
    await cluster.deletePod(pod);
    const request = await cluster.request(pod);
    await cluster.eventuallyReported(request, invalid);
    assert.deepEqual(await cluster.evictionsOf(pod), []);
  }),
  promise('a request with the UID of another pod is invalid, and evicts nothing', async (cluster) => {
    const pod = await cluster.pod();
    const uid = '00000000-0000-4000-8000-000000000001';
    const target = { pod: { name: pod.metadata.name, uid } };
    await cluster.eventuallyReported(await cluster.request(pod, { target }), invalid);
    assert.ok(await cluster.currentPod(pod), 'the pod is gone');
  }),
  promise('a pod with a schedulingGroup is refused as invalid', async (cluster) => {
    const pod = await cluster.pod({ spec: { schedulingGroup: { podGroupName: 'group' } } });
    if (pod.spec.schedulingGroup === undefined) return 'the feature gate GenericWorkload is off';
    await cluster.eventuallyReported(await cluster.request(pod), invalid);
    assert.ok(await cluster.currentPod(pod), 'the pod is gone');
    return undefined;
  }),
];
