import type { Job } from '../api/core.ts';
import { FIELD_MANAGER, WINDOW_LABEL, WindowAnnotation, WORK_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { Kube } from './client.ts';
import type { Cluster } from './cluster.ts';
import { isKubeError, type KubeError } from './errors.ts';
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

/** Reads a NodeMaintenance again. Resolves with undefined if it is gone, or another object has its name. */
export async function readWindowMaintenance(
  kube: Kube,
  { metadata: { name, uid } }: NodeMaintenance,
): Promise<NodeMaintenance | undefined> {
  const newest = await kube.get(resources.nodeMaintenances, { name });
  return newest?.metadata.uid === uid ? newest : undefined;
}

/** Reads the NodeMaintenances of these windows from the apiserver; those of all windows unless they are given. */
export async function readWindowMaintenances(
  kube: Kube,
  windows?: Iterable<string>,
): Promise<NodeMaintenance[]> {
  const labelSelector =
    windows === undefined ? WINDOW_LABEL : `${WINDOW_LABEL} in (${[...windows].join(',')})`;
  const { items } = await kube.list(resources.nodeMaintenances, { labelSelector });
  return items;
}

/** Another object has the name. */
interface Taken {
  readonly by: NodeMaintenance;
  /** The error of the apiserver, AlreadyExists. */
  readonly error: KubeError;
}

/**
 * Creates the NodeMaintenance of a window. Resolves with the object that has its name, if no window has created that. One whose label was removed may
 * have maintained the node: it is reported.
 */
export async function createWindowMaintenance(
  kube: Kube,
  maintenance: NodeMaintenance,
): Promise<Taken | undefined> {
  const { name, labels } = maintenance.metadata;
  try {
    await kube.create(resources.nodeMaintenances, maintenance, { fieldManager: FIELD_MANAGER });
    return undefined;
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
    const by = await kube.get(resources.nodeMaintenances, { name });
    if (by === undefined || by.metadata.labels?.[WINDOW_LABEL] === labels?.[WINDOW_LABEL]) return undefined;
    if (by.metadata.annotations?.[WindowAnnotation.Node] !== undefined) throw error;
    return { by, error };
  }
}

/** Sets a NodeMaintenance to Complete, which uncordons its node. Keeps the record of who requested the maintenance. */
export async function completeWindowMaintenance(
  kube: Kube,
  { metadata: { name, uid } }: NodeMaintenance,
): Promise<void> {
  const body = { metadata: { uid }, spec: { stage: 'Complete' } };
  await kube.mergePatch(resources.nodeMaintenances, { name }, body, { fieldManager: FIELD_MANAGER });
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
