import type { ObjectMeta, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import { DEFAULT_PROGRESS_DEADLINE_SECONDS, FIELD_MANAGER, INSTIGATOR_FINALIZER } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { type DrainTargets, join, targetsPod, wishAt } from '../domain/drainTargets.ts';
import { drainersOf } from '../domain/drainers.ts';
import { evacuationName } from '../domain/evacuation.ts';
import { evacuationOf } from '../domain/evacuator.ts';
import { type Blocker, BlockerReason, blockerOf } from '../domain/blocker.ts';
import type { PodSnapshot } from '../domain/pod.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { byNode, type Cluster } from '../kube/cluster.ts';
import { isRefusal, KubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { nodeStatusOf, nodesOf, planOf } from './view.ts';

/** Evacuations that are written at the same time, and at most in one turn, so that progress is published in between. */
const writesAtOnce = 12;
const perTurn = 200;
/** One that is refused is tried again after so long. Milliseconds. */
const refusalRetry = 30_000;
/** An Evacuation that we made but the informer does not show counts for this long. Milliseconds. */
const informerLag = 10_000;

/**
 * The Evacuations of one drain. "The only job of the node maintenance controller is to make sure that the Evacuation
 * object exist and has the ... finalizer" (KEP-4212 > Drain).
 */
export class Evacuations {
  readonly #cluster: Cluster;
  /** Pod UID -> when its Evacuation was made, until the informer shows it. */
  readonly #made = new Map<string, number>();
  /** Pod UID -> why its Evacuation is refused, and when that was. */
  readonly #refused = new Map<string, { message: string; at: number }>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  has(pod: Pod): boolean {
    const uid = pod.metadata.uid ?? '';
    const seen = this.#find(pod);
    if (seen !== undefined) {
      this.#made.delete(uid);
      return isInstigated(seen) && seen.metadata.deletionTimestamp === undefined;
    }
    const made = this.#made.get(uid);
    return made !== undefined && Date.now() - made < informerLag;
  }

  /** How a pod stands at this moment. */
  snapshotOf(now: Date): (pod: Pod) => PodSnapshot {
    return (pod) => {
      const evacuation = this.#find(pod);
      // Of one that is being deleted only what others hold it by blocks: we let go of it ourselves.
      const isDeleted = evacuation?.metadata.deletionTimestamp !== undefined;
      const seen = isDeleted
        ? { ...evacuation, metadata: withoutOurFinalizer(evacuation.metadata) }
        : evacuation;
      const blocker = blockerOf(pod, seen, now) ?? this.#refusalOf(pod);
      return { pod, evacuating: this.has(pod), blocker };
    };
  }

  /** Takes back what was asked of nodes that the maintenance has ceased to select. */
  async withdrawFrom(nodes: readonly string[], maintenance: NodeMaintenance): Promise<void> {
    const pods = nodes.flatMap((node) => this.#cluster.pods.byIndex(byNode, node));
    const asked = pods.flatMap((pod) => this.#find(pod) ?? []);
    const others = this.#cluster.maintenances
      .list()
      .filter(({ metadata }) => metadata.uid !== maintenance.metadata.uid);
    const unwanted = asked.filter((evacuation) => isUnwanted(this.#cluster, others, evacuation));
    await forEachBounded(writesAtOnce, unwanted, (evacuation) => withdraw(this.#cluster, evacuation));
  }

  /**
   * Makes sure that the pods have their Evacuations; those of a namespace that is being deleted leave by themselves. A node
   * whose Lease is lost meanwhile (`isHeld`) is asked for no more.
   */
  async start(pods: readonly Pod[], isHeld: (node: string) => boolean): Promise<void> {
    const due = pods.filter(({ metadata }) => {
      const refused = this.#refused.get(metadata.uid ?? '');
      return refused === undefined || Date.now() - refused.at >= refusalRetry;
    });
    await forEachBounded(writesAtOnce, due.slice(0, perTurn), async (pod) => {
      if (!isHeld(pod.spec.nodeName ?? '')) return;
      const uid = pod.metadata.uid ?? '';
      const refusal = await this.#ensure(pod);
      if (refusal === undefined) {
        this.#made.set(uid, Date.now());
        this.#refused.delete(uid);
      } else this.#refused.set(uid, { message: refusal, at: Date.now() });
    });
  }

  #refusalOf({ metadata }: Pod): Blocker | undefined {
    const refused = this.#refused.get(metadata.uid ?? '');
    return refused && { reason: BlockerReason.EvacuationRefused, message: refused.message };
  }

  /** Resolves with the refusal, if it is refused: that keeps this pod, and no other. */
  async #ensure(pod: Pod): Promise<string | undefined> {
    const existing = this.#find(pod);
    try {
      if (existing === undefined)
        await this.#cluster.kube.create(resources.evacuations, evacuationFor(pod), {
          fieldManager: FIELD_MANAGER,
        });
      else if (existing.metadata.deletionTimestamp === undefined)
        await joinEvacuation(this.#cluster, existing);
      // Somebody deleted it. The next can only be made when its name is free.
      else if (isInstigated(existing)) await dropFinalizer(this.#cluster, existing);
      return undefined;
    } catch (error) {
      if (isSettledElsewhere(error)) return undefined;
      if (!isRefusal(error)) throw error;
      return `Its Evacuation is refused: ${error.apiMessage}`;
    }
  }

  #find({ metadata }: Pod): Evacuation | undefined {
    return this.#cluster.evacuations.get(`${metadata.namespace}/${evacuationName(metadata)}`);
  }
}

function evacuationFor(pod: Pod): Evacuation {
  const { metadata, spec } = evacuationOf(pod, DEFAULT_PROGRESS_DEADLINE_SECONDS);
  return { metadata: { ...metadata, finalizers: [INSTIGATOR_FINALIZER] }, spec };
}

/** Somebody else asked for the pod's evacuation first: we ask for it too. */
async function joinEvacuation({ kube }: Cluster, { metadata }: Evacuation): Promise<void> {
  const { name, namespace = '', uid, resourceVersion, finalizers = [] } = metadata;
  const patch = { metadata: { uid, resourceVersion, finalizers: [...finalizers, INSTIGATOR_FINALIZER] } };
  await kube.mergePatch(resources.evacuations, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}

/** What keeps an Evacuation that we no longer ask for. */
function withoutOurFinalizer(metadata: ObjectMeta): ObjectMeta {
  const finalizers = (metadata.finalizers ?? []).filter((finalizer) => finalizer !== INSTIGATOR_FINALIZER);
  return { ...metadata, finalizers };
}

async function dropFinalizer({ kube }: Cluster, { metadata }: Evacuation): Promise<Evacuation> {
  const { name, namespace = '', uid, resourceVersion } = metadata;
  const { finalizers } = withoutOurFinalizer(metadata);
  const patch = { metadata: { uid, resourceVersion, finalizers } };
  return kube.mergePatch(resources.evacuations, { namespace, name }, patch, { fieldManager: FIELD_MANAGER });
}

/** Another turn finds the Evacuation in the informer; a namespace on its way out takes its pods along. */
function isSettledElsewhere(error: unknown): boolean {
  const settled: readonly string[] = ['AlreadyExists', 'Conflict', 'NotFound', 'NamespaceTerminating'];
  return error instanceof KubeError && settled.includes(error.kind);
}

function isInstigated({ metadata }: Evacuation): boolean {
  return metadata.finalizers?.includes(INSTIGATOR_FINALIZER) ?? false;
}

/**
 * "The controller will attempt to remove all Evacuations that match the node maintenance, unless there is [another]
 * maintenance in progress" (KEP-4212 > Uncordon (Complete)). Lists them: the last one may have been made a moment ago.
 */
export async function removeEvacuations({ cluster }: Deps, ref: MaintenanceRef): Promise<void> {
  const { kube, nodes } = cluster;
  // Of two maintenances that are cancelled together, the later one must see that the other wants nothing any more.
  const { items: all } = await kube.list(resources.nodeMaintenances);
  const maintenance = all.find(({ metadata }) => metadata.uid === ref.uid);
  if (maintenance === undefined) return;
  const others = all.filter((one) => one !== maintenance);
  const names = new Set(nodesOf(maintenance, nodes.list()).map((node) => node.metadata.name));
  const { items } = await kube.list(resources.evacuations, {});
  const ours = items.filter(
    (evacuation) =>
      names.has(podOf(cluster, evacuation)?.spec.nodeName ?? '') && isUnwanted(cluster, others, evacuation),
  );
  await forEachBounded(writesAtOnce, ours, (evacuation) => withdraw(cluster, evacuation));
}

/** Whether an Evacuation is ours, may be cancelled, and no other maintenance wants its pod to leave. */
function isUnwanted(cluster: Cluster, others: readonly NodeMaintenance[], evacuation: Evacuation): boolean {
  const pod = podOf(cluster, evacuation);
  // Without its pod an Evacuation is over: the evacuation controller removes it.
  if (pod === undefined || !isInstigated(evacuation)) return false;
  return isCancellable(evacuation) && !isWantedByOthers(cluster, others, pod);
}

/** "If the evacuator ... has set .status.evacuationCancellationPolicy to Forbid, deletion ... will not be attempted." */
function isCancellable({ status }: Evacuation): boolean {
  return status?.evacuationCancellationPolicy !== 'Forbid';
}

function podOf({ pods }: Cluster, { metadata, spec }: Evacuation): Pod | undefined {
  const pod = pods.get(`${metadata.namespace}/${spec.podRef.name}`);
  return pod?.metadata.uid === spec.podRef.uid ? pod : undefined;
}

function isWantedByOthers({ nodes }: Cluster, others: readonly NodeMaintenance[], pod: Pod): boolean {
  const node = nodes.get(pod.spec.nodeName ?? '');
  if (node === undefined) return false;
  return (
    drainersOf(node, others)
      // One that was fast-forwarded needs more than it wished for.
      .some((other) => targetsPod(join([wishOf(other), nodeStatusOf(other, node)?.drainTargets ?? []]), pod))
  );
}

function wishOf(maintenance: NodeMaintenance): DrainTargets {
  return wishAt(planOf(maintenance), maintenance.status?.drainPosition ?? 0);
}

/**
 * "If there are foreign finalizers on the Evacuation, it should only remove its own instigator finalizer." Otherwise it
 * is deleted first: without a finalizer but not deleted it would still be a request.
 */
async function withdraw(cluster: Cluster, { metadata }: Evacuation): Promise<void> {
  const { kube } = cluster;
  const { name, namespace = '', uid = '' } = metadata;
  const isShared = (metadata.finalizers ?? []).some((finalizer) => finalizer !== INSTIGATOR_FINALIZER);
  if (!isShared) await kube.delete(resources.evacuations, { namespace, name }, { uid });
  const current = await kube.get(resources.evacuations, { namespace, name });
  if (current === undefined || current.metadata.uid !== uid) return;
  const left = await dropFinalizer(cluster, current);
  // The others let go meanwhile, and each of us left the deletion to the next.
  const isForsaken = left.metadata.deletionTimestamp === undefined && !left.metadata.finalizers?.length;
  if (isForsaken) await kube.delete(resources.evacuations, { namespace, name }, { uid });
}
