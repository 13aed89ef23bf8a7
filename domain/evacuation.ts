import type { ObjectMeta, Pod } from '../api/core.ts';

/** Longest name of a Kubernetes object (DNS-1123 subdomain). */
const maxNameLength = 253;

/** `<podUID>-<podName>`, "cut to 253 characters": one Evacuation per pod, and a namesake is another pod. */
export function evacuationName({ uid, name }: Pick<ObjectMeta, 'uid' | 'name'>): string {
  // A name must end with a letter or digit: the cut may fall behind a dash or a dot.
  return `${uid}-${name}`.slice(0, maxNameLength).replace(/[-.]+$/, '');
}

/** Whether the Evacuation's podRef means this very pod. */
export function isFor(podRef: { name: string; uid: string }, pod: Pod): boolean {
  return podRef.name === pod.metadata.name && podRef.uid === pod.metadata.uid;
}
