import type { MaintenanceWindowSpec } from '../api/maintenanceWindow.ts';

/** What tells one revision of a window from another: what is done to its nodes, not when, nor how many at once. */
export function revisionOf({ template, work }: Pick<MaintenanceWindowSpec, 'template' | 'work'>): string {
  return digest(canonical({ template, work }));
}

/** A short name for a text, of lower case letters and digits. Not for secrets: FNV-1a of 64 bits. */
export function digest(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const character of text)
    hash = BigInt.asUintN(64, (hash ^ BigInt(character.codePointAt(0) ?? 0)) * 0x100000001b3n);
  return hash.toString(36).padStart(13, '0').slice(-10);
}

/** JSON in which the order of fields is no difference. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

const longestObjectName = 253;

/** The name of the NodeMaintenance that is a node's turn in a window. */
export function turnName(window: string, revision: string, node: string): string {
  const name = `${window}-${revision}-${node}`;
  if (name.length <= longestObjectName) return name;
  const kept = node.slice(0, longestObjectName - window.length - revision.length - 13);
  return `${window}-${revision}-${kept.replace(/[-.]+$/, '')}-${digest(node)}`;
}

/** Of the Job that works on the node: its pods carry it in a label. */
export function jobName(turn: string): string {
  return `work-${digest(turn)}`;
}
