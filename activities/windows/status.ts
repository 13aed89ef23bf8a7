import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow, MaintenanceWindowStatus } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { isRecord } from '../../domain/common/untrusted.ts';
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
    const body = { metadata: { uid, resourceVersion }, status: mergePatchOf(before, status) };
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    await deps.cluster.kube
      .mergePatch(resources.maintenanceWindows, { name: ref.name }, body, options)
      .catch(ignoreNotFound);
  });
}

/** Returns the merge patch that replaces one object by another, at any depth: it removes a field only if it is null. */
function mergePatchOf(before: unknown, after: object): object {
  const removed = isRecord(before) ? Object.keys(before).map((key) => [key, null] as const) : [];
  const kept = Object.entries(after).map(([key, value]: [string, unknown]) => {
    const previous = isRecord(before) ? before[key] : undefined;
    return [key, isRecord(value) ? mergePatchOf(previous, value) : value] as const;
  });
  return Object.fromEntries([...removed, ...kept]);
}
