import type { KubeObject, Lease, Node, OwnerReference } from '../../api/core.ts';
import {
  ElectionLease,
  COMPONENT_LABEL,
  IdentityAnnotation,
  MAINTENANCE_GATE,
  AGENT_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  RELEASED_ANNOTATION,
  SYSTEM_NAMESPACE,
  WINDOW_LABEL,
  WORK_NAMESPACE,
} from '../../api/names.ts';
import type { Managed } from '../../domain/common/managedFields.ts';
import { leaderOf } from '../../domain/leases/processSummary.ts';
import { isOurs } from '../../domain/evacuation/evictionRequest.ts';
import type {
  InstalledDefinition,
  InstalledNamespace,
  InstalledObject,
  MarkedPod,
  TemporalFacts,
  UninstallFacts,
} from '../../domain/uninstall/facts.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Kube, Selection } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { installationKinds } from '../../kube/installationKinds.ts';
import { listIfServed } from '../../kube/served.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { installedObjects } from './installedObjects.ts';

const concurrentReads = 32;
const partOfLabel = 'app.kubernetes.io/part-of=node-maintenance';
/** Namespaces of an installation that do not depend on where it is installed. */
const otherNamespaces: readonly string[] = [AGENT_LEASE_NAMESPACE, NODE_LEASE_NAMESPACE, WORK_NAMESPACE];

/** Reads everything that node maintenance can have left in the cluster. */
export async function observeCluster(
  kube: Kube,
  namespace: string,
  temporal: TemporalFacts,
): Promise<UninstallFacts> {
  const list = <T extends KubeObject>(resource: Resource<T>, selection: Selection = {}) =>
    listIfServed(kube, resource, selection);
  const [maintenances, windows, evacuations, requests, readinesses, readinessPolicies, budgets] =
    await Promise.all([
      list(resources.nodeMaintenances),
      list(resources.maintenanceWindows),
      list(resources.evacuations),
      list(resources.evictionRequests),
      list(resources.nodeReadinesses),
      list(resources.nodeReadinessPolicies as Resource),
      list(resources.nodeDisruptionBudgets as Resource),
    ]);
  const [nodes, pods, jobs, nodeLeases, agentLeases, processLeases, election] = await Promise.all([
    list(resources.nodes) as Promise<(Node & Managed)[]>,
    markedPods(kube),
    list(resources.jobs, { namespace: WORK_NAMESPACE, labelSelector: WINDOW_LABEL }),
    list(resources.leases, { namespace: NODE_LEASE_NAMESPACE }),
    list(resources.leases, { namespace: AGENT_LEASE_NAMESPACE }),
    processLeasesOf(kube, namespace),
    kube.get(resources.leases, { namespace, name: ElectionLease.Controllers }),
  ]);
  const installed = await installedOf(kube, namespace);
  const ofKind = (kind: string) => installed.filter((one) => one.kind === kind);
  const outside = ['CustomResourceDefinition', 'Namespace'];
  return {
    now: kube.now().getTime(),
    namespace,
    leader: leaderOf(election, kube.now()),
    maintenances,
    windows,
    evacuations,
    evictionRequests: requests.filter((one) => isOurs(one)),
    readinesses,
    readinessPolicies,
    budgets,
    nodes,
    pods,
    jobs,
    nodeLeases,
    agentLeases,
    processLeases,
    installed: installed.filter(({ kind = '' }) => !outside.includes(kind)),
    definitions: ofKind('CustomResourceDefinition') as InstalledDefinition[],
    namespaces: await Promise.all(ofKind('Namespace').map((one) => withContents(kube, one))),
    temporal,
  };
}

/** Returns the namespace of the installation: the one that its objects name; if these are gone, the one that has its label, or the default one. */
export async function installedNamespace(kube: Kube): Promise<string> {
  const named = installedObjects.filter(({ namespace }) => namespace === undefined);
  const found = await existing(kube, named);
  const account = /"(?:system:serviceaccount:)([a-z0-9-]+):node-maintenance-worker/;
  const subject = /"name":"node-maintenance-worker","namespace":"([a-z0-9-]+)"/;
  for (const object of found) {
    const text = JSON.stringify(object).replaceAll("'", '"');
    const [, namespace] = account.exec(text) ?? subject.exec(text) ?? [];
    if (namespace !== undefined) return namespace;
  }
  const { items } = await kube.list(resources.namespaces, { labelSelector: partOfLabel });
  const labelled = items
    .map(({ metadata }) => metadata.name)
    .filter((name) => !otherNamespaces.includes(name));
  return labelled[0] ?? SYSTEM_NAMESPACE;
}

/** Only what remains of the pods is in memory. */
async function markedPods(kube: Kube): Promise<MarkedPod[]> {
  const marked = (pod: KubeObject) => (isMarked(pod as MarkedPod) ? (pod as MarkedPod) : undefined);
  return (await kube.listReduced(resources.pods, {}, marked)).items;
}

