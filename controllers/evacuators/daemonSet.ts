import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import { DAEMONSET_EVACUATOR, FIELD_MANAGER } from '../../api/names.ts';
import { type Blocker, BlockerReason, blockedCondition, blockedConditions } from '../../domain/blocker.ts';
import { isTrue } from '../../domain/conditions.ts';
import { terminationMessage, withholderOf } from '../../domain/daemonSet.ts';
import { isFor } from '../../domain/evacuation.ts';
import { daemonSetOf, gracePeriodOf } from '../../domain/pod.ts';
import { byPodUid, type FencedCluster } from '../../kube/cluster.ts';
import { isKubeError, isRefusal } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { keyOf } from '../../kube/store.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { runWithheldPods, sameLabels } from './withheldPods.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
}

const evacuationsAtOnce = 8;
/** What the apiserver refuses, and what comes back, is tried again this often. Milliseconds. */
const blockedRetry = 30_000;
/** A pod that is on a node so soon after its predecessor went from there was not kept away. Milliseconds. */
const cameBackWithin = 10_000;

/**
 * The evacuator of DaemonSet pods (KEP-4212 > DaemonSet Controller), with all that keeps them away from their nodes until
 * the maintenance is complete. Runs until the signal.
 */
export async function runDaemonSetEvacuator(deps: Deps, signal: AbortSignal): Promise<void> {
  await Promise.all([new DaemonSetEvacuator(deps).run(signal), runWithheldPods(deps, signal)]);
}

/** A DaemonSet's pod that it is our turn to evacuate. */
interface Turn {
  evacuation: Evacuation;
  pod: Pod;
  /** Name of the DaemonSet. */
  daemonSet: string;
  /** What the Evacuation is to say while the pod terminates. */
  message: string;
}

/** Of a pod that we deleted. */
interface Departure {
  /** By the apiserver's clock. */
  deleted: Date;
  /** When it was seen to be gone: it takes the grace period, which may be long. Milliseconds, by our clock. */
  gone: number;
}

/**
 * Deletes the pods whose turn it is, by UID, once the drain targets of their nodes include them. "If it does occur" that
 * they do not, "we should not encourage this flow": nothing is done, nor completed.
 */
class DaemonSetEvacuator {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #queue = new WorkQueue();
  /** Evacuation keys whose pods the drain targets do not include yet, as far as we know the node and its maintenances. */
  readonly #waiting = new Set<string>();
  /** UID of a pod that we deleted -> when we did, until it is gone. */
  readonly #deleted = new Map<string, Date>();
  /** UIDs of pods that are not to be tried before this time, until they are gone. */
  readonly #notBefore = new Map<string, number>();
  /** DaemonSet and node -> the last pod of it there that went because of us. Losing it only costs one more deletion. */
  readonly #emptied = new Map<string, Departure>();

