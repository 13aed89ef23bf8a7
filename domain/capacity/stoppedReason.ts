/** Why a drain does not return its nodes before an operator, or the holder of a Lease, acts. */
export const StoppedReason = {
  /** A user paused it. */
  Paused: 'Paused',
  /** Another client holds the maintenance Lease of a node. */
  WaitingForNodeLease: 'WaitingForNodeLease',
  /** The user who requested it may not maintain a node. */
  NotAuthorized: 'NotAuthorized',
  /** A pod cannot leave without intervention. */
  Blocked: 'Blocked',
  /** It is drained, and a user completes it. */
  Drained: 'Drained',
} as const;
export type StoppedReason = (typeof StoppedReason)[keyof typeof StoppedReason];

const texts: Readonly<Record<StoppedReason, string>> = {
  Paused: 'paused',
  WaitingForNodeLease: 'waits for a maintenance Lease',
  NotAuthorized: 'not authorized for a node',
  Blocked: 'blocked',
  Drained: 'drained',
};

/** Formats the reason for a message. */
export function stoppedReasonText(stoppedReason: StoppedReason): string {
  return texts[stoppedReason];
}
