import type { Lease, Node, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import { podTypeOf } from '../domain/pod.ts';
import type { Cluster } from '../kube/cluster.ts';

/**
 * A pod or an Evacuation appeared or went, and when by etcd's own clock: the sandbox has one etcd, whose revision every
 * write raises, so that the resourceVersions of different kinds tell what came first.
 */
interface Happening {
  podUid: string;
  revision: bigint;
}

export interface Departure extends Happening {
  /** Label `app` of the pod. */
  app: string;
  node: string;
}

export interface Readiness {
  ready: number;
  /** The fewest since all replicas were ready for the first time; undefined before. */
  fewest: number | undefined;
}

/** What became of a node: its maintenance Lease got another holder ('' for none), or scheduling went on or off. */
export interface NodeChange {
  what: { holder: string } | { cordoned: boolean };
  revision: bigint;
}

/** What is to be watched. */
export interface Watched {
  /** Names of the nodes that are going to be drained. */
  maintained: readonly string[];
  /** The Deployments, each with a name of its own that its pods have as label `app`. */
  workloads: readonly { name: string; replicas: number }[];
}

/**
 * What the API showed while the demo ran, written down by watching it. The proof reads this, and nothing that the demo
 * did itself.
 */
export interface Recording {
  /** Pods that left the maintained nodes. */
  departures: readonly Departure[];
  /** Every Evacuation that was ever seen. */
  evacuations: readonly Happening[];
  /** Pods that came to a maintained node while it was unschedulable, DaemonSet pods aside. */
  arrivals: readonly string[];
  /** Of each maintained node. */
  nodeChanges: ReadonlyMap<string, readonly NodeChange[]>;
  readiness(workload: { name: string }): Readiness;
  stop(): void;
}

export function record(cluster: Cluster, { maintained, workloads }: Watched): Recording {
  const { pods, evacuations } = cluster;
  const departures: Departure[] = [];
  const created: Happening[] = [];
  const arrivals: string[] = [];
  const nodes = recordNodes(cluster, maintained);
  const ready = new Map(workloads.map((workload) => [workload.name, new Set<string>()]));
  const fewest = new Map<string, number>();

  const departed = (pod: Readonly<Pod>) => {
    if (hasToLeave(pod, maintained))
      departures.push({ ...happening(pod), app: appOf(pod), node: nodeOf(pod) });
  };
  const scheduled = (pod: Readonly<Pod>, before: Readonly<Pod> | undefined) => {
    // A DaemonSet's pod may come back the moment that the maintenance is complete.
    const isNew = before?.spec.nodeName === undefined && podTypeOf(pod) === 'Default';
    if (isNew && nodes.isCordoned(nodeOf(pod))) arrivals.push(pod.metadata.name);
  };
  const countReady = (pod: Readonly<Pod>, isGone: boolean) => {
    const uids = ready.get(appOf(pod));
    const workload = workloads.find(({ name }) => name === appOf(pod));
    if (uids === undefined || workload === undefined) return;
    const { uid = '' } = pod.metadata;
    if (!isGone && isHealthy(pod)) uids.add(uid);
    else uids.delete(uid);
    const least = fewest.get(workload.name);
    if (least !== undefined) fewest.set(workload.name, Math.min(least, uids.size));
    else if (uids.size === workload.replicas) fewest.set(workload.name, uids.size);
  };
  const unsubscribe = [
    nodes.stop,
    evacuations.subscribe(({ type, object }) => {
      if (type === 'Added') created.push(made(object));
    }),
    pods.subscribe((change) => {
      const { type, object } = change;
      countReady(object, type === 'Deleted');
      if (type === 'Deleted') departed(object);
      else scheduled(object, 'previous' in change ? change.previous : undefined);
    }),
  ];
  return {
    departures,
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

/** As the disruption controller counts: "ready" and not on its way out. */
function isHealthy({ metadata, status }: Readonly<Pod>): boolean {
  return status.ready && metadata.deletionTimestamp === undefined;
}

/** Whether a pod runs on one of these nodes and is of a type that leaves. */
export function hasToLeave(pod: Readonly<Pod>, maintained: readonly string[]): boolean {
  return maintained.includes(nodeOf(pod)) && podTypeOf(pod) !== 'Static';
}

export function appOf({ metadata }: Readonly<Pod>): string {
  return metadata.labels?.['app'] ?? '';
}

function nodeOf({ spec }: Readonly<Pod>): string {
  return spec.nodeName ?? '';
}

function happening({ metadata }: Readonly<Pod>): Happening {
  return { podUid: metadata.uid ?? '', revision: revisionOf(metadata) };
}

function revisionOf({ resourceVersion = '0' }: { resourceVersion?: string }): bigint {
  return BigInt(resourceVersion);
}

function made({ metadata, spec }: Readonly<Evacuation>): Happening {
  return { podUid: spec.podRef.uid, revision: revisionOf(metadata) };
}
