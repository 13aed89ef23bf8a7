import type { Deployment, EndpointSlice, KubeObject, Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { MAINTENANCE_GATE } from '../../api/names.ts';
import { Informer } from '../../kube/informer.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { appOf } from '../recording.ts';
import type { Setting } from '../setting.ts';
import { type ConfigMap, configMaps, ledger, nodeAgent, queue, queueRelaxed, shop } from './cast.ts';
import { newDisk } from './migration.ts';

/** By etcd's own clock, see recording.ts. */
type Revision = bigint;

/** What an Evacuation said in one of its versions. */
export interface Saying {
  app: string;
  message: string;
  /** RFC 3339 */
  expectedFinish: string | undefined;
  revision: Revision;
}

export interface Leaving {
  app: string;
  podUid: string;
  /** Of the first version with a deletionTimestamp, or of the deletion. */
  revision: Revision;
}

/** A pod of the DaemonSet in one of its versions. */
export interface AgentVersion {
  pod: string;
  podUid: string;
  /** Where it runs; of one that is held, the node that it is made for. */
  node: string;
  isHeld: boolean;
  isReady: boolean;
  revision: Revision;
}

/**
 * What the API showed while the story went on, written down by watches of the demo's own. The proof reads this, and nothing
 * that the story did itself.
 */
export interface Sightings {
  /** UIDs of the ready endpoints of the shop's Service, each time one of its EndpointSlices changed. */
  endpoints: readonly (readonly string[])[];
  /** Every version of the shop's Deployment. */
  deployments: readonly { replicas: number | undefined; generation: number | undefined }[];
  /** How many records the ledger's new disk has, in each of its versions. */
  copied: readonly { records: number; revision: Revision }[];
  sayings: readonly Saying[];
  leavings: readonly Leaving[];
  agents: readonly AgentVersion[];
  /** When the queue's budget began to let something go. */
  relaxedAt(): Revision | undefined;
  /** UID of a pod -> its node. */
  nodes: ReadonlyMap<string, string>;
}

/** Watches until the demo is over. */
export async function watchSightings(setting: Setting): Promise<Sightings> {
  const { cluster } = setting;
  const deployments: Sightings['deployments'][number][] = [];
  const copied: Sightings['copied'][number][] = [];
  const sayings: Saying[] = [];
  let relaxedAt: Revision | undefined;

  await follow<Deployment>(setting, resources.deployments, shop.namespace, ({ metadata, spec }) => {
    if (metadata.name !== shop.name) return;
    deployments.push({ replicas: spec.replicas, generation: metadata.generation });
  });
  await follow<ConfigMap>(setting, configMaps, ledger.namespace, (disk) => {
    if (disk.metadata.name !== newDisk) return;
    copied.push({ records: Object.keys(disk.data ?? {}).length, revision: revisionOf(disk) });
  });
  const pods = seePods(setting);
  setting.undo.push(
    async () => pods.stop(),
    stopping(
      cluster.evacuations.subscribe(({ type, object }) => {
        if (type !== 'Deleted') sayings.push(sayingOf(object));
      }),
    ),
    stopping(
      cluster.budgets.subscribe(({ object }) => {
        if (isRelaxed(object)) relaxedAt ??= revisionOf(object);
      }),
    ),
  );
  return {
    endpoints: await seeEndpoints(setting),
    deployments,
    copied,
    sayings,
    ...pods,
    relaxedAt: () => relaxedAt,
  };
}

function stopping(unsubscribe: () => void): () => Promise<void> {
  return async () => unsubscribe();
}

/** Tells of every version of every object of a namespace. */
async function follow<T extends KubeObject>(
  { kube, log, undo }: Setting,
  resource: Resource<T>,
  namespace: string,
  tell: (object: Readonly<T>, isGone: boolean) => void,
): Promise<void> {
  const informer = new Informer<T>({ kube, log, resource, namespace });
  const over = new AbortController();
  undo.push(async () => over.abort());
  informer.subscribe(({ type, object }) => tell(object, type === 'Deleted'));
  informer.start(over.signal);
  await informer.synced(over.signal);
}

async function seeEndpoints(setting: Setting): Promise<string[][]> {
  const seen: string[][] = [];
  const slices = new Map<string, string[]>();
  await follow<EndpointSlice>(setting, resources.endpointSlices, shop.namespace, (slice, isGone) => {
    const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
    const uids = ready.flatMap(({ targetRef }) => targetRef?.uid ?? []);
    slices.set(slice.metadata.name, isGone ? [] : uids);
    seen.push([...slices.values()].flat().toSorted());
  });
  return seen;
}

function seePods({ cluster }: Setting): Pick<Sightings, 'leavings' | 'agents' | 'nodes'> & {
  stop: () => void;
} {
  const leavings: Leaving[] = [];
  const agents: AgentVersion[] = [];
  const nodes = new Map<string, string>();
  const leaves = new Set<string>();
  const stop = cluster.pods.subscribe(({ type, object: pod }) => {
    const { uid = '', deletionTimestamp } = pod.metadata;
    const app = appOf(pod);
    if (pod.spec.nodeName !== undefined) nodes.set(uid, pod.spec.nodeName);
    if ((type === 'Deleted' || deletionTimestamp !== undefined) && !leaves.has(uid)) {
      leaves.add(uid);
      leavings.push({ app, podUid: uid, revision: revisionOf(pod) });
    }
    if (app === nodeAgent.name && type !== 'Deleted') agents.push(agentVersion(pod));
  });
  return { leavings, agents, nodes, stop };
}

function agentVersion(pod: Readonly<Pod>): AgentVersion {
  const { nodeName, madeForNode = '', schedulingGates = [] } = pod.spec;
  return {
    pod: pod.metadata.name,
    podUid: pod.metadata.uid ?? '',
    node: nodeName ?? madeForNode,
    isHeld: schedulingGates.includes(MAINTENANCE_GATE),
    isReady: pod.status.ready,
    revision: revisionOf(pod),
  };
}

function sayingOf(evacuation: Readonly<Evacuation>): Saying {
  const { metadata, status } = evacuation;
  return {
    // Copied from the pod.
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
