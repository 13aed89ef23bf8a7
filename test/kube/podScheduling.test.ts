import { expect, test } from '@jest/globals';
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
