import assert from 'node:assert/strict';
import type { EvictionRequest } from '../../api/lifecycle.ts';
import { resources } from '../../kube/resources.ts';
import { type Check, validation } from '../check.ts';
import { type ConformanceCluster, condition, keyOf, targetOf } from '../cluster.ts';

/** Creates a request that differs from a valid one. */
const created =
  (differs: (spec: EvictionRequest['spec']) => unknown) =>
  async (cluster: ConformanceCluster): Promise<unknown> => {
    const request = cluster.newRequest(await cluster.pod());
    const spec = differs(request.spec) as EvictionRequest['spec'];
    return cluster.create(resources.evictionRequests, { ...request, spec } as EvictionRequest);
  };

/** Changes the spec of a stored request. */
const changed =
  (change: object) =>
  async (cluster: ConformanceCluster): Promise<unknown> => {
    const request = await cluster.request(await cluster.pod(), { intent: 'Withdrawn' });
    return cluster.kube.mergePatch(resources.evictionRequests, keyOf(request), { spec: change });
  };

/** Writes the status of a request whose observedGeneration is 1. */
const reported =
  (status: object) =>
  async (cluster: ConformanceCluster): Promise<unknown> => {
    const request = await cluster.request(await cluster.pod(), { intent: 'Withdrawn' });
    await cluster.writeRequestStatus(request, { observedGeneration: 1 });
    return cluster.writeRequestStatus(request, status);
  };

const withTarget = (pod: object) =>
  created((spec) => ({ ...spec, target: { pod: { ...spec.target.pod, ...pod } } }));
const withRequester = (requester?: string) => created((spec) => ({ ...spec, requester }));
const requester = 'spec.requester';

