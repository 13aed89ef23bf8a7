import type { Node } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { STATIC_POD_EVACUATOR } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { assertNever } from '../common/assertNever.ts';
import { compareNames } from '../common/names.ts';
import { isAgentPod, isControlPlanePod, needsConsent } from '../common/staticPod.ts';
import { gatingMaintenance, terminationMessage } from '../drain/daemonSet.ts';
import { drainingMaintenances } from '../drain/drainingMaintenances.ts';
import { type HeldManifest, type Manifest, mirrorPod, mirrorPodName, podKey } from './manifest.ts';

/** Facts by which the agent of a node decides about the node's static pods. */
export interface StaticPodFacts {
  readonly node: Node;
  /** Manifests in the folder of the kubelet. */
  readonly present: readonly Manifest[];
  readonly held: readonly HeldManifest[];
  /** Evacuations with the label of the node. */
  readonly evacuations: readonly Evacuation[];
  readonly maintenances: readonly NodeMaintenance[];
  /** Keys of the pods that were put back because no apiserver answered. They run until the drain ends. */
  readonly exempt: ReadonlySet<string>;
}

export type LeaveReason = 'Agent' | 'NeedsConsent' | 'NotTargeted' | 'PutBackInOutage' | 'NoManifest';

/** A manifest that is moved into the hold directory. */
export interface Hold {
  readonly manifest: Manifest;
  /** The maintenance for which it is held. */
  readonly maintenance: string;
}

export interface StaticPodDecision {
  /** Held files that a newer manifest of the same file or pod replaces: they are kept aside, and not put back. Done first. */
  readonly setAside: readonly HeldManifest[];
  readonly hold: readonly Hold[];
  readonly putBack: readonly HeldManifest[];
  readonly reports: readonly Report[];
  /** A maintenance drains the node. */
  readonly isDraining: boolean;
}

/** Report that an Evacuation is to contain. */
export type Report =
  | {
      readonly kind: 'Terminating';
      readonly evacuation: Evacuation;
      readonly manifest: Manifest;
      readonly message: string;
    }
  | {
      readonly kind: 'Left';
      readonly evacuation: Evacuation;
      readonly pod: string;
      readonly reason: LeaveReason;
      readonly message: string;
    };

/**
 * Decides about the static pods of a node (KEP-4212 > kubelet: Static Pods). Contract:
 *
 * 1. A manifest is held "only if there is a NodeMaintenance happening on that node and the Static pod is in the drainTargets", once its Evacuation
 *    is assigned to the agent.
 * 2. "It should not be started on the node by the kubelet again until the node maintenance is complete": what is held stays so while any
 *    maintenance drains the node, and also a manifest that takes its place.
 * 3. Everything is put back when none does. No manifest replaces another one: of two with the same file or pod, the one in the folder of the
 *    kubelet is the newer one, and the other one is set aside.
 * 4. The result does not depend on the order of the facts, and deciding again after it was done changes nothing.
 */
export function decideStaticPods(given: StaticPodFacts): StaticPodDecision {
  const facts = { ...given, present: given.present.toSorted(byFile), held: given.held.toSorted(byFile) };
  const { node, present, held, maintenances } = facts;
  const draining = drainingMaintenances(node, maintenances);
  const isDraining = draining.length > 0;
  const clashing = held.filter((one) => present.some((other) => clashes(one, other)));
  const hold = isDraining ? holds(facts, draining) : [];
  return {
    setAside: clashing,
    hold,
    putBack: isDraining ? [] : held.filter((one) => !clashing.includes(one)),
    reports: reportsOf(facts, hold),
    isDraining,
  };
}

/**
 * Decides after the apiserver has reported that the Node of this host was deleted: no maintenance selects it any more. The token of the agent
 * ends with the Node, so that it will not learn when a maintenance of a new Node of this name is complete: everything is put back.
 */
export function decideWithoutNode({
  present,
  held,
}: Pick<StaticPodFacts, 'present' | 'held'>): StaticPodDecision {
  const node: Node = { metadata: { name: '' }, spec: {} };
  return decideStaticPods({ node, present, held, evacuations: [], maintenances: [], exempt: new Set() });
}

/** Returns the held files that are put back when no apiserver has answered for long: one of them may be that apiserver. */
export function controlPlaneOf(held: readonly HeldManifest[]): HeldManifest[] {
  return held.filter(({ manifest }) => manifest !== undefined && isControlPlanePod(manifest));
}

function byFile(a: { readonly file: string }, b: { readonly file: string }): number {
  return compareNames(a.file, b.file);
}

function clashes({ file, manifest }: HeldManifest, other: Manifest): boolean {
  return file === other.file || (manifest !== undefined && podKey(manifest) === podKey(other));
}

