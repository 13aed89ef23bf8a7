import type { Node, Pod } from '../api/core.ts';
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
  /** Of each maintained node, every change of `.spec.unschedulable`, oldest first. */
  cordons: ReadonlyMap<string, readonly boolean[]>;
  readiness(workload: { name: string }): Readiness;
  stop(): void;
}

export function record({ nodes, pods, evacuations }: Cluster, { maintained, workloads }: Watched): Recording {
  const departures: Departure[] = [];
  const created: Happening[] = [];
  const arrivals: string[] = [];
  const cordons = new Map<string, boolean[]>(maintained.map((name) => [name, []]));
  const ready = new Map(workloads.map((workload) => [workload.name, new Set<string>()]));
  const fewest = new Map<string, number>();

  const departed = (pod: Readonly<Pod>) => {
    if (hasToLeave(pod, maintained))
      departures.push({ ...happening(pod), app: appOf(pod), node: nodeOf(pod) });
  };
  const scheduled = (pod: Readonly<Pod>, before: Readonly<Pod> | undefined) => {
    // A DaemonSet's pod may come back the moment that the maintenance is complete.
    const isNew = before?.spec.nodeName === undefined && podTypeOf(pod) === 'Default';
    if (isNew && cordons.get(nodeOf(pod))?.at(-1) === true) arrivals.push(pod.metadata.name);
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
  const cordoned = ({ metadata, spec }: Readonly<Node>) => {
    const changes = cordons.get(metadata.name);
    const unschedulable = spec.unschedulable === true;
    if (changes !== undefined && unschedulable !== (changes.at(-1) ?? false)) changes.push(unschedulable);
  };

  const unsubscribe = [
    nodes.subscribe(({ object }) => cordoned(object)),
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
    cordons,
    readiness: ({ name }) => ({ ready: ready.get(name)?.size ?? 0, fewest: fewest.get(name) }),
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
  return { podUid: metadata.uid ?? '', revision: BigInt(metadata.resourceVersion ?? '0') };
}

function made({ metadata, spec }: Readonly<Evacuation>): Happening {
  return { podUid: spec.podRef.uid, revision: BigInt(metadata.resourceVersion ?? '0') };
}
