import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { retryOnConflict } from '../../kube/retryOnConflict.ts';
import type { WindowRef } from '../contract.ts';
import type { Deps } from '../deps.ts';

const attempts = 3;
const emptyStatus: MaintenanceWindowStatus = { conditions: [], observedGeneration: 0 };

/** Reads a window from the apiserver. Returns undefined if it was deleted or recreated. */
export async function readWindow(
  { cluster }: Pick<Deps, 'cluster'>,
  { name, uid }: WindowRef,
): Promise<MaintenanceWindow | undefined> {
  const found = await cluster.kube.get(resources.maintenanceWindows, { name });
  return found?.metadata.uid === uid ? found : undefined;
}

/** Applies a change to the newest status, and retries on conflicts. Does nothing if the window was deleted. */
export async function updateWindowStatus(
  deps: Pick<Deps, 'cluster'>,
  ref: WindowRef,
  change: (status: MaintenanceWindowStatus) => MaintenanceWindowStatus,
): Promise<void> {
  await retryOnConflict(attempts, async () => {
    const window = await readWindow(deps, ref);
    if (window === undefined) return;
    const before = window.status ?? emptyStatus;
    const status = change(before);
    if (isDeepStrictEqual(status, before)) return;
    const { uid, resourceVersion } = window.metadata;
    // A merge patch removes a field only if it is null.
    const removed = Object.fromEntries(Object.keys(before).map((key) => [key, null]));
    const body = {
      metadata: { uid, resourceVersion },
      status: { ...removed, ...withRemovedFields(before, status) },
    };
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    await deps.cluster.kube
      .mergePatch(resources.maintenanceWindows, { name: ref.name }, body, options)
      .catch(ignoreNotFound);
  });
}

/** Removes `active.waiting` and fields of `progress` as well, if the change removed them. */
function withRemovedFields(
  before: MaintenanceWindowStatus,
  { active, progress, ...others }: MaintenanceWindowStatus,
): object {
  const status = { ...others, ...(progress && { progress: withNulls(before.progress, progress) }) };
  if (active === undefined) return status;
  const isRemoved = before.active?.waiting !== undefined && active.waiting === undefined;
  return { ...status, active: { ...active, ...(isRemoved && { waiting: null }) } };
}

/** Returns the body of a merge patch that replaces an object. */
function withNulls(before: object | undefined, after: object): object {
  return { ...Object.fromEntries(Object.keys(before ?? {}).map((key) => [key, null])), ...after };
}
