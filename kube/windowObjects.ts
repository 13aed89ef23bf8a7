import type { Job } from '../api/core.ts';
import { FIELD_MANAGER, WORK_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Kube } from './client.ts';
import type { Cluster } from './cluster.ts';
import { resources } from './resources.ts';

/** Identifies the Job of a NodeMaintenance. A Job of this name with another owner is not its Job. */
interface WorkJobRef {
  name: string;
  ownerUid: string;
}

/** Returns the Job of a NodeMaintenance, if it may have one, from the informer, which may not have the newest version. */
export function cachedWorkJob({ jobs }: Pick<Cluster, 'jobs'>, ref: WorkJobRef | undefined): Job | undefined {
  return ref && ownedJob(jobs.get(`${WORK_NAMESPACE}/${ref.name}`), ref);
}

/** Reads the Job of a NodeMaintenance, if it may have one, from the apiserver. */
export async function readWorkJob(kube: Kube, ref: WorkJobRef | undefined): Promise<Job | undefined> {
  if (ref === undefined) return undefined;
  return ownedJob(await kube.get(resources.jobs, { namespace: WORK_NAMESPACE, name: ref.name }), ref);
}

function ownedJob(job: Job | undefined, { ownerUid }: WorkJobRef): Job | undefined {
  return job?.metadata.ownerReferences?.some(({ uid }) => uid === ownerUid) === true ? job : undefined;
}

export async function createWorkJob(kube: Kube, job: Job): Promise<void> {
  await kube.create(resources.jobs, job, { fieldManager: FIELD_MANAGER });
}

/** Deletes a Job after its pods, so that the node is not uncordoned while they run. */
export async function deleteWorkJob(kube: Kube, { metadata }: Job): Promise<void> {
  const { name, namespace, uid = '' } = metadata;
  await kube.delete(resources.jobs, { namespace, name }, { uid, propagationPolicy: 'Foreground' });
}

export async function deleteWindowMaintenance(kube: Kube, { metadata }: NodeMaintenance): Promise<void> {
  const { name, uid = '' } = metadata;
  await kube.delete(resources.nodeMaintenances, { name }, { uid, propagationPolicy: 'Background' });
}

/** Sets annotations of a NodeMaintenance, and removes those that are null. */
export async function annotateWindowMaintenance(
  kube: Kube,
  { metadata: { name, uid } }: NodeMaintenance,
  annotations: Record<string, string | null>,
  fieldManager: string = FIELD_MANAGER,
): Promise<void> {
  const body = { metadata: { uid, annotations } };
  await kube.mergePatch(resources.nodeMaintenances, { name }, body, { fieldManager });
}
