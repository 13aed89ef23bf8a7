import type { Job, VolumeAttachment } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { WORK_NAMESPACE } from '../../api/names.ts';
import { namesOnly, selectsNode } from '../../domain/common/nodeSelector.ts';
import { isLeftRunning } from '../../domain/common/pod.ts';
import {
  isContradicted,
  pendingVerification,
  type Verification,
  workOfOthers,
} from '../../domain/drain/verification.ts';
import { possibleJobRef } from '../../domain/windows/windowMaintenance.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { byNode } from '../../kube/cluster.ts';
import { isKubeError } from '../../kube/errors.ts';
import { currentInstant, elapsedMs, type Instant } from '../../kube/monotonicTime.ts';
import type { InformerUse } from '../../kube/onDemandInformer.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { Deps } from '../deps.ts';
import { debounceMs } from '../reconcile.ts';
import type { View } from '../view.ts';
import { type AttachedVolumeRef, readAttachedVolumes } from './volumes.ts';

const concurrentReads = 24;
/** Delay before the next verification if the apiserver contradicts the informers, which catch up within milliseconds. */
const retryMs = 250;
const maxRetryMs = 5_000;

/** The result of a verification. */
export interface Verified {
  verification: Verification;
  /** The object as the apiserver had it before everything else was read; undefined unless something was read now. */
  read?: NodeMaintenance;
}

/** Result of the last verification. It holds for one generation of the object and the same nodes. */
type State =
  | { kind: 'None' }
  /** The apiserver contradicted the informers. */
  | { kind: 'Contradicted'; at: Instant; delayMs: number }
  | { kind: 'Attached'; of: string; at: Instant; volumes: readonly AttachedVolumeRef[] }
  | {
      kind: 'Verified';
      of: string;
      verification: Extract<Verification, { kind: 'Verified' }>;
      /** Volumes that the verification reports. */
      volumes: readonly AttachedVolumeRef[];
    };

/**
 * Verifies that the nodes of a maintenance are drained. Contract:
 *
 * 1. `Verified` means that the apiserver was asked after the informers showed no pod to evacuate, in this order: the object, the nodes that
 *    its selector matches, their pods, Jobs, VolumeAttachments; and that nothing of it contradicts. Each read is consistent.
 * 2. Drained becomes True only by a write that fails if the object has changed since that read (StatusWriter.writeAt). Whatever existed from
 *    before the read until the write therefore prevents it, however far behind the informers are.
 * 3. While something is known to prevent it, the apiserver is not asked: informers report when that ends. The one of VolumeAttachments
 *    runs only while a drain waits for one of them, or reports one that its deadline has ended the wait for.
 * 4. Forgetting its state costs requests only.
 */
export class DrainedCheck {
  readonly #deps: Pick<Deps, 'cluster' | 'namespace' | 'nodeAgents'>;
  #state: State = { kind: 'None' };
  #attachments: InformerUse<VolumeAttachment> | undefined;
  #wake: (withinMs: number) => void = () => undefined;

  constructor(deps: Pick<Deps, 'cluster' | 'namespace' | 'nodeAgents'>) {
    this.#deps = deps;
  }

  /** Reports when volumes are detached. Only one handler at a time. */
  subscribe(handler: (withinMs: number) => void): () => void {
    this.#wake = handler;
    return () => {
      this.#wake = () => undefined;
    };
  }

