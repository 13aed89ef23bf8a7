import type { Node } from '../../api/core.ts';
import { RebootAnnotation } from '../../api/names.ts';
import { oneLine } from '../common/text.ts';

/** Returns the boot ID that the kubelet has reported. Every boot has another one. */
export function bootIdOf({ status }: Pick<Node, 'status'>): string | undefined {
  return status?.nodeInfo?.bootID || undefined;
}

/** Reports whether the node says that it needs a reboot. */
export function needsReboot({ metadata }: Pick<Node, 'metadata'>): boolean {
  return metadata.annotations?.[RebootAnnotation.Required] !== undefined;
}

/** Length of the reason in messages. */
const maxReasonLength = 256;

/** Returns why the node needs a reboot, as one line that may be empty; undefined if it needs none. */
export function rebootReasonOf({ metadata }: Pick<Node, 'metadata'>): string | undefined {
  const reason = metadata.annotations?.[RebootAnnotation.Required];
  return reason === undefined ? undefined : oneLine(reason, maxReasonLength);
}

/**
 * The state of a reboot: it is not requested; its request is not acted on yet, and can be withdrawn; the agent is about to reboot the node; or
 * the node has another boot ID.
 */
export type RebootState = 'NotRequested' | 'Requested' | 'Started' | 'Done';

/** Returns the state of the reboot that ends this boot ID. */
export function rebootStateOf(node: Pick<Node, 'metadata' | 'status'>, endedBootId: string): RebootState {
  const { annotations = {} } = node.metadata;
  const current = bootIdOf(node);
  if (endedBootId === '') return 'NotRequested';
  if (current !== undefined && current !== endedBootId) return 'Done';
  if (annotations[RebootAnnotation.Requested] !== endedBootId) return 'NotRequested';
  return annotations[RebootAnnotation.Started] === endedBootId ? 'Started' : 'Requested';
}
