import type { KubeObject } from '../api/core.ts';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { FIELD_MANAGER, WORK_NAMESPACE } from '../api/names.ts';
import { newTurn } from '../api/windowTurn.ts';
import { completeDrainPlan } from '../domain/drainPlan.ts';
import { revisionOf, turnName } from '../domain/revision.ts';
import { scheduleProblems } from '../domain/windowSchedule.ts';
import { workJobSpec } from '../domain/workJob.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError, isRefusal, wordsOf } from '../kube/errors.ts';
import { type Resource, resources } from '../kube/resources.ts';

/** In the place of the nodes that will have their turn. */
const noNode = { name: 'no-node', uid: 'none' };

/** Why a window cannot open as it is: sentences that begin with the field. What it would create, the apiserver is asked about. */
export async function windowProblems(kube: Kube, window: MaintenanceWindow): Promise<string[]> {
  const turn = await refusalOf(kube, resources.nodeMaintenances, sampleTurn(window));
  const job = await refusalOf(kube, resources.jobs, sampleJob(window));
  return [
    ...scheduleProblems(window.spec.schedule, kube.now().getTime()),
    ...(turn === undefined ? [] : [`template: the apiserver refuses its NodeMaintenance, ${turn}`]),
    ...(job === undefined ? [] : [`work.job.template: the apiserver refuses its Job, ${job}`]),
  ];
}

function sampleTurn(window: MaintenanceWindow): KubeObject {
  const revision = revisionOf(window.spec);
  return newTurn(window, {
    name: turnName(window.metadata.name, revision, noNode.name),
    revision,
    drainPlan: completeDrainPlan(window.spec.template.drainPlan),
    node: noNode,
  });
}

function sampleJob({ spec: { work } }: MaintenanceWindow): KubeObject | undefined {
  if (work.job === undefined) return undefined;
  const metadata = { name: 'work-on-no-node', namespace: WORK_NAMESPACE };
  return { metadata, spec: workJobSpec(work.job, noNode.name) } as KubeObject;
}

/** The words with which the apiserver would refuse to create an object. */
async function refusalOf(
  kube: Kube,
  resource: Resource,
  object: KubeObject | undefined,
): Promise<string | undefined> {
  if (object === undefined) return undefined;
  try {
    await kube.create(resource, object, { fieldManager: FIELD_MANAGER, dryRun: true });
    return undefined;
  } catch (error) {
    // Not found: its namespace.
    if (isKubeError(error, 'Invalid', 'Forbidden', 'NotFound', 'NamespaceTerminating')) return wordsOf(error);
    // A webhook that is down tells nothing about the window, which is looked at again.
    if (isRefusal(error)) return undefined;
    throw error;
  }
}
