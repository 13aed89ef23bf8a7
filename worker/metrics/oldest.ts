import type { KubeObject } from '../../api/core.ts';
import { compareNames } from '../../domain/common/names.ts';

/** Everyone who may create an object adds a series: only the oldest ones have one. */
const maxNamedObjects = 100;

/** Returns the entries that have a series of their own, oldest object first. */
export function oldest<T extends { object: Pick<KubeObject, 'metadata'> }>(entries: readonly T[]): T[] {
  const byAge = ({ object: { metadata: a } }: T, { object: { metadata: b } }: T) =>
    compareNames(a.creationTimestamp ?? '', b.creationTimestamp ?? '') || compareNames(a.name, b.name);
  return entries.toSorted(byAge).slice(0, maxNamedObjects);
}
