/** Coordinates disruptive work on a node, such as a reboot, a snapshot or a repair: see README.md. */
export type { Log } from '../kube/log.ts';
export { type NodeLeaseClient, type NodeLeaseOptions, nodeLeases, type WatchOptions } from './client.ts';
export { NodeHeldError, NodeLeaseError, NodeLeaseErrorKind } from './errors.ts';
export { type Loss, NodeLeaseLostError } from './lost.ts';
export {
  type Acquisition,
  type HoldOptions,
  isHeld,
  type Lost,
  type NodeLeaseState,
  type Release,
  type Waiting,
  type WhileHeld,
} from './types.ts';
