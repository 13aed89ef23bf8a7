/** Why a drain does not return its nodes before a person, or the holder of a Lease, acts. */
export const DrainObstacle = {
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
export type DrainObstacle = (typeof DrainObstacle)[keyof typeof DrainObstacle];

const texts: Readonly<Record<DrainObstacle, string>> = {
  Paused: 'paused',
  WaitingForNodeLease: 'waits for a maintenance Lease',
  NotAuthorized: 'not authorized for a node',
  Blocked: 'blocked',
  Drained: 'drained',
};

/** Formats the obstacle for a message. */
export function obstacleText(obstacle: DrainObstacle): string {
  return texts[obstacle];
}
