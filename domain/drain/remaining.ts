import type { Pod } from '../../api/core.ts';
import { EVACUATE_CONTROL_PLANE_ANNOTATION } from '../../api/names.ts';
import { assertNever } from '../common/assertNever.ts';
import { compareNames, listed } from '../common/names.ts';
import { isFromFile, podName, podTypeOf } from '../common/pod.ts';
import { needsConsent, staticPodOf } from '../common/staticPod.ts';
import { canStopStaticPods, type NodeAgent } from '../leases/nodeAgent.ts';

/** Why a static pod keeps running. */
export type RemainingCause =
  | Exclude<NodeAgent, { kind: 'Live' }>
  /** Its agent runs, and does not find the folder of static pods. */
  | { readonly kind: 'NotCapable' }
  /** It belongs to the control plane, and its manifest does not permit drains to stop it. */
  | { readonly kind: 'NeedsConsent' }
  /** The kubelet has its manifest from a URL, from where an agent cannot remove it. */
  | { readonly kind: 'NotFromFile' };

/** A pod that a drain leaves running, and why. */
export interface RemainingPod {
  readonly pod: Pod;
  readonly cause: RemainingCause;
}

/**
 * Returns why a drain leaves the pod running; undefined for a pod that it evacuates. Only the agent of its node can stop a static pod, and stops
 * the control plane by consent only.
 */
export function remainingCause(pod: Pod, agent: NodeAgent): RemainingCause | undefined {
  if (podTypeOf(pod) !== 'Static') return undefined;
  if (agent.kind !== 'Live') return agent;
  if (!canStopStaticPods(agent)) return { kind: 'NotCapable' };
  if (!isFromFile(pod)) return { kind: 'NotFromFile' };
  return needsConsent(staticPodOf(pod)) ? { kind: 'NeedsConsent' } : undefined;
}

/** Formats `kube-system/proxy-one (no agent reports from node one: ...); kube-system/etcd-two (...)`: each cause once, with its pods. */
export function remainingText(remaining: readonly RemainingPod[]): string {
  const sorted = remaining.toSorted((a, b) => compareNames(podName(a.pod), podName(b.pod)));
  const groups = Map.groupBy(sorted, ({ cause }) => cause.kind);
  return [...groups]
    .toSorted(([a], [b]) => compareNames(a, b))
    .map(
      ([, members]) => `${listed(members.map(({ pod }) => podName(pod)))} (${remainingCauseText(members)})`,
    )
    .join('; ');
}

/** Formats the cause of pods whose causes are of one kind, with the remedy. */
export function remainingCauseText(members: readonly RemainingPod[]): string {
  const [first] = members;
  if (first === undefined) return '';
  switch (first.cause.kind) {
    case 'None':
      return `no node agent reports from ${nodesText(members)}: install it there, or remove the manifests from the folder of the kubelet`;
    case 'Silent':
      return `the node agent has not reported ${silentText(members)}: check that it runs there`;
    case 'Unknown':
      return `the worker may not read the Lease of the node agent (${first.cause.because}): apply deploy/rbac again`;
    case 'NotCapable':
      return `the node agent of ${nodesText(members)} cannot stop static pods, because it does not find their folder: set its --static-pod-path (STATIC_POD_PATH) to the staticPodPath of the kubelet`;
    case 'NeedsConsent':
      return `part of the control plane, without consent: to stop it, too, set the annotation ${EVACUATE_CONTROL_PLANE_ANNOTATION}: "true" in its manifest`;
    case 'NotFromFile':
      return 'the kubelet does not have its manifest from a file: remove it from its source';
    default:
      return assertNever(first.cause);
  }
}

function nodesText(members: readonly RemainingPod[]): string {
  const nodes = nodesOf(members);
  return `${nodes.length === 1 ? 'node' : 'nodes'} ${listed(nodes)}`;
}

function silentText(members: readonly RemainingPod[]): string {
  const texts = members.map(({ pod, cause }) => {
    const since = cause.kind === 'Silent' && cause.since !== undefined ? ` since ${cause.since}` : '';
    return `from node ${pod.spec.nodeName}${since}`;
  });
  return listed([...new Set(texts)].toSorted(compareNames));
}

function nodesOf(members: readonly RemainingPod[]): string[] {
  return [...new Set(members.map(({ pod }) => pod.spec.nodeName ?? ''))].toSorted(compareNames);
}
