import { expect, test } from '@jest/globals';
import { RecentEvictions } from '../../../controllers/evacuation/recentEvictions.ts';
import { pod } from '../../kit/builders.ts';

const owned = (uid: string, creationTimestamp: string) =>
  pod({
    uid,
    creationTimestamp,
    ownerReferences: [{ apiVersion: 'apps/v1', kind: 'ReplicaSet', name: 'web', uid: 'r', controller: true }],
  });
const evictedAt = new Date('2026-01-01T12:00:00Z');

test('names a pod that is created on the node after the eviction of the one before, and no other', () => {
  const recent = new RecentEvictions();
  const evicted = owned('old', '2026-01-01T11:00:00Z');
  recent.record(evicted, evictedAt);
  expect(recent.blockerOf(owned('new', '2026-01-01T12:00:01Z'))?.reason).toBe('PodRecreated');
  expect(recent.blockerOf(owned('beside', '2026-01-01T11:59:00Z'))).toBeUndefined();
  expect(recent.blockerOf(evicted)).toBeUndefined();
  expect(recent.blockerOf(pod({ creationTimestamp: '2026-01-01T12:00:01Z' }))).toBeUndefined();
});