function holds(facts: StaticPodFacts, draining: readonly NodeMaintenance[]): Hold[] {
  const [first = ''] = draining.map(({ metadata }) => metadata.name).toSorted(compareNames);
  return facts.present.flatMap((manifest) => {
    if (reasonToLeave(manifest, facts) !== undefined) return [];
    const requested = requestedBy(manifest, facts);
    if (requested !== undefined) return [{ manifest, maintenance: requested.metadata.name }];
    const isReplacement = facts.held.some((one) => clashes(one, manifest));
    return isReplacement ? [{ manifest, maintenance: first }] : [];
  });
}

/** Returns the maintenance whose drain targets include the pod, if an Evacuation asks the agent to stop it. */
function requestedBy(manifest: Manifest, facts: StaticPodFacts): NodeMaintenance | undefined {
  const isRequested = facts.evacuations.some((one) => isActive(one) && isOf(one, manifest, facts.node));
  return isRequested ? targetingMaintenance(manifest, facts) : undefined;
}

function targetingMaintenance(manifest: Manifest, { node, maintenances }: StaticPodFacts) {
  return gatingMaintenance(mirrorPod(manifest, node.metadata.name), node, maintenances);
}

function reasonToLeave(manifest: Manifest, { exempt }: StaticPodFacts): LeaveReason | undefined {
  if (isAgentPod(manifest)) return 'Agent';
  if (needsConsent(manifest)) return 'NeedsConsent';
  return exempt.has(podKey(manifest)) ? 'PutBackInOutage' : undefined;
}

/** Reports whether the Evacuation asks the agent to act. */
function isActive({ metadata, status }: Evacuation): boolean {
  if (metadata.deletionTimestamp !== undefined || status?.activeEvacuatorCompleted === true) return false;
  return status?.activeEvacuatorClass === STATIC_POD_EVACUATOR;
}

function isOf({ metadata, spec }: Evacuation, manifest: Manifest, node: Node): boolean {
  return (
    metadata.namespace === manifest.namespace &&
    spec.podRef.name === mirrorPodName(manifest, node.metadata.name)
  );
}

function reportsOf(facts: StaticPodFacts, hold: readonly Hold[]): Report[] {
  return facts.evacuations
    .filter(isActive)
    .toSorted((a, b) => compareNames(keyOf(a), keyOf(b)))
    .map((evacuation) => reportOf(evacuation, facts, hold));
}

function reportOf(evacuation: Evacuation, facts: StaticPodFacts, hold: readonly Hold[]): Report {
  const { node, present, held } = facts;
  const ofPod = (manifest: Manifest | undefined) =>
    manifest !== undefined && isOf(evacuation, manifest, node);
  const stopped = [...hold.map(({ manifest }) => manifest), ...held.map(({ manifest }) => manifest)].find(
    ofPod,
  );
  const running = present.find((one) => ofPod(one) && !hold.some(({ manifest }) => manifest === one));
  const maintenance = stopped && oldestDraining(stopped, facts);
  if (running === undefined && stopped !== undefined && maintenance !== undefined)
    return {
      kind: 'Terminating',
      evacuation,
      manifest: stopped,
      message: terminationMessage(stopped.name, maintenance),
    };
  const reason = running === undefined ? 'NoManifest' : (reasonToLeave(running, facts) ?? 'NotTargeted');
  const pod = `${evacuation.metadata.namespace}/${evacuation.spec.podRef.name}`;
  return { kind: 'Left', evacuation, pod, reason, message: leftMessage(running?.name ?? '', reason) };
}

function oldestDraining(manifest: Manifest, facts: StaticPodFacts): NodeMaintenance | undefined {
  const { node, maintenances } = facts;
  const [first] = drainingMaintenances(node, maintenances).toSorted((a, b) =>
    compareNames(a.metadata.name, b.metadata.name),
  );
  return targetingMaintenance(manifest, facts) ?? first;
}

function leftMessage(name: string, reason: LeaveReason): string {
  switch (reason) {
    case 'Agent':
      return 'The node agent does not stop itself.';
    case 'NeedsConsent':
      return `${name} belongs to the control plane and keeps running: add the annotation nodemaintenance.k8s.io/evacuate-control-plane: "true" to its manifest to allow that it is stopped.`;
    case 'PutBackInOutage':
      return `${name} was put back because no apiserver answered while it was stopped, and keeps running until the drain ends.`;
    case 'NotTargeted':
      return `The drain targets of the node do not include ${name}: it keeps running.`;
    case 'NoManifest':
      return 'The static pod path of the node agent contains no manifest of this pod: it keeps running.';
    default:
      return assertNever(reason);
  }
}

function keyOf({ metadata }: Evacuation): string {
  return `${metadata.namespace}/${metadata.name}`;
}
