import type { Node } from '../../api/core.ts';
import type { UninstallItem } from '../../domain/uninstall/item.ts';
import type { Kube } from '../../kube/client.ts';
import { installationKinds } from '../../kube/installationKinds.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Temporal } from '../temporal.ts';

const fieldManager = 'kubectl-maintenance';
const terminationReason = 'kubectl maintenance uninstall';

const kinds: Readonly<Record<string, Resource>> = {
  ...Object.fromEntries(Object.values(resources).map((resource) => [resource.kind, resource as Resource])),
  ...installationKinds,
};

/** Carries out one item. Rejects as Invalid, Conflict or NotFound if its object was changed since it was read: the next plan decides again. */
export async function execute(
  kube: Kube,
  temporal: Temporal | undefined,
  item: UninstallItem,
): Promise<void> {
  const { action, name } = item;
  switch (action.kind) {
    case 'TerminateRun':
      await temporal
        ?.answered(() => temporal.client.workflow.getHandle(name, action.runId).terminate(terminationReason))
        .catch(ignoreMissing(temporal));
      break;
    case 'DeleteSchedule':
      await temporal
        ?.answered(() => temporal.client.schedule.getHandle(name).delete())
        .catch(ignoreMissing(temporal));
      break;
    case 'Wait':
    case 'Keep':
    case 'Blocked':
      break;
    default:
      await write(kube, item);
  }
}

async function write(kube: Kube, { kind, namespace, name, action }: UninstallItem): Promise<void> {
  const resource = kinds[kind];
  if (resource === undefined) throw new Error(`kind ${kind}: add it to kube/installationKinds.ts`);
  const key = { namespace, name };
  if (action.kind === 'Delete') {
    const { kind: _, ...options } = action;
    await kube.delete(resource, key, options);
  } else if (action.kind === 'Patch') {
    const { operations, subresource } = action;
    await kube.jsonPatch(resource, key, operations, { fieldManager, ...(subresource && { subresource }) });
  } else if (action.kind === 'RemoveConditions') {
    const { uid, manager } = action;
    const object = { metadata: { name, uid }, status: { conditions: [] } };
    const options = { fieldManager: manager, force: true, subresource: 'status' };
    await kube.apply(resources.nodes, object as unknown as Node, options);
  }
}

function ignoreMissing({ errors }: Temporal): (error: unknown) => void {
  return (error) => {
    if (error instanceof errors.WorkflowNotFoundError || error instanceof errors.ScheduleNotFoundError)
      return;
    throw error;
  };
}
