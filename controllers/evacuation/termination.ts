import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import {
  reportedBlocker,
  stuckTerminating,
  stuckTerminatingAfterMs,
} from '../../domain/evacuation/blocker.ts';
import { terminatingSinceMs, terminationText } from '../../domain/evacuation/termination.ts';
import { keyOf } from '../../kube/store.ts';
import type { Requeue } from '../../kube/workQueue.ts';
import type { StatusMessages } from './statusMessages.ts';

/** When a pod that does not terminate is reported. */
export interface TerminationTiming {
  /** A pod that still exists this long after its eviction is reported as terminating; most pods are gone by then. */
  readonly reportAfterMs: number;
  /** A pod that still exists this long after its grace period is reported as stuck. */
  readonly stuckAfterMs: number;
}

export const defaultTerminationTiming: TerminationTiming = {
  reportAfterMs: 30_000,
  stuckAfterMs: stuckTerminatingAfterMs,
};

interface Reporting {
  messages: StatusMessages;
  timing: TerminationTiming;
  /** The clock of the apiserver. */
  now: Date;
}

/**
 * Reports a terminating pod: at once if it was deleted before its evacuation was requested, otherwise when its grace period is long; and again
 * when it exceeds the grace period.
 */
export async function reportTermination(
  { messages, timing: { reportAfterMs, stuckAfterMs }, now }: Reporting,
  evacuation: Evacuation,
  pod: Pod,
): Promise<Requeue | undefined> {
  const { deletionTimestamp = '', deletionGracePeriodSeconds = 0 } = pod.metadata;
  const graceMs = deletionGracePeriodSeconds * 1_000;
  const graceEndsAtMs = Date.parse(deletionTimestamp);
  const stuckAtMs = graceEndsAtMs + stuckAfterMs + 1;
  const reportAtMs = graceMs > reportAfterMs ? graceEndsAtMs - graceMs + reportAfterMs : stuckAtMs;
  // A terminating pod is no longer blocked by what its Evacuation reported before.
  const hasOutdatedBlocker = reportedBlocker(evacuation.status) !== undefined;
  const isDue = now.getTime() >= reportAtMs || hasOutdatedBlocker || isUndescribed(evacuation, pod);
  if (!isDue) return { requeueAfterMs: reportAtMs - now.getTime() };
  const delayMs = messages.terminationDelayMs(keyOf(evacuation));
  if (delayMs > 0) return { requeueAfterMs: delayMs };
  const stuck = stuckTerminating(pod, now, stuckAfterMs);
  // An evacuator that deleted the pod has written its own message.
  const message =
    evacuation.status?.activeEvacuatorClass === undefined
      ? `The pod is terminating; ${terminationText(pod)}.`
      : evacuation.status.message;
  await messages.write(evacuation, { message: stuck?.message ?? message }, stuck);
  return stuck === undefined ? { requeueAfterMs: stuckAtMs - now.getTime() } : undefined;
}

/** Reports whether the pod was terminating before its evacuation was requested, and the Evacuation does not say so yet. */
function isUndescribed({ metadata, status }: Evacuation, pod: Pod): boolean {
  const createdAtMs = Date.parse(metadata.creationTimestamp ?? '');
  return status?.message === undefined && terminatingSinceMs(pod) < createdAtMs;
}
