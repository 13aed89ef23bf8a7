import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Client } from '@temporalio/client';
import {
  AGENT_LEASE_NAMESPACE,
  KUBELET_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  SYSTEM_NAMESPACE,
} from '../../api/names.ts';
import { TASK_QUEUE } from './temporalNames.ts';
import type { KubeObject } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { Kube } from '../../kube/client.ts';
import { type ObjectKey, type Resource, resources } from '../../kube/resources.ts';
import { listIfServed } from '../../kube/served.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventuallyHolds } from './eventually.ts';
import { resetRegistration } from './registration.ts';
import * as kinds from './resources.ts';

/** Kinds of which an installed sandbox has no objects. Owners come before what they own. */
const transientKinds: readonly Resource[] = [
  resources.maintenanceWindows,
  resources.nodeMaintenances,
  resources.nodeReadinessPolicies,
  resources.nodeReadinesses,
  resources.nodeDisruptionBudgets,
  resources.evacuations,
  resources.evictionRequests,
  resources.evictions,
  kinds.deployments,
  kinds.daemonSets,
  resources.statefulSets,
  kinds.replicaSets,
  resources.jobs,
  resources.pods,
  resources.podDisruptionBudgets,
  resources.volumeAttachments,
  resources.persistentVolumeClaims,
  resources.persistentVolumes,
  resources.leases,
] as Resource[];

/** Kinds of which the sandbox and deploy/ install some objects. */
const installedKinds: readonly Resource[] = [
  kinds.validatingWebhooks,
  kinds.mutatingWebhooks,
  kinds.policyBindings,
  kinds.policies,
  kinds.services,
  kinds.serviceAccounts,
  kinds.clusterRoleBindings,
  kinds.clusterRoles,
  kinds.priorityClasses,
] as Resource[];

/** Nodes that every test file finds in a shared sandbox. */
const sharedNodes = ['node-1', 'node-2', 'node-3'];

/** The installed objects of a sandbox. */
export type Snapshot = ReadonlySet<string>;

/** Deletes what earlier test files left, such as the Leases of workers that they killed, and lists what is installed. */
export async function snapshot(kube: Kube): Promise<Snapshot> {
  await removeAll(kube, transientKinds);
  // Deleted namespaces take 5 s to be gone, and nobody uses their names again.
  await eventuallyHolds('deleted pods to be gone', () => terminatingPods(kube), isEmpty);
  const kept = [...installedKinds, resources.namespaces];
  const all = await Promise.all(kept.map((kind) => objectsOf(kube, kind)));
  return new Set(all.flat().map(({ id }) => id));
}

async function terminatingPods(kube: Kube): Promise<string[]> {
  const { items } = await kube.list(resources.pods as Resource);
  return items.filter(isTerminating).map(({ metadata }) => metadata.name);
}

const isTerminating = ({ metadata }: KubeObject) => metadata.deletionTimestamp !== undefined;
const isEmpty = (names: readonly string[]) => names.length === 0;

/** Gives a shared sandbox exactly these nodes, which nothing has touched. */
export async function replaceNodes(sandbox: Sandbox, kube: Kube, names: readonly string[]): Promise<void> {
  const { items } = await kube.list(resources.nodes as Resource);
  const unwanted = items.filter(({ metadata }) => !names.includes(metadata.name));
  for (const { metadata } of unwanted) await removeNode(kube, metadata.name);
  if (names.length > 0) await sandbox.addNodes([...names]);
}

/** Deletes its Lease too: one that outlives it is collected under the next node of the name. */
async function removeNode(kube: Kube, name: string): Promise<void> {
  await remove(kube, resources.nodes as Resource, { name });
  await remove(kube, resources.leases as Resource, { namespace: KUBELET_LEASE_NAMESPACE, name });
}

/** Deletes everything that was not installed at the snapshot, and all runs and Schedules of the worker. */
export async function restore(
  sandbox: Sandbox,
  kube: Kube,
  temporal: Client,
  before: Snapshot,
): Promise<void> {
  // Temporal needs seconds to delete runs, and Kubernetes to begin with the objects of a namespace.
  await Promise.all([
    clearTemporal(temporal),
    removeAll(kube, [resources.namespaces], before),
    removeAll(kube, transientKinds),
  ]);
  await removeAll(kube, installedKinds, before);
  await resetRegistration(kube);
  // They keep labels, taints, conditions and Leases of the tests, even under their own names.
  await replaceNodes(sandbox, kube, []);
  await sandbox.addNodes(sharedNodes);
  for (const namespace of ['default', SYSTEM_NAMESPACE]) await clearEvents(sandbox, namespace);
}

