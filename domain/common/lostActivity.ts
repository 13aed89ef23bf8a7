/** `<activity id>#<attempt>` of the activities in progress that have sent no heartbeat -> when each was first seen, in milliseconds. */
export type SilentActivities = ReadonlyMap<string, number>;

/** More than a worker needs from the start of an activity to the first heartbeat. */
const defaultLostAfterMs = 10_000;

/** Returns the activities that are silent now. Each attempt counts from when it was seen first. */
export function silentActivities(
  attempts: readonly string[],
  known: SilentActivities | undefined,
  nowMs: number,
): SilentActivities {
  return new Map(attempts.map((attempt) => [attempt, known?.get(attempt) ?? nowMs]));
}

/** Returns the ids of the activities that no worker executes. */
export function lostActivities(
  silent: SilentActivities,
  nowMs: number,
  lostAfterMs = defaultLostAfterMs,
): string[] {
  return [...silent]
    .filter(([, sinceMs]) => nowMs - sinceMs >= lostAfterMs)
    .map(([attempt]) => attempt.slice(0, attempt.lastIndexOf('#')));
}
