import type { ObjectMeta, OwnerReference } from '../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../api/names.ts';

/** The annotation of a pod that was released from its ReplicaSet. It holds all that is needed to return the pod. */
export interface Release {
  deployment: { name: string; uid: string };
  replicaSet: { name: string; uid: string };
  /** The value of the removed label. */
  podTemplateHash: string;
  releasedAt: string;
  /** Number of pods of the Deployment that served at that time, including this one. Pods missing before are not waited for. */
  servedBefore?: number;
}

/** The label by which a ReplicaSet selects its own pods among those of the Deployment. */
export const podTemplateHash = 'pod-template-hash';

export function releaseText(release: Release): string {
  return JSON.stringify(release);
}

/** Parses the annotation. Returns undefined for a value that this project did not write. */
export function parseRelease(text: string | undefined): Release | undefined {
  if (text === undefined) return undefined;
  try {
    const read = JSON.parse(text) as Partial<Release>;
    const { deployment, replicaSet, podTemplateHash: hash, releasedAt, servedBefore = 0 } = read;
    const texts = [deployment?.name, deployment?.uid, replicaSet?.name, replicaSet?.uid, hash, releasedAt];
    const isRelease = texts.every((one) => typeof one === 'string') && Number.isSafeInteger(servedBefore);
    return isRelease ? (read as Release) : undefined;
  } catch {
    return undefined;
  }
}

/** Reports whether a pod was released from its ReplicaSet, so that a replacement of it exists or is created. */
export function isReleased({ annotations }: Pick<ObjectMeta, 'annotations'>): boolean {
  return parseRelease(annotations?.[RELEASED_ANNOTATION]) !== undefined;
}

/** Returns the controller of an object if it has the given kind in the group apps. */
export function appsController(
  { ownerReferences = [] }: Pick<ObjectMeta, 'ownerReferences'>,
  kind: 'Deployment' | 'ReplicaSet' | 'StatefulSet',
): OwnerReference | undefined {
  return ownerReferences.find(
    (owner) => owner.controller === true && owner.kind === kind && owner.apiVersion.startsWith('apps/'),
  );
}
