import type { Node, ObjectMeta, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareNames, listed } from '../common/names.ts';
import { holdsNode } from '../common/nodePermission.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { isCompleted, stageOf } from '../common/stage.ts';

/** Longest name of a Kubernetes object (DNS-1123 subdomain). */
const maxNameLength = 253;

/**
 * Returns `<podUID>-<podName>`, "cut to 253 characters". A pod has one Evacuation; another pod of the same name has another UID.
 */
export function evacuationName({ uid, name }: Pick<ObjectMeta, 'uid' | 'name'>): string {
  // A name must end with a letter or digit, but the cut may leave a dash or a dot at the end.
  return `${uid}-${name}`.slice(0, maxNameLength).replace(/[-.]+$/, '');
}

/** Length of the part of a UID by which the name of a replacement differs. */
const suffixLength = 8;

/**
 * Returns the name of the Evacuation that replaces a deleted one, whose name is taken as long as finalizers of others keep it:
 * `<podUID>-<podName>-<start of the UID of the deleted Evacuation>`.
 */
export function replacementName(pod: Pick<ObjectMeta, 'uid' | 'name'>, { uid = '' }: ObjectMeta): string {
  const kept = evacuationName(pod).slice(0, maxNameLength - suffixLength - 1);
  return `${kept.replace(/[-.]+$/, '')}-${uid.slice(0, suffixLength)}`;
}

/** Reports whether an Evacuation with this name can be the one of the pod, or a replacement of it. */
export function isEvacuationName(name: string, pod: Pick<ObjectMeta, 'uid' | 'name'>): boolean {
  const isReplacement = () =>
    name.length > suffixLength && name === replacementName(pod, { name: '', uid: name.slice(-suffixLength) });
  return name === evacuationName(pod) || isReplacement();
}

/** Returns the Evacuation of a pod that counts: one that is not deleted, otherwise the one that was deleted last. */
export function currentEvacuation<One extends Pick<Evacuation, 'metadata'>>(
  evacuations: readonly One[],
): One | undefined {
  // A pass of a drain asks for each pod, and hardly any has two.
  if (evacuations.length < 2) return evacuations[0];
  const deletedAt = ({ metadata }: One) => metadata.deletionTimestamp ?? '9999';
  return evacuations.toSorted(
    (a, b) =>
      compareNames(deletedAt(b), deletedAt(a)) ||
      a.metadata.name.length - b.metadata.name.length ||
      compareNames(a.metadata.name, b.metadata.name),
  )[0];
}

/**
 * Returns the Evacuation of each pod that counts, by the UID of the pod. Users who may create Evacuations in one namespace may name the UID of a
 * pod of another one: the UID alone says nothing.
 */
export function evacuationsByPod<One extends Pick<Evacuation, 'metadata' | 'spec'>>(
  pods: readonly Pod[],
  evacuations: readonly One[],
): Map<string, One> {
  const keyOf = (namespace = '', name = '', uid = '') => `${namespace}/${name}/${uid}`;
  const byPod = Map.groupBy(evacuations, ({ metadata: { namespace }, spec: { podRef } }) =>
    keyOf(namespace, podRef.name, podRef.uid),
  );
  return new Map(
    pods.flatMap(({ metadata: { namespace, name, uid } }) => {
      const current = currentEvacuation(byPod.get(keyOf(namespace, name, uid)) ?? []);
      return current === undefined ? [] : [[uid ?? '', current] as const];
    }),
  );
}

/** A deleted Evacuation is kept by others when it still exists this long after its deletion. */
export const keptByOthersAfterMs = 10_000;

/**
 * Reports whether finalizers of others keep an Evacuation that was cancelled. "It should only remove its own instigator finalizer"
 * (KEP-4212 > Uncordon (Complete)): theirs stay, but must not keep the pod on its node.
 */
export function isKeptByOthers(evacuation: Pick<Evacuation, 'metadata' | 'status'>, now: Date): boolean {
  const { deletionTimestamp = '' } = evacuation.metadata;
  const isOverdue = now.getTime() - Date.parse(deletionTimestamp) > keptByOthersAfterMs;
  return isWithdrawn(evacuation) && isOverdue && finalizersOfOthers(evacuation.metadata).length > 0;
}

/** Reports whether node maintenance requests the evacuation. */
export function isInstigated({ metadata }: Pick<Evacuation, 'metadata'>): boolean {
  return metadata.finalizers?.includes(INSTIGATOR_FINALIZER) ?? false;
}

