import { podName } from '../../domain/common/pod.ts';
import type { Environment } from '../environment.ts';
import { revisionOf } from '../recording.ts';
import { maintenanceName, node } from './fixtures.ts';

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

/** The condition Drained in every version of the maintenance, and the end of the attachment of the volume, by etcd revisions. */
export interface DrainedRecord {
  readonly versions: readonly { revision: bigint; status: string; reason: string }[];
  /** Undefined while it is attached. */
  detached: bigint | undefined;
}

export function recordDrained({ cluster, undo }: Environment): DrainedRecord {
  const versions: DrainedRecord['versions'][number][] = [];
  const recorded: DrainedRecord = { versions, detached: undefined };
  const stop = cluster.maintenances.subscribe(({ object: { metadata, status } }) => {
    const drained = status?.conditions.find(({ type }) => type === 'Drained');
    if (metadata.name === maintenanceName && drained !== undefined)
      versions.push({ revision: revisionOf(metadata), status: drained.status, reason: drained.reason });
  });
  const attachments = cluster.volumeAttachments.acquire(({ type, object }) => {
    if (type === 'Deleted' && object.spec.nodeName === node)
      recorded.detached ??= revisionOf(object.metadata);
  });
  undo.push(async () => {
    stop();
    attachments.release();
  });
  return recorded;
}
