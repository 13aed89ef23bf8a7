import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { podName } from '../common/pod.ts';
import { isCompleted, stageOf } from '../common/stage.ts';
import type { BlockedPod } from '../drain/decide.ts';
import { BlockerReason, reportedBlocker } from '../evacuation/blocker.ts';
import { hasCordonRecord } from './status.ts';

/** Returns the seconds from the start of stage Drain until the maintenance was drained; undefined if it is not. */
export function drainSecondsOf({ status }: NodeMaintenance): number | undefined {
  const drained = status?.conditions.find(({ type }) => type === 'Drained');
  const started = status?.stageStatuses.find(({ name }) => name === 'Drain');
  if (drained?.status !== 'True' || started === undefined) return undefined;
  const seconds = (Date.parse(drained.lastTransitionTime) - Date.parse(started.startTimestamp)) / 1_000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

/** The stages that have nodes; a node that several maintenances have cordoned counts in the first of them. */
const stagesWithNodes = ['Drain', 'Cordon', 'Complete'] as const satisfies readonly NodeMaintenanceStage[];

/** Counts the nodes that maintenances have cordoned and not uncordoned yet, by the stage of the maintenance. */
export function nodesByStage(
  maintenances: readonly NodeMaintenance[],
): Record<(typeof stagesWithNodes)[number], number> {
  const counts = { Drain: 0, Cordon: 0, Complete: 0 };
  const counted = new Set<string>();
  for (const stage of stagesWithNodes) {
    const inStage = maintenances.filter((one) => stageOf(one) === stage && !isCompleted(one));
    const names = new Set(inStage.flatMap(namesOfCordoned).filter((name) => !counted.has(name)));
    counts[stage] = names.size;
    for (const name of names) counted.add(name);
  }
  return counts;
}

function namesOfCordoned({ status }: NodeMaintenance): string[] {
  return (status?.nodeStatuses ?? []).filter(hasCordonRecord).map(({ nodeRef }) => nodeRef.name);
}

/** The reasons that are counted. Evacuators write conditions too, so that a reason may be anything. */
const blockerReasons: ReadonlySet<string> = new Set(Object.values(BlockerReason));
const otherReason = 'Other';

/**
 * Counts the pods that cannot leave, by reason. Evacuations name all of them but those whose Evacuation was rejected or deleted, of which each
 * maintenance lists the first. `byRequest`: the pods with EvictionRequests.
 */
export function blockedPodsByReason(
  maintenances: readonly NodeMaintenance[],
  evacuations: readonly Evacuation[],
  byRequest: readonly BlockedPod[] = [],
): Map<string, number> {
  /** Pod -> reason. */
  const blocked = new Map<string, string>();
  for (const maintenance of maintenances) {
    if (stageOf(maintenance) !== 'Drain') continue;
    for (const { namespace, name, reason } of maintenance.status?.blockedPods ?? [])
      blocked.set(`${namespace}/${name}`, reason);
  }
  for (const { metadata, spec, status } of evacuations) {
    const blocker = reportedBlocker(status);
    if (blocker !== undefined) blocked.set(`${metadata.namespace}/${spec.podRef.name}`, blocker.reason);
  }
  for (const { pod, blocker } of byRequest) blocked.set(podName(pod), blocker.reason);
  const counts = new Map<string, number>([...blockerReasons, otherReason].map((reason) => [reason, 0]));
  for (const reason of blocked.values()) {
    const label = blockerReasons.has(reason) ? reason : otherReason;
    counts.set(label, (counts.get(label) ?? 0) + 1);
  }
  return counts;
}
