import type { Lease, Node, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import { podTypeOf } from '../domain/common/pod.ts';
import type { Cluster } from '../kube/cluster.ts';

/**
 * The creation or deletion of a pod or an Evacuation. The sandbox has one etcd, and every write increments its revision, so the
 * resourceVersions of objects of different kinds can be compared.
 */
interface RecordedChange {
  podUid: string;
  revision: bigint;
}

export interface DeletedPod extends RecordedChange {
  /** Label `app` of the pod. */
  app: string;
  node: string;
}

export interface Readiness {
  ready: number;
  /** The minimum since all replicas were ready for the first time; undefined before. */
  fewest: number | undefined;
}

/** A change of a node: a new holder of its maintenance Lease ('' for none), a cordon or an uncordon. */
export interface NodeChange {
  what: { holder: string } | { cordoned: boolean };
  revision: bigint;
}

/** The objects to watch. */
export interface Watched {
  /** Names of the nodes under maintenance. */
  maintained: readonly string[];
  /** The workloads. Each has a unique name, which its pods have in the label `app`. */
  workloads: readonly { name: string; replicas: number }[];
}

/** The changes that the watches of the demo observed. The facts are verified with these, independently of the demo's own actions. */
export interface Recording {
  /** Pods that were deleted from the nodes under maintenance. */
  deletedPods: readonly DeletedPod[];
  /** Every Evacuation that was observed. */
  evacuations: readonly RecordedChange[];
  /** Pods that were scheduled to a node while it was unschedulable, except DaemonSet pods. */
  arrivals: readonly string[];
  /** Changes by node. */
  nodeChanges: ReadonlyMap<string, readonly NodeChange[]>;
  readiness(workload: { name: string }): Readiness;
  stop(): void;
}

export function record(cluster: Cluster, { maintained, workloads }: Watched): Recording {
  const { pods, evacuations } = cluster;
  const deletedPods: DeletedPod[] = [];
  const created: RecordedChange[] = [];
  const arrivals: string[] = [];
  const nodes = recordNodes(cluster, maintained);
  const ready = new Map(workloads.map((workload) => [workload.name, new Set<string>()]));
  const fewest = new Map<string, number>();

  const departed = (pod: Readonly<Pod>) => {
    if (hasToLeave(pod, maintained))
      deletedPods.push({ ...changeOf(pod), app: appOf(pod), node: nodeOf(pod) });
  };
  const scheduled = (pod: Readonly<Pod>, before: Readonly<Pod> | undefined) => {
    // A DaemonSet pod may be scheduled as soon as the maintenance is complete.
    const isNew = before?.spec.nodeName === undefined && podTypeOf(pod) === 'Default';
    if (isNew && nodes.isCordoned(nodeOf(pod))) arrivals.push(pod.metadata.name);
  };
  const countReady = (pod: Readonly<Pod>, isDeleted: boolean) => {
    const uids = ready.get(appOf(pod));
    const workload = workloads.find(({ name }) => name === appOf(pod));
    if (uids === undefined || workload === undefined) return;
    const { uid = '' } = pod.metadata;
    if (!isDeleted && isHealthy(pod)) uids.add(uid);
    else uids.delete(uid);
    const least = fewest.get(workload.name);
    if (least !== undefined) fewest.set(workload.name, Math.min(least, uids.size));
    else if (uids.size === workload.replicas) fewest.set(workload.name, uids.size);
  };
  const unsubscribe = [
    nodes.stop,
    evacuations.subscribe(({ type, object }) => {
      if (type === 'Added') created.push(creationOf(object));
    }),
    pods.subscribe((change) => {
      const { type, object } = change;
      countReady(object, type === 'Deleted');
      if (type === 'Deleted') departed(object);
      else scheduled(object, 'previous' in change ? change.previous : undefined);
    }),
  ];
  return {
    deletedPods,
    evacuations: created,
    arrivals,
    nodeChanges: nodes.changes,
    readiness: ({ name }) => ({ ready: ready.get(name)?.size ?? 0, fewest: fewest.get(name) }),
    stop: () => {
      for (const end of unsubscribe) end();
    },
  };
}

function recordNodes({ nodes, leases }: Cluster, maintained: readonly string[]) {
  const changes = new Map<string, NodeChange[]>(maintained.map((name) => [name, []]));
  const cordons = new Map<string, boolean>();
  const holders = new Map<string, string>();
  const note = ({ metadata }: Readonly<Node> | Readonly<Lease>, what: NodeChange['what']) =>
    changes.get(metadata.name)?.push({ what, revision: revisionOf(metadata) });

  const unsubscribe = [
    nodes.subscribe(({ object }) => {
      const cordoned = object.spec.unschedulable === true;
      if (cordoned !== (cordons.get(object.metadata.name) ?? false)) note(object, { cordoned });
      cordons.set(object.metadata.name, cordoned);
    }),
    leases.subscribe(({ object }) => {
      const { holderIdentity: holder = '' } = object.spec;
      if (holder !== (holders.get(object.metadata.name) ?? '')) note(object, { holder });
      holders.set(object.metadata.name, holder);
    }),
  ];
  return {
    changes,
    isCordoned: (name: string) => cordons.get(name) === true,
    stop: () => {
      for (const end of unsubscribe) end();
    },
  };
}

/** Reports whether the disruption controller counts the pod as healthy: ready and not terminating. */
function isHealthy({ metadata, status }: Readonly<Pod>): boolean {
  return status.ready && metadata.deletionTimestamp === undefined;
}

/** Reports whether a pod runs on one of these nodes and is of a type that is evacuated. */
export function hasToLeave(pod: Readonly<Pod>, maintained: readonly string[]): boolean {
  return maintained.includes(nodeOf(pod)) && podTypeOf(pod) !== 'Static';
}

export function appOf({ metadata }: Readonly<Pod>): string {
  return metadata.labels?.['app'] ?? '';
}

function nodeOf({ spec }: Readonly<Pod>): string {
  return spec.nodeName ?? '';
}

function changeOf({ metadata }: Readonly<Pod>): RecordedChange {
  return { podUid: metadata.uid ?? '', revision: revisionOf(metadata) };
}

export function revisionOf({ resourceVersion = '0' }: { resourceVersion?: string }): bigint {
  return BigInt(resourceVersion);
}

function creationOf({ metadata, spec }: Readonly<Evacuation>): RecordedChange {
  return { podUid: spec.podRef.uid, revision: revisionOf(metadata) };
}
