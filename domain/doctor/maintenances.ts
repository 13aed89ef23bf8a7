import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { WaitingReason as WindowWaitingReason } from '../../api/waitingReasons.ts';
import { stageOf } from '../common/stage.ts';
import { CAPACITY_AVAILABLE } from '../capacity/condition.ts';
import { STALLED, stalledMessage } from '../common/stalledRun.ts';
import { numbered } from '../common/text.ts';
import { heldNodes } from '../maintenance/heldNodes.ts';
import { progressProblemOf } from '../maintenance/progressing.ts';
import { isFinished } from '../maintenance/runNeed.ts';
import { WaitingReason, waitingReasonOf } from '../maintenance/waiting.ts';
import { windowProblems } from '../windows/summary.ts';
import { durationText, error, type Finding, listedFindings, warning } from './finding.ts';

/** When something that should take seconds counts as stuck. */
export interface StuckTiming {
  readonly now: number;
  readonly stuckAfterMs: number;
}

/** Finds maintenances that make no progress. */
export function maintenanceFindings(
  maintenances: readonly NodeMaintenance[],
  timing: StuckTiming,
): Finding[] {
  const findings = maintenances.flatMap((maintenance) => problemOf(maintenance, timing) ?? []);
  const open = maintenances.filter((one) => !isFinished(one)).length;
  const held = heldNodes(maintenances).size;
  return listedFindings(
    findings,
    `${numbered(open, 'unfinished maintenance')} with ${numbered(held, 'cordoned node')}: none is stuck`,
  );
}

/** Finds windows that do not open or do not proceed. */
export function windowFindings(
  windows: readonly MaintenanceWindow[],
  { now, stuckAfterMs }: StuckTiming,
): Finding[] {
  const findings = windows.flatMap(({ metadata: { name, creationTimestamp = '' }, status }) => {
    const object = `maintenancewindow/${name}`;
    const conditions = status?.conditions ?? [];
    const isNew = conditions.length === 0 && !(now - Date.parse(creationTimestamp) > stuckAfterMs);
    if (isNew) return [];
    const remedy = `kubectl maintenance windows ${name} shows the window; correct its spec, or do what the message says`;
    const rollout = rolloutProblem(status);
    return [
      ...windowProblems(conditions).map(({ type, message }) =>
        type === STALLED ? error(message, remedy, object) : warning(message, remedy, object),
      ),
      ...(rollout === undefined ? [] : [warning(rollout, remedy, object)]),
    ];
  });
  return listedFindings(
    findings,
    `${numbered(windows.length, 'MaintenanceWindow')}: each is scheduled or suspended`,
  );
}

/** For these an open window starts no node until a person acts. Those that conditions report are not among them. */
const stoppedReasons: readonly (WindowWaitingReason | undefined)[] = [
  'FailedNodes',
  'MaintenanceRejected',
  'TooManyFailures',
];

/** Returns why nodes of a window are not maintained until a person acts; undefined if they are. */
function rolloutProblem(status: MaintenanceWindowStatus | undefined): string | undefined {
  const { active, progress } = status ?? {};
  const { waiting } = active ?? {};
  if (waiting !== undefined && stoppedReasons.some((reason) => reason === waiting.reason))
    return waiting.message;
  const failed = progress?.failed ?? 0;
  return failed === 0 ? undefined : `the maintenance of ${numbered(failed, 'node')} failed`;
}

function problemOf(maintenance: NodeMaintenance, timing: StuckTiming): Finding | undefined {
  const { metadata, status } = maintenance;
  const object = `nodemaintenance/${metadata.name}`;
  const stalled = stalledMessage(status?.conditions);
  if (stalled !== undefined)
    return error(stalled, 'do what the message says; see docs/how-to/stuck-runs.md', object);
  return deletionProblem(maintenance, timing) ?? waitingProblem(maintenance, timing);
}

function deletionProblem(
  { metadata: { name, deletionTimestamp, finalizers = [] } }: NodeMaintenance,
  { now, stuckAfterMs }: StuckTiming,
): Finding | undefined {
  const deletedMs = now - Date.parse(deletionTimestamp ?? '');
  if (!(deletedMs > stuckAfterMs)) return undefined;
  return error(
    `it was deleted ${durationText(deletedMs)} ago and still has finalizers ${finalizers.toSorted().join(', ')}`,
    `check that a worker is the leader, and why it does not complete (kubectl maintenance status ${name}); finalizers of others are removed by their owners. Removing ours leaves its nodes cordoned`,
    `nodemaintenance/${name}`,
  );
}

/** Reasons for which single nodes wait, with the condition that names these nodes. */
const nodesProblems: Partial<Record<WaitingReason, { condition: string; remedy: string }>> = {
  WaitingForNodeLease: {
    condition: 'NodeLeasesHeld',
    remedy: 'wait for the holder, or look at kubectl maintenance lease list',
  },
  CordonRejected: {
    condition: 'Drained',
    remedy: 'change what rejects the cordon, such as a policy or a webhook',
  },
  NotAuthorized: {
    condition: 'NodesAuthorized',
    remedy: 'grant its requester the verb delete on the nodes, or let another user request it',
  },
};

function waitingProblem(
  maintenance: NodeMaintenance,
  { now, stuckAfterMs }: StuckTiming,
): Finding | undefined {
  const { metadata, status } = maintenance;
  const object = `nodemaintenance/${metadata.name}`;
  const messageOf = (type: string) => status?.conditions.find((one) => one.type === type)?.message ?? '';
  const sinceMs = now - stageSince(maintenance);
  const statusRemedy = `kubectl maintenance status ${metadata.name} shows what it waits for`;
  const reason = waitingReasonOf(maintenance);
  const ofNodes = reason === undefined ? undefined : nodesProblems[reason];
  if (ofNodes !== undefined) return warning(messageOf(ofNodes.condition), ofNodes.remedy, object);
  switch (reason) {
    case WaitingReason.TemporalUnavailable:
      return error(
        progressProblemOf(maintenance)?.message ?? '',
        'check Temporal, and the log of the worker; see docs/how-to/temporal-outage.md',
        object,
      );
    case WaitingReason.NotObserved:
      return sinceMs > stuckAfterMs
        ? error(
            'no worker has observed its latest change',
            'check that a worker is the leader and polls Temporal (kubectl maintenance workers)',
            object,
          )
        : undefined;
    case WaitingReason.Blocked:
      return warning(messageOf('Drained'), `resolve what blocks the pods; ${statusRemedy}`, object);
    case WaitingReason.Capacity:
      return warning(
        messageOf(CAPACITY_AVAILABLE),
        `add a node, or do what the message says; docs/concepts/node-maintenance.md explains it, and ${statusRemedy}`,
        object,
      );
    case WaitingReason.VolumesAttached:
      return sinceMs > stuckAfterMs
        ? warning(messageOf('Drained'), 'check the CSI driver, which detaches the volumes', object)
        : undefined;
    case WaitingReason.Completing:
      return sinceMs > stuckAfterMs
        ? error(
            `it has been completing for ${durationText(sinceMs)}`,
            `check that a worker is the leader; ${statusRemedy}`,
            object,
          )
        : undefined;
    default:
      return undefined;
  }
}

/** Returns when the stage began; the creation of the object if none has. */
function stageSince(maintenance: NodeMaintenance): number {
  const { metadata, status } = maintenance;
  const started = status?.stageStatuses.find(({ name }) => name === stageOf(maintenance))?.startTimestamp;
  return Date.parse(started ?? metadata.creationTimestamp ?? '');
}