/** Rules by which the apiserver checks an EvictionRequest. */
export const requestRules: readonly Check[] = [
  validation({
    rule: 'EvictionRequest .spec.target.pod names the pod, and its UID in the form 8-4-4-4-12',
    legal: created((spec) => spec),
    illegal: [
      { what: 'no target', field: 'spec.target', write: created((spec) => ({ ...spec, target: {} })) },
      { what: 'no name', field: 'spec.target.pod.name', write: withTarget({ name: '' }) },
      { what: 'a name in upper case', field: 'spec.target.pod.name', write: withTarget({ name: 'Web_1' }) },
      { what: 'no UID', field: 'spec.target.pod.uid', write: withTarget({ uid: '' }) },
      { what: 'another form of UID', field: 'spec.target.pod.uid', write: withTarget({ uid: 'abc' }) },
      {
        what: 'a UID in upper case',
        field: 'spec.target.pod.uid',
        write: withTarget({ uid: 'AAAAAAAA-0000-4000-8000-000000000001' }),
      },
    ],
  }),
  validation({
    rule: 'EvictionRequest .spec.target is immutable',
    legal: changed({ intent: 'Eviction' }),
    illegal: [
      {
        what: 'another name',
        field: 'spec.target',
        write: changed({ target: { pod: { name: 'another' } } }),
      },
      {
        what: 'another UID',
        field: 'spec.target',
        write: changed({ target: { pod: { uid: '00000000-0000-4000-8000-000000000001' } } }),
      },
    ],
  }),
  validation({
    rule: 'EvictionRequest .spec.requester has a domain and a key, and no domain of Kubernetes',
    legal: withRequester('acme.io/foo'),
    illegal: [
      { what: 'none', field: requester, write: withRequester() },
      { what: 'no domain', field: requester, write: withRequester('foo') },
      { what: 'no key', field: requester, write: withRequester('acme.io/') },
      { what: 'two slashes', field: requester, write: withRequester('acme.io/foo/bar') },
      { what: 'k8s.io', field: requester, write: withRequester('k8s.io/foo') },
      { what: '*.k8s.io', field: requester, write: withRequester('nodemaintenance.k8s.io/foo') },
      { what: '*.kubernetes.io', field: requester, write: withRequester('a.kubernetes.io/foo') },
    ],
  }),
  validation({
    rule: 'EvictionRequest .spec.requester is immutable',
    legal: changed({ intent: 'Eviction' }),
    illegal: [{ what: 'another one', field: requester, write: changed({ requester: 'acme.io/bar' }) }],
  }),
  validation({
    rule: 'EvictionRequest .spec.intent is Eviction or Withdrawn, and may change both ways',
    legal: async (cluster) => {
      const request = await cluster.request(await cluster.pod(), { intent: 'Withdrawn' });
      const { metadata } = await cluster.intend(await cluster.intend(request, 'Eviction'), 'Withdrawn');
      assert.equal(metadata.generation, 3, 'each change of the spec is another generation');
    },
    illegal: [
      {
        what: 'none',
        field: 'spec.intent',
        write: created(({ target, requester: by }) => ({ target, requester: by })),
      },
      {
        what: 'another one',
        field: 'spec.intent',
        write: created((spec) => ({ ...spec, intent: 'Maybe' })),
      },
      { what: 'a change to another one', field: 'spec.intent', write: changed({ intent: 'Maybe' }) },
    ],
  }),
  validation({
    rule: 'EvictionRequest .status.observedGeneration is 1 or more, and never decreases or disappears',
    legal: reported({ observedGeneration: 2 }),
    illegal: [
      { what: '0', field: 'status.observedGeneration', write: reported({ observedGeneration: 0 }) },
      {
        what: 'a decrease',
        field: 'status.observedGeneration',
        write: async (cluster) => {
          const request = await cluster.request(await cluster.pod(), { intent: 'Withdrawn' });
          await cluster.writeRequestStatus(request, { observedGeneration: 3 });
          return cluster.writeRequestStatus(request, { observedGeneration: 2 });
        },
      },
      { what: 'none', field: 'status.observedGeneration', write: reported({ observedGeneration: null }) },
    ],
  }),
  validation({
    rule: 'EvictionRequest .status.conditions has at most 100 items, and may be reset',
    legal: async (cluster) => {
      const request = await cluster.request(await cluster.pod(), { intent: 'Withdrawn' });
      const time = cluster.time();
      await cluster.writeRequestStatus(request, { conditions: [condition('Failed', 'True', 'Test', time)] });
      await cluster.writeRequestStatus(request, { conditions: [condition('Failed', 'False', 'Test', time)] });
    },
    illegal: [
      {
        what: '101 items',
        field: 'status.conditions',
        write: (cluster) =>
          reported({
            conditions: Array.from({ length: 101 }, (_, i) =>
              condition(`Type${i}`, 'True', 'Test', cluster.time()),
            ),
          })(cluster),
      },
    ],
  }),
  {
    subject: 'apiserver',
    rule: 'EvictionRequest .status is not written with the object, nor metadata and spec with the status',
    run: async (cluster) => {
      const request = cluster.newRequest(await cluster.pod(), { intent: 'Withdrawn' });
      const withStatus = { ...request, status: { observedGeneration: 7 } };
      const stored = (await cluster.create(resources.evictionRequests, withStatus)) as EvictionRequest;
      assert.equal(stored.status?.observedGeneration, undefined);
      const other = { metadata: { labels: { a: 'b' } }, spec: { intent: 'Eviction' }, status: {} };
      const written: EvictionRequest = await cluster.kube.mergePatch(
        resources.evictionRequests,
        keyOf(stored),
        other,
        { subresource: 'status' },
      );
      assert.equal(written.metadata.labels?.['a'], undefined);
      assert.equal(written.spec.intent, 'Withdrawn');
    },
  },
  validation({
    rule: 'Eviction .spec.target.pod names the pod and its UID, and is immutable',
    legal: async (cluster) => cluster.eviction(await cluster.pod()),
    illegal: [
      {
        what: 'no target',
        field: 'spec.target',
        write: async (cluster) => {
          const eviction = cluster.newEviction(await cluster.pod());
          return cluster.create(resources.evictions, { ...eviction, spec: { target: {} } } as never);
        },
      },
      {
        what: 'another form of UID',
        field: 'spec.target.pod.uid',
        write: async (cluster) => {
          const pod = await cluster.pod();
          const { target } = targetOf(pod);
          const spec = { target: { pod: { ...target.pod, uid: 'abc' } } };
          return cluster.create(resources.evictions, { ...cluster.newEviction(pod), spec } as never);
        },
      },
      {
        what: 'another pod',
        field: 'spec.target',
        write: async (cluster) => {
          const eviction = await cluster.eviction(await cluster.pod());
          const spec = targetOf(await cluster.pod());
          return cluster.kube.mergePatch(resources.evictions, keyOf(eviction), { spec });
        },
      },
    ],
  }),
];
