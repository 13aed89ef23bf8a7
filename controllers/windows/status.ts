import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { oneLine } from '../../domain/common/text.ts';
import { describeSchedule, nextOpening } from '../../domain/windows/schedule.ts';
import type { Kube } from '../../kube/client.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';

const maxScheduleLength = 256;

/** Writes the conditions of a window and its next opening to its status. The activities own the other fields. */
export async function publishWindowStatus(
  kube: Kube,
  { metadata, spec, status }: MaintenanceWindow,
  facts: readonly ConditionFacts[],
  now: Date = kube.now(),
): Promise<void> {
  const { name, uid, generation = 0 } = metadata;
  const conditions = facts.reduce(
    (all, one) => withCondition(all, { ...one, observedGeneration: generation }, now.toISOString()),
    status?.conditions ?? [],
  );
  const isScheduled = facts.some((one) => one.type === 'Scheduled' && one.status === 'True');
  const next = isScheduled ? nextOpening(spec.schedule, now.getTime()) : undefined;
  const desired: Partial<MaintenanceWindowStatus> = {
    conditions,
    observedGeneration: generation,
    schedule: oneLine(describeSchedule(spec.schedule), maxScheduleLength),
    ...(next !== undefined && { nextTime: new Date(next).toISOString() }),
  };
  const { active: _active, progress: _progress, ...before } = status ?? {};
  if (isDeepStrictEqual(desired, before)) return;
  // Without a resourceVersion, because no one else writes these fields.
  const body = { metadata: { uid }, status: { ...desired, ...(next === undefined && { nextTime: null }) } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(ignoreNotFound);
}