  /** Returns the time until the next verification is due; infinite if a change is awaited. */
  dueInMs(): number {
    if (this.#state.kind !== 'Contradicted') return Infinity;
    return Math.max(0, this.#state.delayMs - elapsedMs(this.#state.at));
  }

  /** Forgets the last verification: pods are left on the nodes. */
  reset(): void {
    this.#state = { kind: 'None' };
    this.stop();
  }

  stop(): void {
    this.#attachments?.release();
    this.#attachments = undefined;
  }

  /**
   * The informers show no pod to evacuate: verifies that the nodes are drained. `beforeRead` is awaited before the apiserver is asked.
   * `isPastDeadline`: volumes that are still attached are waited for no longer. `wasDrained`: the condition Drained is True. If another worker, which
   * does not know yet that this one has continued its activity, has made it False, the nodes are verified again.
   */
  async verify(
    view: View,
    {
      beforeRead,
      isPastDeadline = false,
      wasDrained,
    }: { beforeRead: () => Promise<void>; isPastDeadline?: boolean; wasDrained: boolean },
  ): Promise<Verified> {
    const work = this.#workInInformers(view);
    if (work.length > 0) {
      this.reset();
      return { verification: { kind: 'Working', work } };
    }
    const known = this.#known(view, { isPastDeadline, wasDrained });
    if (known !== undefined) return { verification: known };
    await beforeRead();
    return this.#read(view, isPastDeadline);
  }

  /** The write of the verified condition was rejected: the object had changed. */
  writeRejected(): void {
    this.#state = { kind: 'None' };
  }

  #workInInformers(view: View) {
    const { jobs, pods } = this.#deps.cluster;
    return workOfOthers({
      ownJob: possibleJobRef(view.maintenance),
      nodes: namesIn(view),
      podsOn: (node) => pods.byIndex(byNode, node),
      jobs: jobs.list(),
    });
  }

  /** Returns what is known without asking the apiserver. */
  #known(
    view: View,
    { isPastDeadline, wasDrained }: { isPastDeadline: boolean; wasDrained: boolean },
  ): Verification | undefined {
    const state = this.#state;
    switch (state.kind) {
      case 'Contradicted':
        return this.dueInMs() > 0 ? pendingVerification : undefined;
      case 'Attached': {
        if (isPastDeadline || state.of !== identityOf(view)) return undefined;
        const isRecent = elapsedMs(state.at) < maxRetryMs;
        const volumes = this.#stillAttached(state.volumes) ?? (isRecent ? state.volumes : []);
        return volumes.length === 0 ? undefined : { kind: 'Attached', volumes };
      }
      case 'Verified': {
        if (!wasDrained || state.of !== identityOf(view)) return undefined;
        const attached = this.#stillAttached(state.volumes) ?? state.volumes;
        return attached.length < state.volumes.length ? undefined : state.verification;
      }
      default:
        return undefined;
    }
  }

