import type { Pod } from '../../api/core.ts';
import type { NodeReadinessGateStatus, NodeReadinessStatus } from '../../api/nodeReadiness.ts';
import { compareNames } from '../common/names.ts';

/**
 * A node that crashed and is back within the grace period of the node lifecycle controller was never reported as not Ready, and its pods
 * stay Ready in the apiserver until the kubelet reports them. The first fact about the reboot is the boot ID, in the first status that
 * the new kubelet writes. No container survives a reboot, so a pod with the containers of the previous boot has not been reported yet.
 */

/** Reports of the kubelet about its node. Times are milliseconds since the epoch. */
export interface NodeReports {
  /** Undefined or empty until the kubelet has reported it. */
  bootId: string | undefined;
  /** When the node became Ready, by the clock of the node; undefined while it is not Ready. */
  nodeReadySinceMs: number | undefined;
  now: number;
}

/** A kubelet that has run for this time has reported all of its pods. */
const reportingMs = 60_000;

/** The limits of the schema. */
const maxContainers = 512;
const maxBootIdLength = 128;

/** Returns the boot ID as the status contains it; undefined if it is not known. */
export function knownBootId(bootId: string | undefined): string | undefined {
  return bootId === undefined || bootId === '' ? undefined : bootId.slice(0, maxBootIdLength);
}

export function hasRebooted(
  previous: Pick<NodeReadinessStatus, 'bootID'> | undefined,
  bootId: string | undefined,
): boolean {
  const known = knownBootId(bootId);
  return previous?.bootID !== undefined && known !== undefined && previous.bootID !== known;
}

/** Returns the hashes of the containers that ran before the reboot, according to a status that may be older than the reboot. */
export function staleContainers(
  status: NodeReadinessStatus | undefined,
  bootId: string | undefined,
): readonly string[] {
  const { containers = [], staleContainers: stale = [] } = status ?? {};
  return hasRebooted(status, bootId) ? [...containers, ...stale] : stale;
}

/**
 * Returns the hashes of the containers of pods that are older than their Node object: a previous object of that name was deleted, and its host may have
 * been replaced, or rebooted. Both times are those of the apiserver.
 */
export function containersOfPreviousNode(pods: readonly Pod[], createdAtMs: number): string[] {
  const old = pods.filter(({ metadata }) => Date.parse(metadata.creationTimestamp ?? '') < createdAtMs);
  return old.flatMap(({ status }) => status.containers ?? []);
}

/** Returns the time at which the kubelet has reported all pods since the reboot; Infinity while the node is not Ready. */
export function reportsCompleteAt(
  { nodeReadySinceMs }: NodeReports,
  status: Pick<NodeReadinessStatus, 'rebootTime'> | undefined,
): number {
  return nodeReadySinceMs === undefined ? Infinity : rebootMsOf(status) + reportingMs;
}

/**
 * Reports whether a gate that is not ready gets no grace period: the node has rebooted or is not Ready, or was so since the gate was ready. The
 * grace period is for an agent that restarts on a working node. `before` is the previous status of the gate.
 */
export function isInterrupted(
  reports: NodeReports,
  previous: NodeReadinessStatus | undefined,
  before: NodeReadinessGateStatus | undefined,
): boolean {
  const { bootId, nodeReadySinceMs, now } = reports;
  if (nodeReadySinceMs === undefined || hasRebooted(previous, bootId)) return true;
  const since = before?.ready === true ? before.lastTransitionTime : before?.lostTime;
  if (since === undefined) return false;
  const restartMs = Math.max(nodeReadySinceMs, rebootMsOf(previous));
  return Date.parse(since) < restartMs && now < restartMs + reportingMs;
}

/** Divides the containers of the Ready pods into those of this boot and stale ones. */
export function containersOfBoot(
  pods: readonly Pod[],
  stale: readonly string[],
): Pick<NodeReadinessStatus, 'containers' | 'staleContainers'> {
  const all = pods.flatMap(({ status }) =>
    status.ready && status.containers !== undefined ? [status.containers] : [],
  );
  const sorted = [...new Set(all)].toSorted(compareNames);
  const own = sorted.filter((one) => !stale.includes(one)).slice(0, maxContainers);
  const old = sorted.filter((one) => stale.includes(one)).slice(0, maxContainers);
  return { ...(own.length > 0 && { containers: own }), ...(old.length > 0 && { staleContainers: old }) };
}

function rebootMsOf(status: Pick<NodeReadinessStatus, 'rebootTime'> | undefined): number {
  return status?.rebootTime === undefined ? -Infinity : Date.parse(status.rebootTime);
}
