import type { Pod } from '../../api/core.ts';
import { listed } from '../common/names.ts';
import { oneLine } from '../common/text.ts';

/** Finalizers are written by users. */
const maxFinalizerLength = 100;

/** Formats `a, b`, at most three by name. */
export function finalizerNames(finalizers: readonly string[]): string {
  return listed(finalizers.toSorted().map((name) => oneLine(name, maxFinalizerLength)));
}

/** Returns when the deletion of a terminating pod was requested, in milliseconds since the epoch; NaN for other pods. */
export function terminatingSinceMs({ metadata }: Pod): number {
  const { deletionTimestamp = '', deletionGracePeriodSeconds = 0 } = metadata;
  return Date.parse(deletionTimestamp) - deletionGracePeriodSeconds * 1_000;
}

/**
 * Formats what a terminating pod waits for: `its grace period of 3600 s ends at 2026-01-01T13:00:00Z; finalizer example.com/backup`. The text
 * stays the same until the finalizers change, or the pod is deleted again.
 */
export function terminationText({ metadata }: Pod): string {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = metadata;
  const grace = `its grace period of ${deletionGracePeriodSeconds} s ends at ${deletionTimestamp}`;
  if (finalizers.length === 0) return grace;
  return `${grace}; ${finalizers.length === 1 ? 'finalizer' : 'finalizers'} ${finalizerNames(finalizers)}`;
}