  constructor({ cluster, log }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { evacuations, maintenances, nodes, pods } = this.#cluster;
    const unsubscribe = [
      evacuations.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#waiting.delete(key);
        else if (isOurTurn(object)) this.#queue.add(key);
      }),
      maintenances.subscribe(() => this.#wakeWaiting()),
      nodes.subscribe((change) => {
        if (change.type === 'Updated' && sameLabels(change.object, change.previous)) return;
        this.#wakeWaiting();
      }),
      pods.subscribe(({ type, object }) => {
        if (type === 'Deleted') this.#forget(object);
        else if (type === 'Added') this.#wakeEvacuationOf(object);
      }),
    ];
    try {
      await this.#queue.run({
        workers: evacuationsAtOnce,
        reconcile: (key) => this.#reconcile(key),
        signal,
        log: this.#log,
      });
    } finally {
      for (const stop of unsubscribe) stop();
    }
  }

  #wakeWaiting(): void {
    for (const key of this.#waiting) this.#queue.add(key);
    this.#waiting.clear();
  }

  /** An Evacuation may be seen before the pod that it is for. */
  #wakeEvacuationOf(pod: Pod): void {
    for (const evacuation of this.#cluster.evacuations.byIndex(byPodUid, uidOf(pod)))
      if (isOurTurn(evacuation)) this.#queue.add(keyOf(evacuation));
  }

  async #reconcile(key: string): Promise<Requeue | void> {
    const turn = this.#turnOf(key);
    if (turn === undefined) return undefined;
    try {
      return await this.#evacuate(turn);
    } catch (error) {
      // The Evacuation changed or went meanwhile: the informer will show it, and then it is looked at again.
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
    }
  }

  #turnOf(key: string): Turn | undefined {
    const { evacuations, maintenances, nodes, pods } = this.#cluster;
    const evacuation = evacuations.get(key);
    if (evacuation === undefined || !isOurTurn(evacuation)) return undefined;
    const pod = pods.get(`${evacuation.metadata.namespace}/${evacuation.spec.podRef.name}`);
    if (pod === undefined || !isFor(evacuation.spec.podRef, pod)) return undefined;
    const isLeaving = pod.metadata.deletionTimestamp !== undefined || this.#deleted.has(uidOf(pod));
    const daemonSet = daemonSetOf(pod)?.name;
    if (isLeaving || daemonSet === undefined) return undefined;
    const node = nodes.get(pod.spec.nodeName ?? '');
    const withholder = node && withholderOf(pod, node, maintenances.list());
    if (withholder === undefined) {
      this.#waiting.add(key);
      return undefined;
    }
    return { evacuation, pod, daemonSet, message: terminationMessage(daemonSet, withholder) };
  }

  #forget(pod: Pod): void {
    const uid = uidOf(pod);
    const deleted = this.#deleted.get(uid);
    if (deleted !== undefined) this.#noteDeparture(pod, deleted);
    this.#deleted.delete(uid);
    this.#notBefore.delete(uid);
  }

  /** First the status, then the pod: a crash between the two leaves a pod that is still to be deleted. */
  async #evacuate(turn: Turn): Promise<Requeue | undefined> {
    const rest = (this.#notBefore.get(uidOf(turn.pod)) ?? 0) - Date.now();
    if (rest > 0) return { requeueAfterMs: rest };
    const returned = this.#cameBack(turn);
    if (returned !== undefined) return this.#block(turn, returned);
    const wasBlocked = isTrue(turn.evacuation.status?.conditions, blockedCondition);
    const told = wasBlocked ? turn : await this.#announce(turn);
    const refusal = await this.#delete(turn.pod);
    if (refusal !== undefined) return this.#block(told, refusal);
    if (wasBlocked) await this.#announce(turn);
    return undefined;
  }

  async #block(turn: Turn, blocker: Blocker): Promise<Requeue> {
    this.#notBefore.set(uidOf(turn.pod), Date.now() + blockedRetry);
    const { message, conditions } = turn.evacuation.status ?? {};
    const isSaid = message === blocker.message && isTrue(conditions, blockedCondition);
    if (!isSaid) await this.#report(turn, { message: blocker.message }, blocker);
    return { requeueAfterMs: blockedRetry };
  }

  /** Without the policy that holds it, or with a node's name in its template, the next pod is there at once, and so for ever. */
  #cameBack({ pod, daemonSet }: Turn): Blocker | undefined {
    const last = this.#emptied.get(placeOf(pod));
    if (last === undefined || Date.now() - last.gone > cameBackWithin) return undefined;
    // With maxSurge a node has two pods at times, of which neither came because the other one went.
    if (!wasMadeSince(pod, last.deleted)) return undefined;
    return {
      reason: BlockerReason.CameBack,
      message: `DaemonSet ${daemonSet} made this pod for node ${pod.spec.nodeName} as soon as the last one was gone: see that the policy daemonset-gate.nodemaintenance.k8s.io is installed, and that the pod template of the DaemonSet names no node.`,
    };
  }

  /** Why the pod does not go, if it does not. */
  async #delete(pod: Pod): Promise<Blocker | undefined> {
    const { name, namespace = '' } = pod.metadata;
    const uid = uidOf(pod);
    try {
      this.#deleted.set(uid, this.#cluster.kube.now());
      await this.#cluster.kube.delete(resources.pods, { namespace, name }, { uid });
      return undefined;
    } catch (error) {
      this.#deleted.delete(uid);
      if (!isRefusal(error)) throw error;
      const message = `The deletion is refused: ${error.apiMessage}`;
      return { reason: BlockerReason.DeletionRefused, message };
    }
  }

  #noteDeparture(pod: Pod, deleted: Date): void {
    const now = Date.now();
    for (const [place, { gone }] of this.#emptied)
      if (now - gone > cameBackWithin) this.#emptied.delete(place);
    this.#emptied.set(placeOf(pod), { deleted, gone: now });
  }

  /** As in the KEP's example. */
  async #announce(turn: Turn): Promise<Turn> {
    const { message, evacuation, pod } = turn;
    const now = this.#cluster.kube.now();
    const { expectedEvacuationFinishTime } = evacuation.status ?? {};
    const isAnnounced = evacuation.status?.message === message && expectedEvacuationFinishTime !== undefined;
    if (isAnnounced && Date.parse(expectedEvacuationFinishTime) > now.getTime()) return turn;
    const finish = new Date(now.getTime() + gracePeriodOf(pod) * 1_000);
    return this.#report(turn, {
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: now.toISOString(),
      expectedEvacuationFinishTime: finish.toISOString(),
      message,
    });
  }

  /** For the version that was judged: whoever lost their turn does not write over the next one's status. */
  async #report(turn: Turn, next: Partial<EvacuationStatus>, blocker?: Blocker): Promise<Turn> {
    const { metadata, status } = turn.evacuation;
    const { name, namespace = '', uid, resourceVersion } = metadata;
    const conditions = blockedConditions(status?.conditions ?? [], blocker, this.#cluster.kube.now());
    const patch = { metadata: { uid, resourceVersion }, status: { ...next, conditions } };
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    const { kube } = this.#cluster;
    const evacuation = await kube.mergePatch(resources.evacuations, { namespace, name }, patch, options);
    return { ...turn, evacuation };
  }
}

function isOurTurn({ metadata, status }: Evacuation): boolean {
  if (metadata.deletionTimestamp !== undefined || status?.activeEvacuatorCompleted === true) return false;
  return status?.activeEvacuatorClass === DAEMONSET_EVACUATOR;
}

function uidOf({ metadata }: Pod): string {
  return metadata.uid ?? '';
}

function placeOf(pod: Pod): string {
  return `${daemonSetOf(pod)?.uid}/${pod.spec.nodeName}`;
}

/** Objects tell their creation to the second. */
function wasMadeSince({ metadata }: Pod, time: Date): boolean {
  return Date.parse(metadata.creationTimestamp ?? '') >= Math.floor(time.getTime() / 1_000) * 1_000;
}
