import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { oneLine } from '../../domain/common/text.ts';
import { scheduleOf } from '../../domain/windows/overrides.ts';
import { describeSchedule, nextOpening } from '../../domain/windows/schedule.ts';
import type { Kube } from '../../kube/client.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';

const maxScheduleLength = 256;

/** Writes the conditions of a window and its next opening to its status. The activities own the other fields. */
export async function publishWindowStatus(
  kube: Kube,
  window: MaintenanceWindow,
  facts: readonly ConditionFacts[],
  now: Date = kube.now(),
): Promise<void> {
  const { metadata, spec } = window;
  const { name, uid } = metadata;
  if (isUpToDate(window, statusOf(window, facts, now))) return;
  // The informer may not show yet what was written last: other conditions would be lost.
  const newest = await kube.get(resources.maintenanceWindows, { name });
  if (newest === undefined || newest.metadata.uid !== uid) return;
  const desired = statusOf({ ...newest, metadata, spec }, facts, now);
  if (isUpToDate(newest, desired)) return;
  // Without a resourceVersion, because no one else writes these fields.
  const body = { metadata: { uid }, status: { nextTime: null, ...desired } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(ignoreNotFound);
}

function statusOf(
  window: MaintenanceWindow,
  facts: readonly ConditionFacts[],
  now: Date,
): Partial<MaintenanceWindowStatus> {
  const { metadata, spec, status } = window;
  const { generation = 0 } = metadata;
  const conditions = facts.reduce(
    (all, one) => withCondition(all, { ...one, observedGeneration: generation }, now.toISOString()),
    status?.conditions ?? [],
  );
  const isScheduled = facts.some((one) => one.type === 'Scheduled' && one.status === 'True');
  const next = isScheduled ? nextOpening(scheduleOf(window), now.getTime()) : undefined;
  return {
    conditions,
    observedGeneration: generation,
    schedule: oneLine(describeSchedule(spec.schedule), maxScheduleLength),
    ...(next !== undefined && { nextTime: new Date(next).toISOString() }),
  };
}

function isUpToDate({ status }: MaintenanceWindow, desired: Partial<MaintenanceWindowStatus>): boolean {
  const { active: _active, progress: _progress, lastClosed: _lastClosed, ...before } = status ?? {};
  return isDeepStrictEqual(desired, before);
}
