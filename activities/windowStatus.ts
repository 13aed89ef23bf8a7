import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { WindowRef } from './contract.ts';
import type { Deps } from './deps.ts';

const attempts = 3;
const emptyStatus: MaintenanceWindowStatus = { conditions: [], observedGeneration: 0 };

/** The window as the apiserver has it, unless it is gone or a namesake. */
export async function readWindow(
  { cluster }: Pick<Deps, 'cluster'>,
  { name, uid }: WindowRef,
): Promise<MaintenanceWindow | undefined> {
  const found = await cluster.kube.get(resources.maintenanceWindows, { name });
  return found?.metadata.uid === uid ? found : undefined;
}

/** Applies a change to the newest status; whoever wrote meanwhile is overwritten in nothing. Does nothing when the window is gone. */
export async function updateWindowStatus(
  deps: Pick<Deps, 'cluster'>,
  ref: WindowRef,
  change: (status: MaintenanceWindowStatus) => MaintenanceWindowStatus,
): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    const window = await readWindow(deps, ref);
    if (window === undefined) return;
    const before = window.status ?? emptyStatus;
    const status = change(before);
    if (isDeepStrictEqual(status, before)) return;
    const { uid, resourceVersion } = window.metadata;
    try {
      // A field that the change left out is to go.
      const absent = Object.fromEntries(Object.keys(before).map((key) => [key, null]));
      const body = { metadata: { uid, resourceVersion }, status: { ...absent, ...whole(before, status) } };
      const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
      await deps.cluster.kube.mergePatch(resources.maintenanceWindows, { name: ref.name }, body, options);
      return;
    } catch (error) {
      if (isKubeError(error, 'NotFound')) return;
      if (!isKubeError(error, 'Conflict') || attempt === attempts) throw error;
    }
  }
}

/** Of the window that is open, what it waits for may go. */
function whole(before: MaintenanceWindowStatus, { active, ...status }: MaintenanceWindowStatus): object {
  if (active === undefined) return status;
  const forgets = before.active?.waiting !== undefined && active.waiting === undefined;
  return { ...status, active: { ...active, ...(forgets && { waiting: null }) } };
}
