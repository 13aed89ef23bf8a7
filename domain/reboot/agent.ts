import type { Node } from '../../api/core.ts';
import { RebootAnnotation } from '../../api/names.ts';
import { isTrue } from '../common/conditions.ts';
import { isCordoned } from '../common/cordon.ts';
import { listed } from '../common/names.ts';
import { oneLine } from '../common/text.ts';

/** The next step of a node's agent towards a reboot. It is decided again for the Node as it is after each write. */
export type RebootStep =
  /** Nobody asks for the reboot of this boot, or the node is not drained. */
  | 'Idle'
  /** Write `RebootAnnotation.Started`: from then on the request is not withdrawn. */
  | 'Start'
  | 'Reboot';

/** Decides the step of the agent whose host has this boot ID. The node must be drained by a maintenance, no matter who has written the request. */
export function decideReboot(
  node: Pick<Node, 'metadata' | 'spec' | 'status'> | undefined,
  bootId: string,
): RebootStep {
  if (node === undefined || !isRequested(node, bootId)) return 'Idle';
  if (!isCordoned(node) || !isTrue(node.status?.conditions, 'Drained')) return 'Idle';
  return node.metadata.annotations?.[RebootAnnotation.Started] === bootId ? 'Reboot' : 'Start';
}

/** Returns true if a reboot of this boot is requested. */
export function isRequested({ metadata }: Pick<Node, 'metadata'>, bootId: string): boolean {
  return bootId !== '' && metadata.annotations?.[RebootAnnotation.Requested] === bootId;
}

/** The next step of the agent for the annotation that says that the node needs a reboot. */
export type RequirementStep =
  | { kind: 'None' }
  | { kind: 'Require'; reason: string }
  /** Remove the value, if the agent has written it. */
  | { kind: 'Release' };

/**
 * Decides whether the annotation follows the sentinel. `reason` is undefined if there is no sentinel; `foreign` is the value that the agent was
 * not allowed to change, because a user has written it.
 */
export function decideRequirement(
  { metadata }: Pick<Node, 'metadata'>,
  { reason, foreign }: { reason: string | undefined; foreign: string | undefined },
): RequirementStep {
  const value = metadata.annotations?.[RebootAnnotation.Required];
  if (value === reason || (value !== undefined && value === foreign)) return { kind: 'None' };
  return reason === undefined ? { kind: 'Release' } : { kind: 'Require', reason };
}

/** The length of the reason that the agent writes. */
const maxReasonLength = 256;

/** Returns the reason for a sentinel: the packages that require the reboot, one in a line, if they are known. */
export function sentinelReason(sentinel: string, packages: string): string {
  const names = [...new Set(packages.split('\n').map((line) => line.trim()))].filter((name) => name !== '');
  const reason = names.length === 0 ? `${sentinel} exists` : `packages: ${listed(names)}`;
  return oneLine(reason, maxReasonLength);
}
