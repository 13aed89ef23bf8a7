import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import { type ConditionFacts, withCondition } from '../domain/conditions.ts';
import { describeSchedule, nextOpening } from '../domain/windowSchedule.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';

/** Shows on a window what is known of it, and when it opens next, if it does. The rest of its status is the activities'. */
export async function showWindow(
  kube: Kube,
  { metadata, spec, status }: MaintenanceWindow,
  facts: readonly ConditionFacts[],
): Promise<void> {
  const { name, uid, generation = 0 } = metadata;
  const now = kube.now();
  const conditions = facts.reduce(
    (all, one) => withCondition(all, { ...one, observedGeneration: generation }, now.toISOString()),
    status?.conditions ?? [],
  );
  const opens = facts.some((one) => one.type === 'Scheduled' && one.status === 'True');
  const next = opens ? nextOpening(spec.schedule, now.getTime()) : undefined;
  const said: Partial<MaintenanceWindowStatus> = {
    conditions,
    observedGeneration: generation,
    schedule: describeSchedule(spec.schedule).slice(0, 256),
    ...(next !== undefined && { nextTime: new Date(next).toISOString() }),
  };
  const { active: _active, progress: _progress, ...before } = status ?? {};
  if (isDeepStrictEqual(said, before)) return;
  // Of the conditions we are the only writer.
  const body = { metadata: { uid }, status: { ...said, ...(next === undefined && { nextTime: null }) } };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube.mergePatch(resources.maintenanceWindows, { name }, body, options).catch(unlessGone);
}

function unlessGone(error: unknown): undefined {
  if (!isKubeError(error, 'NotFound')) throw error;
}
