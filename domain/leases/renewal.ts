/**
 * When the maintenance Leases of nodes are renewed, and how fast a worker that holds some of them must be found dead. A Lease is renewed when a
 * third of its duration has passed.
 */

/** A Lease with less than this part of its duration left is renewed. */
export const renewalThreshold = 2 / 3;

/** A Lease is renewed this part of its duration late at most. */
const checkedEvery = 1 / 20;

/** Another worker must have the activity before the Lease expires, with a fifteenth of the duration to spare. */
const heartbeatTimeout = 3 / 5;

/** Shorter timeouts are missed by workers that are only slow. */
const minTimeoutSeconds = 6;
const maxTimeoutSeconds = 900;
/** Longest timeout where only heartbeats reveal that a worker has died, because identity Leases are disabled. */
const maxRevealingSeconds = 60;

/** Returns the interval in which an activity checks whether Leases are to be renewed. */
export function renewalCheckMs(leaseDurationSeconds: number): number {
  return leaseDurationSeconds * checkedEvery * 1_000;
}

/**
 * Returns the heartbeat timeout of an activity that only waits and renews Leases of this duration. Half of it, the interval of its heartbeats,
 * is as long as possible, because Temporal bills each of them; unless nothing but heartbeats reveals that a worker has died.
 */
export function heartbeatTimeoutSeconds(
  leaseDurationSeconds: number,
  { revealsDeaths = false }: { revealsDeaths?: boolean } = {},
): number {
  const seconds = Math.floor(leaseDurationSeconds * heartbeatTimeout);
  const max = revealsDeaths ? maxRevealingSeconds : maxTimeoutSeconds;
  return Math.min(Math.max(seconds, minTimeoutSeconds), max);
}