/** Deletes the objects of these kinds, but for those that are to stay, until none is left. */
async function removeAll(kube: Kube, of: readonly Resource[], staying: Snapshot = new Set()): Promise<void> {
  await eventuallyHolds(
    'everything that the tests made to be gone',
    async () => {
      const left: string[] = [];
      for (const kind of of) left.push(...(await removeOnce(kube, kind, staying)));
      return left;
    },
    isEmpty,
  );
}

/** Returns what it had to delete. */
async function removeOnce(kube: Kube, kind: Resource, staying: Snapshot): Promise<string[]> {
  const objects = await objectsOf(kube, kind);
  const made = objects.filter(({ id, object }) => !staying.has(id) && isOfTests(object));
  await Promise.all(made.map(({ object }) => remove(kube, kind, object.metadata)));
  return made.map(({ id }) => id);
}

async function objectsOf(kube: Kube, kind: Resource): Promise<{ id: string; object: KubeObject }[]> {
  const items = await listIfServed(kube, kind);
  return items.map((object) => ({ id: `${kind.plural} ${object.metadata.uid}`, object }));
}

/** Kubernetes makes some objects by itself, such as the Leases of kubelets and the default ServiceAccounts. */
function isOfTests({ metadata: { namespace } }: KubeObject): boolean {
  const ours: readonly string[] = [NODE_LEASE_NAMESPACE, AGENT_LEASE_NAMESPACE];
  return namespace === undefined || !namespace.startsWith('kube-') || ours.includes(namespace);
}

/** Deletes an object, whatever holds it. One that is gone or changed already is left to the next attempt. */
export async function remove(kube: Kube, resource: Resource, key: ObjectKey): Promise<void> {
  const found = await kube.get(resource, key);
  const finalizers = found?.metadata.finalizers ?? [];
  const isPod = resource.plural === 'pods';
  if (found === undefined || (isTerminating(found) && finalizers.length === 0 && !isPod)) return;
  try {
    if ((found as Evacuation).status?.evacuationCancellationPolicy === 'Forbid')
      await allowCancellation(kube, resource, key);
    if (finalizers.length > 0) await kube.mergePatch(resource, key, { metadata: { finalizers: [] } });
    const uid = found.metadata.uid ?? '';
    await kube.delete(resource, key, { uid, ...(isPod && { gracePeriodSeconds: 0 }) });
  } catch (error) {
    if ((await kube.get(resource, key))?.metadata.uid === found.metadata.uid) throw error;
  }
}

async function allowCancellation(kube: Kube, resource: Resource, key: ObjectKey): Promise<void> {
  const status = { evacuationCancellationPolicy: 'Allow' };
  await kube.mergePatch(resource, key, { status }, { subresource: 'status' });
}

/** Deletes the Schedules and runs of all workers, whatever their cluster, so that no name of them is taken or found. */
async function clearTemporal({ schedule, workflow, workflowService, options }: Client): Promise<void> {
  const { namespace } = options;
  for await (const { scheduleId } of schedule.list()) await schedule.getHandle(scheduleId).delete();
  const query = `TaskQueue STARTS_WITH "${TASK_QUEUE}"`;
  await eventuallyHolds(
    'all runs to be deleted',
    async () => {
      const left: string[] = [];
      for await (const { workflowId, runId } of workflow.list({ query })) {
        left.push(workflowId);
        const workflowExecution = { workflowId, runId };
        await workflowService
          .deleteWorkflowExecution({ namespace, workflowExecution })
          .catch(() => undefined);
      }
      return left;
    },
    isEmpty,
  );
}

/** Deletes them with one request: a test finds Events by the name of an object, which others may have had. */
async function clearEvents({ bin, env, dir }: Sandbox, namespace: string): Promise<void> {
  const args = ['delete', '--raw', `/api/v1/namespaces/${namespace}/events`];
  const options = { env: { ...env, HOME: dir }, maxBuffer: 256 * 1024 * 1024 };
  await promisify(execFile)(join(bin, 'kubectl'), args, options);
}
