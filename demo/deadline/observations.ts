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

/** Records the first deletion of each pod of the node, independently of the worker. */
export function recordDeletions({ cluster, undo }: Environment): readonly Deletion[] {
  const deletions = new Map<string, Deletion>();
  const list: Deletion[] = [];
  const stop = cluster.pods.subscribe(({ object: pod }) => {
    const { uid = '', deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata;
    if (deletionTimestamp === undefined || pod.spec.nodeName !== node || deletions.has(uid)) return;
    const deletion = {
      pod: podName(pod),
      graceSeconds: deletionGracePeriodSeconds,
      endsAt: deletionTimestamp,
    };
    deletions.set(uid, deletion);
    list.push(deletion);
  });
  undo.push(async () => stop());
  return list;
}