function isMarked({ metadata, spec }: MarkedPod): boolean {
  const isGated = spec.schedulingGates?.some(({ name }) => name === MAINTENANCE_GATE) === true;
  return isGated || metadata.annotations?.[RELEASED_ANNOTATION] !== undefined;
}

const electionLeases: readonly string[] = Object.values(ElectionLease);

async function processLeasesOf(kube: Kube, namespace: string): Promise<Lease[]> {
  const leases = await listIfServed(kube, resources.leases, { namespace });
  return leases.filter(
    ({ metadata }) =>
      electionLeases.includes(metadata.name) ||
      metadata.labels?.[COMPONENT_LABEL]?.startsWith('node-maintenance-') === true,
  );
}

/** Returns the task queue that a process of the installation polls, or polled last. */
export async function taskQueueOfWorkers(kube: Kube, namespace: string): Promise<string | undefined> {
  const leases = await processLeasesOf(kube, namespace);
  return leases.flatMap(({ metadata }) => metadata.annotations?.[IdentityAnnotation.TaskQueue] ?? [])[0];
}

async function installedOf(kube: Kube, namespace: string): Promise<InstalledObject[]> {
  const moved = installedObjects.map((key) => ({
    ...key,
    ...(key.namespace === SYSTEM_NAMESPACE && { namespace }),
    ...(key.kind === 'Namespace' && key.name === SYSTEM_NAMESPACE && { name: namespace }),
  }));
  const found = await existing(kube, [
    ...moved,
    { kind: 'Secret', namespace, name: 'node-maintenance-webhook' },
  ]);
  return [...found, ...(await configMapsOf(kube, namespace))];
}

/** Their names end with a hash of what they contain. */
async function configMapsOf(kube: Kube, namespace: string): Promise<InstalledObject[]> {
  return listIfServed(kube, kindOf('ConfigMap'), { namespace, labelSelector: partOfLabel });
}

interface Key {
  readonly kind: string;
  readonly namespace?: string;
  readonly name: string;
}

async function existing(kube: Kube, keys: readonly Key[]): Promise<InstalledObject[]> {
  const found: InstalledObject[] = [];
  await forEachBounded(concurrentReads, keys, async ({ kind, namespace, name }) => {
    const object = await getServed(kube, kindOf(kind), { namespace, name });
    if (object !== undefined) found.push({ ...object, kind });
  });
  return found;
}

async function getServed(
  kube: Kube,
  resource: Resource,
  key: { namespace: string | undefined; name: string },
): Promise<KubeObject | undefined> {
  try {
    return await kube.get(resource, key);
  } catch (error) {
    // An apiserver before 1.36 does not serve MutatingAdmissionPolicies.
    if (isKubeError(error, 'NotFound')) return undefined;
    throw error;
  }
}

function kindOf(kind: string): Resource {
  const resource = installationKinds[kind];
  if (resource === undefined) throw new Error(`kind ${kind}: add it to kube/installationKinds.ts`);
  return resource;
}

/** Kinds of what users keep in a namespace. */
const contentKinds: readonly Resource[] = [
  resources.pods as Resource,
  resources.services as Resource,
  resources.deployments as Resource,
  resources.statefulSets,
  resources.daemonSets as Resource,
  resources.replicaSets as Resource,
  resources.jobs as Resource,
  resources.leases as Resource,
  ...['ConfigMap', 'Secret', 'ServiceAccount', 'NetworkPolicy', 'Role', 'RoleBinding'].map(kindOf),
  { group: 'batch', version: 'v1', plural: 'cronjobs', kind: 'CronJob', namespaced: true },
  {
    group: '',
    version: 'v1',
    plural: 'persistentvolumeclaims',
    kind: 'PersistentVolumeClaim',
    namespaced: true,
  },
];

async function withContents(kube: Kube, namespace: InstalledObject): Promise<InstalledNamespace> {
  const lists = await Promise.all(
    contentKinds.map(async (resource) => {
      const items = await listIfServed(kube, resource, { namespace: namespace.metadata.name });
      return items.map(({ metadata }) => ({ kind: resource.kind, metadata }));
    }),
  );
  return { ...namespace, contents: lists.flat().filter((one) => !isMadeByKubernetes(one)) };
}

/** Reports whether Kubernetes created the object: the objects of its controllers are deleted with their owners. */
function isMadeByKubernetes({ kind, metadata }: InstalledNamespace['contents'][number]): boolean {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller === true);
  if (owner !== undefined && isOfKubernetes(owner)) return true;
  return (
    `${kind} ${metadata.name}` === 'ConfigMap kube-root-ca.crt' ||
    `${kind} ${metadata.name}` === 'ServiceAccount default'
  );
}

/** An owner of another vendor, such as the ExternalSecret of a Secret, is not among the kinds that are listed. */
function isOfKubernetes({ apiVersion }: OwnerReference): boolean {
  const [group = '', version] = apiVersion.split('/');
  return version === undefined || ['apps', 'batch'].includes(group) || group.endsWith('.k8s.io');
}
