import type { KubeObject } from '../api/core.ts';
import { SYSTEM_NAMESPACE } from '../api/names.ts';
import { readObjects } from './chart/chart.ts';

/** Identifies an object of an installation. */
export interface InstalledKey {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

const deploy = new URL('../deploy/', import.meta.url);
const folders = [
  './',
  'admission-server/',
  'worker/',
  'window-jobs/',
  'eviction-requests/',
  'eviction-requests/requester-policy/',
  'temporal-user/',
  'agent-daemonset/',
];
const namespacedKinds = new Set([
  'DaemonSet',
  'Deployment',
  'Service',
  'PodDisruptionBudget',
  'NetworkPolicy',
]);

/** Returns the keys of all objects that an installation can have, sorted. Those of the default namespace stand for those of any other. */
export function installedKeys(generated: Readonly<Record<string, string>>): InstalledKey[] {
  const keys = folders
    .flatMap((folder) => readObjects(new URL(folder, deploy), generated))
    .map((object) => keyOf(object));
  const unique = new Map(keys.map((key) => [textOf(key), key] as const));
  return [...unique.keys()].toSorted().flatMap((text) => unique.get(text) ?? []);
}

function keyOf({ kind = '', metadata }: KubeObject): InstalledKey {
  const namespace = metadata.namespace ?? (namespacedKinds.has(kind) ? SYSTEM_NAMESPACE : undefined);
  return { kind, ...(namespace !== undefined && { namespace }), name: metadata.name };
}

function textOf({ kind, namespace = '', name }: InstalledKey): string {
  return `${kind} ${namespace} ${name}`;
}
