import type { Condition } from '../../api/core.ts';
import type { ConditionFacts } from '../common/conditions.ts';
import { heldByAnother } from '../leases/nodeLease.ts';
import type { NodeStepInput } from './nodeStepInput.ts';

/** The next step for one node of a window. */
export type NodeStep =
  /** Do nothing now. */
  | { kind: 'Wait'; message: string }
  /** Do nothing now, but fail after a while. */
  | { kind: 'AwaitNode'; message: string }
  | { kind: 'StartJob' }
  /** Record the result of the Job before acting on it: the Job can be deleted at any time. */
  | { kind: 'RecordWork'; facts: ConditionFacts }
  | { kind: 'DeleteJob' }
  /** Ask the agent of the node to end the boot ID that the NodeMaintenance records. */
  | { kind: 'RequestReboot' }
  /** Remove the request and the need for a reboot from the Node, then record that the work is done. */
  | { kind: 'FinishReboot' }
  /** Set the NodeMaintenance to Complete, which uncordons the node. */
  | { kind: 'Complete' }
  /** Record that the node is maintained again later. */
  | { kind: 'Cancel' }
  /** Record that the node has succeeded. */
  | { kind: 'Succeed' }
  /** Record that the node has failed. It stays as it is until a user resolves the failure. */
  | { kind: 'Fail'; reason: string; message: string }
  /** Do nothing: the failure is recorded and not resolved. */
  | { kind: 'Failed'; reason: string; message: string; isUncordoned: boolean }
  /** Do nothing: the success is recorded, at this time in milliseconds since the epoch. */
  | { kind: 'Succeeded'; at: number }
  /** Delete the NodeMaintenance, so that the node can be maintained again. */
  | { kind: 'DeleteMaintenance' };

/** The input, and the facts that several phases need. */
export interface NodeStepFacts extends NodeStepInput {
  /** Condition Succeeded of the NodeMaintenance. */
  result: Condition | undefined;
  /** Condition WorkSucceeded of the NodeMaintenance. */
  workResult: Condition | undefined;
  isComplete: boolean;
  /** Complete has finished: the node is uncordoned. */
  isUncordoned: boolean;
}

export type Phase = (facts: NodeStepFacts) => NodeStep | undefined;

/** An event after which the node is expected to be ready. */
export interface Milestone {
  /** Time of the event, in milliseconds since the epoch. */
  at: number;
  event: string;
}

/** Limits how long a node is waited for. */
interface Deadline {
  /** Start of the wait, in milliseconds since the epoch. */
  at: number;
  seconds: number;
  failure: { reason: string; message: string };
}

/** Waits until the deadline. Time before the first observation does not count: nobody has observed the node since then. */
export function awaitUntil(
  { nowMs, waitingSince = nowMs }: Pick<NodeStepFacts, 'nowMs' | 'waitingSince'>,
  message: string,
  { at, seconds, failure }: Deadline,
): NodeStep {
  const waitedMs = nowMs - Math.max(at, waitingSince);
  return waitedMs > seconds * 1_000 ? { kind: 'Fail', ...failure } : { kind: 'AwaitNode', message };
}

/** A node whose Lease another client holds is not to be changed: work that has not started waits (KEP-1411 > Expected Client Behavior). */
export function awaitLease({ leaseHolder }: Pick<NodeStepFacts, 'leaseHolder'>): NodeStep | undefined {
  if (leaseHolder === undefined) return undefined;
  return { kind: 'Wait', message: `its maintenance Lease is ${heldByAnother(leaseHolder)}` };
}

/** Waits until the node is ready. */
export function awaitNode(facts: NodeStepFacts, reason: string, { at, event }: Milestone): NodeStep {
  const { readyTimeoutSeconds: seconds } = facts;
  const message = `${reason} for more than ${seconds} s after ${event}: check the node, then mark its work as done (kubectl maintenance window advance)`;
  return awaitUntil(facts, reason, { at, seconds, failure: { reason: 'NodeNotReady', message } });
}
