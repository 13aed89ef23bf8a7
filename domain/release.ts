import type { ObjectMeta, OwnerReference } from '../api/core.ts';

/** From whom a pod was released, as its annotation says: all that is needed to give it back. */
export interface Release {
  deployment: { name: string; uid: string };
  replicaSet: { name: string; uid: string };
  /** The value of the label that was taken. */
  podTemplateHash: string;
  releasedAt: string;
  /** How many pods of the Deployment served then, this one included: a pod that was missing before is not waited for. */
  servedBefore?: number;
}

/** By this label a ReplicaSet knows its pods from those of its siblings. */
export const podTemplateHash = 'pod-template-hash';

export function releaseText(release: Release): string {
  return JSON.stringify(release);
}

/** Undefined for what we did not write. */
export function parseRelease(text: string | undefined): Release | undefined {
  if (text === undefined) return undefined;
  try {
    const read = JSON.parse(text) as Partial<Release>;
    const names = [read.deployment?.name, read.replicaSet?.name, read.podTemplateHash, read.releasedAt];
    return names.every((name) => typeof name === 'string') ? (read as Release) : undefined;
  } catch {
    return undefined;
  }
}

/** The controller of an object, if it is of this kind of apps/. */
export function appsController(
  { ownerReferences = [] }: Pick<ObjectMeta, 'ownerReferences'>,
  kind: 'Deployment' | 'ReplicaSet',
): OwnerReference | undefined {
  return ownerReferences.find(
    (owner) => owner.controller === true && owner.kind === kind && owner.apiVersion.startsWith('apps/'),
  );
}
