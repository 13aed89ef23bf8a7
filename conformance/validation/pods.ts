import assert from 'node:assert/strict';
import type { EvictionResponder } from '../../api/lifecycle.ts';
import { resources } from '../../kube/resources.ts';
import { type Check, validation } from '../check.ts';
import { type ConformanceCluster, first, keyOf, second } from '../cluster.ts';

const withResponders =
  (...responders: EvictionResponder[]) =>
  (cluster: ConformanceCluster): Promise<unknown> =>
    cluster.pod({ responders });

const field = 'spec.evictionResponders';
const many = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ name: `example.com/r-${i}`, priority: 1_000 + i }));

/** Rules by which the apiserver checks `Pod.spec.evictionResponders`, and the rights of users. */
export const podRules: readonly Check[] = [
  validation({
    rule: 'Pod .spec.evictionResponders has at most 10 items with different names',
    legal: async (cluster) => {
      const pod = await cluster.pod({ responders: many(10) });
      assert.equal(pod.spec.evictionResponders?.length, 10, 'the feature gate EvictionRequestAPI is off');
    },
    illegal: [
      { what: '11 items', field, write: withResponders(...many(11)) },
      {
        what: 'a name twice',
        field,
        write: withResponders({ name: first, priority: 2_000 }, { name: first, priority: 3_000 }),
      },
    ],
  }),
  validation({
    rule: 'Pod .spec.evictionResponders[].name has a domain and a key, and no domain of Kubernetes',
    legal: withResponders({ name: first, priority: 10_000 }),
    illegal: [
      { what: 'no domain', field, write: withResponders({ name: 'first', priority: 10_000 }) },
      { what: '*.k8s.io', field, write: withResponders({ name: 'a.k8s.io/first', priority: 10_000 }) },
      {
        what: '*.kubernetes.io',
        field,
        write: withResponders({ name: 'a.kubernetes.io/first', priority: 10_000 }),
      },
    ],
  }),
  validation({
    rule: 'Pod .spec.evictionResponders[].priority is 1000 to 100000: 0 to 999 are reserved for Kubernetes',
    legal: withResponders({ name: first, priority: 100_000 }, { name: second, priority: 1_000 }),
    illegal: [
      { what: '999', field, write: withResponders({ name: first, priority: 999 }) },
      { what: '100001', field, write: withResponders({ name: first, priority: 100_001 }) },
      { what: '-1', field, write: withResponders({ name: first, priority: -1 }) },
      { what: 'none', field, write: withResponders({ name: first } as EvictionResponder) },
    ],
  }),
  validation({
    rule: 'Pod .spec.evictionResponders is set on creation only',
    legal: withResponders({ name: first, priority: 10_000 }),
    illegal: [
      {
        what: 'another priority',
        field: 'spec',
        write: async (cluster) => {
          const pod = await cluster.pod({ responders: [{ name: first, priority: 10_000 }] });
          const evictionResponders = [{ name: first, priority: 20_000 }];
          return cluster.kube.mergePatch(resources.pods, keyOf(pod), { spec: { evictionResponders } });
        },
      },
      {
        what: 'a responder for a pod without',
        field: 'spec',
        write: async (cluster) => {
          const pod = await cluster.pod();
          const evictionResponders = [{ name: first, priority: 10_000 }];
          return cluster.kube.mergePatch(resources.pods, keyOf(pod), { spec: { evictionResponders } });
        },
      },
    ],
  }),
  {
    subject: 'apiserver',
    rule: 'Pod .spec.evictionResponders and .spec.schedulingGroup exclude each other',
    run: async (cluster) => {
      const spec = { schedulingGroup: { podGroupName: 'group' } };
      const pod = await cluster.pod({ spec });
      if (pod.spec.schedulingGroup === undefined) return 'the feature gate GenericWorkload is off';
      await cluster.rejects({
        what: 'both',
        field: 'spec',
        write: (one) => one.pod({ spec, responders: [{ name: first, priority: 10_000 }] }),
      });
      return undefined;
    },
  },
];
