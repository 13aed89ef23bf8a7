import type { ObjectMeta, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { compareNames, listed } from './names.ts';

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

/** Whether the pod may stay: deletion takes the request back, unless its evacuator cannot. */
export function isWithdrawn({ metadata, status }: Pick<Evacuation, 'metadata' | 'status'>): boolean {
  return metadata.deletionTimestamp !== undefined && status?.evacuationCancellationPolicy !== 'Forbid';
}

/** Begins the finalizers of those who ask for an evacuation; the rest is their name. */
const instigatorPrefix = 'evacuation.coordination.k8s.io/instigator_';
const nodeMaintenance = 'nodemaintenance.k8s.io';

/** Who asks for the pod's evacuation, by name. */
function instigatorsOf({ metadata }: Pick<Evacuation, 'metadata'>): string[] {
  return (metadata.finalizers ?? [])
    .filter((finalizer) => finalizer.startsWith(instigatorPrefix))
    .map((finalizer) => finalizer.slice(instigatorPrefix.length))
    .toSorted(compareNames);
}

/**
 * On whose account a pod leaves, for people: "node maintenance rack-7 (firmware 2.4)". `draining` are the maintenances
 * that drain the pod's node.
 */
export function accountOf(
  evacuation: Pick<Evacuation, 'metadata'>,
  draining: readonly Pick<NodeMaintenance, 'metadata' | 'spec'>[],
): string {
  const instigators = instigatorsOf(evacuation);
  const others = instigators.filter((name) => name !== nodeMaintenance);
  const maintenances = instigators.includes(nodeMaintenance)
    ? draining.map(named).toSorted(compareNames)
    : [];
  const parties = [
    ...(maintenances.length > 0
      ? [`node ${maintenances.length > 1 ? 'maintenances' : 'maintenance'} ${listed(maintenances)}`]
      : []),
    ...others,
  ];
  return parties.length > 0 ? parties.join(' and ') : `Evacuation ${evacuation.metadata.name}`;
}

function named({ metadata, spec }: Pick<NodeMaintenance, 'metadata' | 'spec'>): string {
  return spec.reason === undefined || spec.reason === ''
    ? metadata.name
    : `${metadata.name} (${spec.reason})`;
}
