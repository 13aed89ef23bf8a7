/** Coordinates disruptive work on a node, such as a reboot, a snapshot or a repair: see README.md. */
export type { Log } from '../kube/log.ts';
export { type NodeLeaseClient, type NodeLeaseOptions, nodeLeases } from './client.ts';
export type { HoldOptions, Waiting, WhileHeld } from './hold.ts';
export { type Loss, NodeLeaseLostError } from './lost.ts';
export type { Acquisition, Lost, Release } from './nodeLeases.ts';
