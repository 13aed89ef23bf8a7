import type { Node } from '../../api/core.ts';
import { READINESS_CONDITION, READINESS_TAINT } from '../../api/names.ts';
import { oneLine } from '../common/text.ts';

/** The taints of the node lifecycle controller of Kubernetes, with the reason that each of them gives. */
const notReadyTaints = new Map([
  ['node.kubernetes.io/not-ready', 'not ready'],
  ['node.kubernetes.io/unreachable', 'unreachable'],
]);

const maxMessageLength = 1_024;

export const gatesNotReady = 'readiness gates are not ready';

/** Returns why the kubelet of a node is not ready, or undefined if it is ready. */
export function notReadyReason({ spec }: Pick<Node, 'spec'>): string | undefined {
  return spec.taints?.map(({ key }) => notReadyTaints.get(key)).find((reason) => reason !== undefined);
}

/** Returns why a node that is not cordoned accepts no new pods, or undefined if it accepts them. */
export function unschedulableReason({ spec }: Pick<Node, 'spec'>): string | undefined {
  const isGated = spec.taints?.some(({ key }) => key === READINESS_TAINT.key) ?? false;
  return notReadyReason({ spec }) ?? (isGated ? gatesNotReady : undefined);
}

/** Returns why an uncordoned node is not in service, including the gates and pods that are the cause, or undefined if it is in service. */
export function outOfServiceReason(node: Pick<Node, 'spec' | 'status'>): string | undefined {
  const gates = node.status?.conditions?.find(({ type }) => type === READINESS_CONDITION);
  if (gates?.status !== 'False') return unschedulableReason(node);
  return notReadyReason(node) ?? `${gatesNotReady} (${oneLine(gates.message, maxMessageLength)})`;
}