/** Returns the finalizers other than that of node maintenance. */
export function finalizersOfOthers({ finalizers = [] }: ObjectMeta): string[] {
  return finalizers.filter((finalizer) => finalizer !== INSTIGATOR_FINALIZER);
}

/** Reports whether node maintenance is the only instigator, and may cancel the Evacuation. */
export function isOursAlone({ metadata, status }: Pick<Evacuation, 'metadata' | 'status'>): boolean {
  if (status?.evacuationCancellationPolicy === 'Forbid') return false;
  return isInstigated({ metadata }) && finalizersOfOthers(metadata).length === 0;
}

/** Reports whether the Evacuation is one of this pod: in its namespace, with its name and its UID. */
export function isOfPod({ metadata, spec }: Pick<Evacuation, 'metadata' | 'spec'>, pod: Pod): boolean {
  return metadata.namespace === pod.metadata.namespace && isFor(spec.podRef, pod);
}

/** Reports whether the podRef of an Evacuation refers to this pod, and not to another pod of the same name. */
export function isFor(podRef: { name: string; uid: string }, pod: Pod): boolean {
  return podRef.name === pod.metadata.name && podRef.uid === pod.metadata.uid;
}

/** Reports whether the Evacuation is cancelled: it is deleted, and its evacuator allows cancellation. */
export function isWithdrawn({ metadata, status }: Pick<Evacuation, 'metadata' | 'status'>): boolean {
  return metadata.deletionTimestamp !== undefined && status?.evacuationCancellationPolicy !== 'Forbid';
}

/**
 * Reports whether the evacuation was cancelled by those who asked for it, and the Evacuation is about to be withdrawn: node maintenance is its
 * only instigator, no maintenance drains the node of the pod any more, and one of the node completes. The withdrawal needs Temporal, and may come late.
 * What was cancelled (`wasCancelled`) stays so if the maintenance is removed before it is completed.
 */
export function isAboutToBeWithdrawn(
  evacuation: Pick<Evacuation, 'metadata' | 'status'>,
  node: Pick<Node, 'metadata'>,
  maintenances: readonly NodeMaintenance[],
  wasCancelled = false,
): boolean {
  return isOursAlone(evacuation) && isDrainCancelled(node, maintenances, wasCancelled);
}

/** Reports whether no maintenance drains the node any more, and one of the node completes, or did when it was removed (`wasCancelled`). */
export function isDrainCancelled(
  node: Pick<Node, 'metadata'>,
  maintenances: readonly NodeMaintenance[],
  wasCancelled = false,
): boolean {
  const completing = maintenances.filter((one) => stageOf(one) === 'Complete' && !isCompleted(one));
  // Most of the time none is: the selectors need not be compared with the node.
  if (!wasCancelled && !completing.some(({ spec }) => selectsNode(spec.nodeSelector, node))) return false;
  return !maintenances.some((one) => stageOf(one) === 'Drain' && holdsNode(one, node));
}

/** Prefix of the finalizers of instigators, followed by the name of the instigator. */
const instigatorPrefix = 'evacuation.coordination.k8s.io/instigator_';
const nodeMaintenance = 'nodemaintenance.k8s.io';

function instigatorsOf({ metadata }: Pick<Evacuation, 'metadata'>): string[] {
  return (metadata.finalizers ?? [])
    .filter((finalizer) => finalizer.startsWith(instigatorPrefix))
    .map((finalizer) => finalizer.slice(instigatorPrefix.length))
    .toSorted(compareNames);
}

/**
 * Returns the instigators of an evacuation for Events: "node maintenance rack-7 (firmware 2.4)". `draining` are the
 * maintenances that drain the node of the pod.
 */
export function describeInstigators(
  evacuation: Pick<Evacuation, 'metadata'>,
  draining: readonly Pick<NodeMaintenance, 'metadata' | 'spec'>[],
): string {
  const instigators = instigatorsOf(evacuation);
  const others = instigators.filter((name) => name !== nodeMaintenance);
  const maintenances = instigators.includes(nodeMaintenance)
    ? draining.map(nameWithReason).toSorted(compareNames)
    : [];
  const parts = [
    ...(maintenances.length > 0
      ? [`node ${maintenances.length > 1 ? 'maintenances' : 'maintenance'} ${listed(maintenances)}`]
      : []),
    ...others,
  ];
  return parts.length > 0 ? parts.join(' and ') : `Evacuation ${evacuation.metadata.name}`;
}

function nameWithReason({ metadata, spec }: Pick<NodeMaintenance, 'metadata' | 'spec'>): string {
  return spec.reason === undefined || spec.reason === ''
    ? metadata.name
    : `${metadata.name} (${spec.reason})`;
}
