import type { VolumeAttachment } from '../../api/core.ts';
import { type AttachedVolume, pendingDetachments, type VolumeUser } from '../../domain/drain/verification.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { type RawPod, resources } from '../../kube/resources.ts';

const concurrentReads = 24;
/** PersistentVolumes are read for the names of their claims, at most this many in one verification. */
const maxVolumesRead = 200;

/** A volume that is attached, with the UID of its VolumeAttachment. */
export type AttachedVolumeRef = AttachedVolume & { uid: string };

export type AttachedVolumes =
  | { kind: 'Known'; volumes: readonly AttachedVolumeRef[] }
  | { kind: 'Unknown'; because: string };

/** Volumes in the spec of a pod that the attach-detach controller attaches, by migration to CSI drivers. */
const attachableVolumes = [
  'awsElasticBlockStore',
  'azureDisk',
  'azureFile',
  'cinder',
  'gcePersistentDisk',
  'portworxVolume',
  'vsphereVolume',
];

/** Reads the volumes that are attached to nodes and that none of their pods uses. `pods`: node -> the pods that stay on it. */
export async function readAttachedVolumes(
  kube: Kube,
  pods: ReadonlyMap<string, readonly RawPod[]>,
): Promise<AttachedVolumes> {
  const attachments = await attachmentsTo(kube, pods);
  if (attachments === undefined)
    return {
      kind: 'Unknown',
      because: 'the worker may not list VolumeAttachments; apply deploy/rbac again',
    };
  const users = new Map([...pods].map(([node, all]) => [node, all.map(volumeUserOf)] as const));
  const claims = await claimsOf(kube, attachments, users);
  const volumes = [...Map.groupBy(attachments, ({ spec }) => spec.nodeName)].flatMap(([node, all]) => {
    const uids = new Map(all.map((one) => [volumeOf(one), one.metadata.uid ?? ''] as const));
    const pending = pendingDetachments(all, users.get(node) ?? [], (volume) => claims.get(volume));
    return pending.map((one) => ({ ...one, uid: uids.get(one.volume) ?? '' }));
  });
  return { kind: 'Known', volumes };
}

/** Returns what a pod mounts that can be attached to its node. */
function volumeUserOf({ metadata, spec }: RawPod): VolumeUser {
  const { volumes = [] } = spec;
  const claims = volumes.flatMap(({ name, persistentVolumeClaim, ephemeral }) => {
    if (persistentVolumeClaim !== undefined) return [persistentVolumeClaim.claimName];
    return ephemeral === undefined ? [] : [`${metadata.name}-${name}`];
  });
  return {
    claims: claims.map((name) => `${metadata.namespace}/${name}`),
    hasInlineVolumes: volumes.some((volume) => attachableVolumes.some((kind) => kind in volume)),
  };
}

function volumeOf({ metadata, spec }: VolumeAttachment): string {
  return spec.source.persistentVolumeName ?? metadata.name;
}

/** Resolves with the attachments to these nodes; undefined if the worker may not list them. */
async function attachmentsTo(
  kube: Kube,
  nodes: ReadonlyMap<string, unknown>,
): Promise<VolumeAttachment[] | undefined> {
  try {
    const { items } = await kube.list(resources.volumeAttachments);
    return items.filter(({ spec }) => nodes.has(spec.nodeName));
  } catch (error) {
    if (!isKubeError(error, 'Forbidden')) throw error;
    return undefined;
  }
}

/** Reads the claims of the volumes on nodes where a pod stays that uses claims, and of others for messages. */
async function claimsOf(
  kube: Kube,
  attachments: readonly VolumeAttachment[],
  users: ReadonlyMap<string, readonly VolumeUser[]>,
): Promise<Map<string, string>> {
  const isNeeded = ({ spec }: VolumeAttachment) =>
    users.get(spec.nodeName)?.some((user) => user.claims.length > 0) ?? false;
  const needed = attachments.filter(isNeeded);
  const others = attachments.filter((one) => !isNeeded(one)).slice(0, maxVolumesRead);
  const claims = new Map<string, string>();
  await forEachBounded(concurrentReads, [...needed, ...others], async ({ spec }) => {
    const name = spec.source.persistentVolumeName;
    const claim = name === undefined ? undefined : await claimOf(kube, name);
    if (name !== undefined && claim !== undefined) claims.set(name, claim);
  });
  return claims;
}

async function claimOf(kube: Kube, name: string): Promise<string | undefined> {
  try {
    const volume = await kube.get(resources.persistentVolumes, { name });
    const { namespace, name: claim } = volume?.spec.claimRef ?? {};
    return namespace === undefined || claim === undefined ? undefined : `${namespace}/${claim}`;
  } catch (error) {
    // The volume is named without its claim, and counts.
    if (!isKubeError(error, 'Forbidden')) throw error;
    return undefined;
  }
}
