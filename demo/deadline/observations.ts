import { podName } from '../../domain/common/pod.ts';
import type { Environment } from '../environment.ts';
import { node } from './fixtures.ts';

/** The deletion of a pod of the node, as the apiserver recorded it. */
export interface Deletion {
  pod: string;
  graceSeconds: number;
  /** When its grace period ends. */
  endsAt: string;
}

/** Records the first deletion of each pod of the node, independently of the worker, and passes it to `onDeletion`. */
export function recordDeletions(
  { cluster, undo }: Environment,
  onDeletion: (deletion: Deletion) => void,
): readonly Deletion[] {
  const recorded = new Set<string>();
  const deletions: Deletion[] = [];
  const stop = cluster.pods.subscribe(({ object: pod }) => {
    const { uid = '', deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata;
    if (deletionTimestamp === undefined || pod.spec.nodeName !== node || recorded.has(uid)) return;
    const deletion = {
      pod: podName(pod),
      graceSeconds: deletionGracePeriodSeconds,
      endsAt: deletionTimestamp,
    };
    recorded.add(uid);
    deletions.push(deletion);
    onDeletion(deletion);
  });
  undo.push(async () => stop());
  return deletions;
}