  /** Returns those of the volumes that the informer still shows; undefined unless it has listed them. */
  #stillAttached(volumes: readonly AttachedVolumeRef[]): readonly AttachedVolumeRef[] | undefined {
    const informer = this.#attachments?.informer;
    if (informer?.resourceVersion === undefined) return undefined;
    const attached = new Set(informer.list().map(({ metadata }) => metadata.uid));
    return volumes.filter(({ uid }) => attached.has(uid));
  }

  async #read(view: View, isPastDeadline: boolean): Promise<Verified> {
    const { cluster, namespace, nodeAgents } = this.#deps;
    const { kube } = cluster;
    const { metadata } = view.maintenance;
    const read = await kube.get(resources.nodeMaintenances, { name: metadata.name });
    if (read === undefined || read.metadata.uid !== metadata.uid) return this.#contradicted(read);
    const nodes = namesIn(view);
    const selected = await this.#selectedNodes(read, nodes);
    const raw = await this.#podsOf(nodes);
    const pods = new Map([...raw].map(([node, all]) => [node, all.map(trimPod)] as const));
    const observation = {
      decided: view.maintenance,
      maintenance: read,
      ownJob: possibleJobRef(read),
      nodes,
      selected,
      podsOn: (node: string) => pods.get(node) ?? [],
      agentOf: (node: string) => nodeAgents.of(node),
      isLeftRunning: (pod: ReturnType<typeof trimPod>) => isLeftRunning(pod, namespace),
      jobs: await this.#jobs(),
    };
    if (isContradicted(observation)) return this.#contradicted(read);
    const work = workOfOthers(observation);
    if (work.length > 0) {
      // The informers will show it, too.
      this.#contradicted(read);
      return { verification: { kind: 'Working', work }, read };
    }
    return { verification: await this.#verifyVolumes(view, raw, isPastDeadline), read };
  }

  #contradicted(read: NodeMaintenance | undefined): Verified {
    const before = this.#state.kind === 'Contradicted' ? this.#state.delayMs : retryMs / 2;
    this.#state = {
      kind: 'Contradicted',
      at: currentInstant(),
      delayMs: Math.min(before * 2, maxRetryMs),
    };
    return { verification: pendingVerification, ...(read !== undefined && { read }) };
  }

  /** Reads only the metadata of nodes, which the selector is matched against, and nothing if it can match no other node than those known. */
  async #selectedNodes({ spec }: NodeMaintenance, known: readonly string[]): Promise<readonly string[]> {
    const named = namesOnly(spec.nodeSelector);
    const isKnown = new Set(known);
    if (named?.every((name) => isKnown.has(name))) return known;
    const { items } = await this.#deps.cluster.kube.listMetadata(resources.nodes);
    return items.filter((node) => selectsNode(spec.nodeSelector, node)).map(({ metadata }) => metadata.name);
  }

  async #podsOf(nodes: readonly string[]): Promise<Map<string, RawPod[]>> {
    const pods = new Map<string, RawPod[]>();
    await forEachBounded(concurrentReads, nodes, async (node) => {
      const fieldSelector = `spec.nodeName=${node}`;
      const { items } = await this.#deps.cluster.kube.list(resources.pods, { fieldSelector });
      pods.set(node, items);
    });
    return pods;
  }

  /** Lists the Jobs of windows. In an installation without them, the worker may not list Jobs, and there are none. */
  async #jobs(): Promise<readonly Job[]> {
    const { kube, jobs } = this.#deps.cluster;
    if (jobs.resourceVersion === undefined) return [];
    try {
      return (await kube.list(resources.jobs, { namespace: WORK_NAMESPACE })).items;
    } catch (error) {
      // The permission was withdrawn. Pods of Jobs count without it.
      if (!isKubeError(error, 'Forbidden')) throw error;
      return jobs.list();
    }
  }

  async #verifyVolumes(
    view: View,
    pods: ReadonlyMap<string, readonly RawPod[]>,
    isPastDeadline: boolean,
  ): Promise<Verification> {
    const of = identityOf(view);
    const read = await readAttachedVolumes(this.#deps.cluster.kube, pods);
    if (read.kind === 'Unknown') return this.#verified(of, { volumes: [], volumesUnknown: read.because });
    const { volumes } = read;
    if (volumes.length === 0 || isPastDeadline) return this.#verified(of, { volumes });
    this.#await(of, volumes);
    return { kind: 'Attached', volumes };
  }

  #verified(
    of: string,
    facts: { volumes: readonly AttachedVolumeRef[]; volumesUnknown?: string },
  ): Extract<Verification, { kind: 'Verified' }> {
    const verification = { kind: 'Verified', ...facts } as const;
    const { volumes } = facts;
    this.#state = { kind: 'Verified', of, verification, volumes };
    if (volumes.length === 0) this.stop();
    else this.#watch(volumes);
    return verification;
  }

  #await(of: string, volumes: readonly AttachedVolumeRef[]): void {
    this.#state = { kind: 'Attached', of, at: currentInstant(), volumes };
    this.#watch(volumes);
  }

  #watch(volumes: readonly AttachedVolumeRef[]): void {
    const watched = new Set(volumes.map(({ uid }) => uid));
    this.stop();
    this.#attachments = this.#deps.cluster.volumeAttachments.acquire(({ type, object }) => {
      if (type === 'Deleted' && watched.has(object.metadata.uid ?? '')) this.#wake(debounceMs);
    });
    // A volume that was detached before the watch started is not reported by it.
    void this.#attachments.informer.synced().then(() => this.#wake(debounceMs));
  }
}

function namesIn({ nodes }: View): string[] {
  return nodes.map(({ metadata }) => metadata.name);
}

/** Identifies what a verification was about: another generation, or other nodes, need another one. */
function identityOf({ maintenance, nodes }: View): string {
  const uids = nodes.map(({ metadata }) => metadata.uid ?? '').toSorted();
  return [maintenance.metadata.generation, ...uids].join(' ');
}
