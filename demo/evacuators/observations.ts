import type { Deployment, EndpointSlice, KubeObject, Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { MAINTENANCE_GATE } from '../../api/names.ts';
import { Informer } from '../../kube/informer.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { appOf } from '../recording.ts';
import type { Environment } from '../environment.ts';
import { type ConfigMap, configMaps, ledger, nodeAgent, queue, queueRelaxed, shop } from './fixtures.ts';
import { newDisk } from './migration.ts';

/** Revision of etcd, see recording.ts. */
type Revision = bigint;

/** The message of one version of an Evacuation. */
export interface MessageVersion {
  app: string;
  message: string;
  /** RFC 3339. */
  expectedFinish: string | undefined;
  revision: Revision;
}

export interface Termination {
  app: string;
  podUid: string;
  /** Revision of the first version with a deletionTimestamp, or of the deletion. */
  revision: Revision;
}

/** One version of a DaemonSet pod. */
export interface AgentVersion {
  pod: string;
  podUid: string;
  /** The node that the pod runs on or, while it is gated, that it was created for. */
  node: string;
  isGated: boolean;
  isReady: boolean;
  revision: Revision;
}

/** The changes that the watches of the demo observed. The facts are verified with these, independently of the demo's own actions. */
export interface Observations {
  /** UIDs of the ready endpoints of the shop Service after every change of its EndpointSlices. */
  endpoints: readonly (readonly string[])[];
  /** Every version of the shop Deployment. */
  deployments: readonly { replicas: number | undefined; generation: number | undefined }[];
  /** Number of records in every version of the new disk of the ledger. */
  copied: readonly { records: number; revision: Revision }[];
  messageVersions: readonly MessageVersion[];
  terminations: readonly Termination[];
  agents: readonly AgentVersion[];
  /** Returns the revision at which the budget of the queue was relaxed. */
  relaxedAt(): Revision | undefined;
  /** UID of a pod -> its node. */
  nodes: ReadonlyMap<string, string>;
}

/** Starts watches that run until the end of the demo. */
export async function recordObservations(environment: Environment): Promise<Observations> {
  const { cluster } = environment;
  const deployments: Observations['deployments'][number][] = [];
  const copied: Observations['copied'][number][] = [];
  const messageVersions: MessageVersion[] = [];
  let relaxedAt: Revision | undefined;

  await follow<Deployment>(environment, resources.deployments, shop.namespace, ({ metadata, spec }) => {
    if (metadata.name !== shop.name) return;
    deployments.push({ replicas: spec.replicas, generation: metadata.generation });
  });
  await follow<ConfigMap>(environment, configMaps, ledger.namespace, (disk) => {
    if (disk.metadata.name !== newDisk) return;
    copied.push({ records: Object.keys(disk.data ?? {}).length, revision: revisionOf(disk) });
  });
  const pods = observePods(environment);
  environment.undo.push(
    async () => pods.stop(),
    stopping(
      cluster.evacuations.subscribe(({ type, object }) => {
        if (type !== 'Deleted') messageVersions.push(messageVersionOf(object));
      }),
    ),
    stopping(
      cluster.budgets.subscribe(({ object }) => {
        if (isRelaxed(object)) relaxedAt ??= revisionOf(object);
      }),
    ),
  );
  return {
    endpoints: await observeEndpoints(environment),
    deployments,
    copied,
    messageVersions,
    ...pods,
    relaxedAt: () => relaxedAt,
  };
}

function stopping(unsubscribe: () => void): () => Promise<void> {
  return async () => unsubscribe();
}

/** Calls a function for every version of every object in a namespace. */
async function follow<T extends KubeObject>(
  { kube, log, undo }: Environment,
  resource: Resource<T>,
  namespace: string,
  onChange: (object: Readonly<T>, isDeleted: boolean) => void,
): Promise<void> {
  const informer = new Informer<T>({ kube, log, resource, namespace });
  const over = new AbortController();
  undo.push(async () => over.abort());
  informer.subscribe(({ type, object }) => onChange(object, type === 'Deleted'));
  informer.start(over.signal);
  await informer.synced(over.signal);
}

async function observeEndpoints(environment: Environment): Promise<string[][]> {
  const actual: string[][] = [];
  const slices = new Map<string, string[]>();
  await follow<EndpointSlice>(environment, resources.endpointSlices, shop.namespace, (slice, isDeleted) => {
    const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
    const uids = ready.flatMap(({ targetRef }) => targetRef?.uid ?? []);
    slices.set(slice.metadata.name, isDeleted ? [] : uids);
    actual.push([...slices.values()].flat().toSorted());
  });
  return actual;
}

function observePods({ cluster }: Environment): Pick<Observations, 'terminations' | 'agents' | 'nodes'> & {
  stop: () => void;
} {
  const terminations: Termination[] = [];
  const agents: AgentVersion[] = [];
  const nodes = new Map<string, string>();
  const terminating = new Set<string>();
  const stop = cluster.pods.subscribe(({ type, object: pod }) => {
    const { uid = '', deletionTimestamp } = pod.metadata;
    const app = appOf(pod);
    if (pod.spec.nodeName !== undefined) nodes.set(uid, pod.spec.nodeName);
    if ((type === 'Deleted' || deletionTimestamp !== undefined) && !terminating.has(uid)) {
      terminating.add(uid);
      terminations.push({ app, podUid: uid, revision: revisionOf(pod) });
    }
    if (app === nodeAgent.name && type !== 'Deleted') agents.push(agentVersion(pod));
  });
  return { terminations, agents, nodes, stop };
}

function agentVersion(pod: Readonly<Pod>): AgentVersion {
  const { nodeName, madeForNode = '', schedulingGates = [] } = pod.spec;
  return {
    pod: pod.metadata.name,
    podUid: pod.metadata.uid ?? '',
    node: nodeName ?? madeForNode,
    isGated: schedulingGates.includes(MAINTENANCE_GATE),
    isReady: pod.status.ready,
    revision: revisionOf(pod),
  };
}

function messageVersionOf(evacuation: Readonly<Evacuation>): MessageVersion {
  const { metadata, status } = evacuation;
  return {
    // The Evacuation has the labels of the pod.
    app: metadata.labels?.['app'] ?? '',
    message: status?.message ?? '',
    expectedFinish: status?.expectedEvacuationFinishTime,
    revision: revisionOf(evacuation),
  };
}

function isRelaxed({ metadata, spec }: Readonly<PodDisruptionBudget>): boolean {
  return metadata.name === queue.name && spec.minAvailable === queueRelaxed;
}

function revisionOf({ metadata }: Readonly<KubeObject>): Revision {
  return BigInt(metadata.resourceVersion ?? '0');
}
