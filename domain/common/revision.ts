import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import { canonicalJson } from './canonicalJson.ts';

/** Returns the revision of a window. It depends on what is done to the nodes, and not on the schedule or the number of nodes at a time. */
export function revisionOf({ template, work }: Pick<MaintenanceWindowSpec, 'template' | 'work'>): string {
  return digest(canonicalJson({ template, work }));
}

/** Returns a short hash of lower case letters and digits. FNV-1a with 64 bits; not for secrets. */
export function digest(text: string): string {
  let hash = 0xcbf29ce484222325n;
  for (const character of text)
    hash = BigInt.asUintN(64, (hash ^ BigInt(character.codePointAt(0) ?? 0)) * 0x100000001b3n);
  return hash.toString(36).padStart(13, '0').slice(-10);
}

const maxObjectNameLength = 253;

/** Returns the name of the NodeMaintenance of a node in a window. */
export function windowMaintenanceName(window: string, revision: string, node: string): string {
  const name = `${window}-${revision}-${node}`;
  if (name.length <= maxObjectNameLength) return name;
  const kept = node.slice(0, maxObjectNameLength - window.length - revision.length - 13);
  return `${window}-${revision}-${kept.replace(/[-.]+$/, '')}-${digest(node)}`;
}

/** Returns another name for a NodeMaintenance whose name an object with this UID has taken. */
export function otherMaintenanceName(name: string, takenBy: string): string {
  const suffix = digest(takenBy);
  return `${name.slice(0, maxObjectNameLength - suffix.length - 1).replace(/[-.]+$/, '')}-${suffix}`;
}

/** Returns the name of the Job of a window's NodeMaintenance. It is short, because the pods have it as the value of a label. */
export function jobName(maintenance: string): string {
  return `work-${digest(maintenance)}`;
}
