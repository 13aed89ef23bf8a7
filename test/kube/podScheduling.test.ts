import { describe, expect, test } from '@jest/globals';
import type { PodAffinityTerm, PodScheduling } from '../../api/core.ts';
import { trimWithScheduling } from '../../kube/podScheduling.ts';
import type { RawPod } from '../../kube/resources.ts';
import { garbageCollected } from '../kit/garbage.ts';

const podOn = (disk: string, name = 'p') =>
  ({
    metadata: { name, namespace: 'default', uid: name },
    spec: { containers: [{ name: 'main', image: 'none' }], nodeSelector: { disk } },
  }) as RawPod;

test('pods with the same requirements share one object, others do not', () => {
  const trimmed = trimWithScheduling();
  const [first, second] = [trimmed(podOn('ssd')), trimmed(podOn('ssd', 'other'))];
  expect(second.spec.scheduling).toBe(first.spec.scheduling);
  expect(trimmed(podOn('hdd')).spec.scheduling).toEqual({ nodeSelector: { disk: 'hdd' } });
});

test('nothing is kept of pods that are gone', async () => {
  const trimmed = trimWithScheduling();
  const seen = Array.from(
    { length: 100 },
    (_, i) => new WeakRef(trimmed(podOn(`${i}`)).spec.scheduling ?? {}),
  );
  await garbageCollected();
  expect(seen.filter((one) => one.deref() !== undefined)).toEqual([]);
  expect(trimmed(podOn('1')).spec.scheduling).toEqual({ nodeSelector: { disk: '1' } });
});

describe('the rules of a pod, which anyone who may create pods writes without a limit of the apiserver,', () => {
  const containers = [{ name: 'main', image: 'none', resources: { requests: { cpu: '1' } } }];
  const requests = { containers: [{ cpu: '1' }] };
  const terms = (count: number): PodAffinityTerm[] =>
    Array.from({ length: count }, (_, index) => ({ topologyKey: `zone-${index}`, labelSelector: {} }));
  const apart = (required: PodAffinityTerm[]) => ({
    affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } },
  });
  const spread = (count: number) => ({
    topologySpreadConstraints: terms(count).map((term) => ({
      ...term,
      maxSkew: 1,
      whenUnsatisfiable: 'DoNotSchedule' as const,
    })),
  });
  test.each<{ are: string; spec: object; scheduling: PodScheduling }>([
    {
      are: 'kept if they are few',
      spec: apart(terms(16)),
      scheduling: { ...requests, podAntiAffinity: terms(16) },
    },
    {
      are: 'left out if they have too many terms',
      spec: { ...apart(terms(9)), ...spread(8) },
      scheduling: { ...requests, hasTooManyRules: true },
    },
    {
      are: 'left out if they are long',
      spec: { nodeSelector: Object.fromEntries(terms(2_000).map(({ topologyKey }) => [topologyKey, 'x'])) },
      scheduling: { ...requests, hasTooManyRules: true },
    },
  ])('are $are', ({ spec, scheduling }) => {
    const { metadata } = podOn('ssd');
    const pod = { metadata, spec: { containers, ...spec } } as RawPod;
    expect(trimWithScheduling()(pod).spec.scheduling).toEqual(scheduling);
  });
});
