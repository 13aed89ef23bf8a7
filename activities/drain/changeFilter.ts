import type { KubeObject, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { DrainDecision } from '../../domain/drain/decide.ts';
import type { Cluster } from '../../kube/cluster.ts';
import type { Change } from '../../kube/informer.ts';
import type { Pace } from '../contract.ts';
import { debounceMs, otherDelayMs } from '../reconcile.ts';

/** Delay of the next pass while only the status can change: the pods leave by themselves, and the status is written once a second. */
const settledMs = 250;
/** Interval of the passes while the drain awaits the cordons of other maintenances, whose statuses start none. */
const cordonsCheckMs = 500;

/** Decides which changes concern a drain, and how soon: there may be a thousand changes in a second, and a hundred drains beside it. */
export class DrainChangeFilter {
  readonly #cluster: Pick<Cluster, 'pods'>;
  readonly #pace: Pace;
  /** Names of the nodes whose pods the latest decision used; undefined before the first. */
  #nodes: ReadonlySet<string> | undefined;
  /** UIDs of the pods that the latest decision targets, and that exist. */
  #leaving = new Set<string>();
  /** The departure of every targeted pod was requested at the latest decision. */
  #isSettled = false;
  /** Other maintenances have to cordon their nodes before the targeted pods leave. */
  #awaitsCordons = false;
  /** Nodes have joined since the maintenances were read, so that a change of one that drains them may have been missed. */
  #hasJoined = false;

  constructor(cluster: Pick<Cluster, 'pods'>, pace: Pace) {
    this.#cluster = cluster;
    this.#pace = pace;
  }

  passStarted(): void {
    this.#hasJoined = false;
  }

  /** The decision that follows uses the pods of these nodes. */
  watch(nodes: readonly string[]): void {
    const before = this.#nodes;
    if (before !== undefined && !nodes.every((node) => before.has(node))) this.#hasJoined = true;
    this.#nodes = new Set(nodes);
  }

  isWatched(node: string | undefined): boolean {
    return this.#nodes === undefined || this.#nodes.has(node ?? '');
  }

  /** `isPaused`: no Evacuation is created. */
  decided(
    { targeted, evacuate, awaitsCordons }: Pick<DrainDecision, 'targeted' | 'evacuate' | 'awaitsCordons'>,
    isPaused: boolean,
  ): void {
    // Some may have been deleted since the snapshot.
    const existing = targeted.filter(({ metadata: { namespace, name, uid } }) => {
      return this.#cluster.pods.get(`${namespace}/${name}`)?.metadata.uid === uid;
    });
    this.#leaving = new Set(existing.map(({ metadata }) => metadata.uid ?? ''));
    this.#isSettled = isPaused || evacuate.length === 0;
    this.#awaitsCordons = awaitsCordons;
  }

  /** Returns the time within which the drain must decide again whatever happens. */
  get dueInMs(): number {
    if (this.#hasJoined) return debounceMs;
    return this.#awaitsCordons ? cordonsCheckMs : Infinity;
  }

  /** Returns the delay after a change of an object that may concern it. */
  get otherMs(): number {
    return this.#pace === 'Waiting' ? otherDelayMs(this.#pace) : this.#ownMs;
  }

  /** The last pod of a tier is followed by the next tier at once, and a pod that appears by its Evacuation. */
  podDelayMs(change: Change<Readonly<Pod>>): number | undefined {
    const { type, object } = change;
    if (!this.isWatched(object.spec.nodeName)) return undefined;
    const isNew = type === 'Added' || (type === 'Updated' && change.previous.spec.nodeName === undefined);
    const isLast =
      type === 'Deleted' && this.#leaving.delete(object.metadata.uid ?? '') && this.#leaving.size === 0;
    return isNew || isLast ? debounceMs : this.#ownMs;
  }

  evacuationDelayMs(change: Change<Readonly<Evacuation>>): number | undefined {
    return this.#departureDelayMs(change, change.object.spec.podRef);
  }

  evictionDelayMs(change: Change<Readonly<EvictionRequest | LifecycleEviction>>): number | undefined {
    return this.#departureDelayMs(change, change.object.spec.target.pod);
  }

  /**
   * Returns the delay after a change of a request to a pod. Undefined if the pod is gone, so that the request is only removed, or if the informer
   * does not show the pod yet: the request is found when it does.
   */
  #departureDelayMs(
    { type, object: { metadata } }: Change<Readonly<KubeObject>>,
    { name, uid }: { name: string; uid: string },
  ): number | undefined {
    const pod = this.#cluster.pods.get(`${metadata.namespace}/${name}`);
    const isOurs = pod?.metadata.uid === uid && this.isWatched(pod.spec.nodeName);
    if (!isOurs) return undefined;
    const isRemoved = type === 'Deleted' || metadata.deletionTimestamp !== undefined;
    return isRemoved ? otherDelayMs(this.#pace) : this.otherMs;
  }

  /** Reports whether a change of another maintenance may concern it: a status matters only on the same nodes. */
  isShared(change: Change<Readonly<NodeMaintenance>>): boolean {
    if (change.type !== 'Updated') return true;
    const { object, previous } = change;
    if (previous.metadata.generation !== object.metadata.generation) return true;
    const nodes = [object, previous].flatMap(({ status }) => status?.nodeStatuses ?? []);
    return nodes.some(({ nodeRef }) => this.isWatched(nodeRef.name));
  }

  get #ownMs(): number {
    return this.#isSettled ? settledMs : debounceMs;
  }
}
