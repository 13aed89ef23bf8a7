import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import { DAEMONSET_EVACUATOR, FIELD_MANAGER } from '../../api/names.ts';
import { type Blocker, BlockerReason, blockedCondition, blockedConditions } from '../../domain/blocker.ts';
import { isTrue } from '../../domain/conditions.ts';
import { terminationMessage, withholderOf } from '../../domain/daemonSet.ts';
import { isFor } from '../../domain/evacuation.ts';
import { daemonSetOf, gracePeriodOf } from '../../domain/pod.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { isKubeError, isRefusal } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import { runWithheldPods } from './withheldPods.ts';

interface Deps {
  cluster: Cluster;
  log: Log;
}

const evacuationsAtOnce = 8;
/** What the apiserver refuses, and what comes back, is tried again this often. Milliseconds. */
const blockedRetry = 30_000;
/** A pod that appears on a node so soon after its predecessor was deleted there was not kept away. Milliseconds. */
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

/**
 * Deletes the pods whose turn it is, by UID, once the drain targets of their nodes include them. "If it does occur" that
 * they do not, "we should not encourage this flow": nothing is done, nor completed.
 */
class DaemonSetEvacuator {
  readonly #cluster: Cluster;
  readonly #log: Log;
  readonly #queue = new WorkQueue();
  /** Evacuation keys whose pods the drain targets do not include yet. */
  readonly #waiting = new Set<string>();
  /** UIDs of pods that we deleted, until they are gone. */
  readonly #deleted = new Set<string>();
  /** UIDs of pods that are not to be tried before this time, until they are gone. */
  readonly #notBefore = new Map<string, number>();
  /** DaemonSet and node -> when we last deleted a pod of it there. Losing it only costs one more deletion. */
  readonly #emptied = new Map<string, number>();

  constructor({ cluster, log }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { evacuations, maintenances, pods } = this.#cluster;
    const unsubscribe = [
      evacuations.subscribe(({ type, key, object }) => {
        if (type === 'Deleted') this.#waiting.delete(key);
        else if (isOurTurn(object)) this.#queue.add(key);
      }),
      maintenances.subscribe(() => {
        for (const key of this.#waiting) this.#queue.add(key);
        this.#waiting.clear();
      }),
      pods.subscribe(({ type, object }) => {
        if (type === 'Deleted') this.#forget(object);
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
    this.#deleted.delete(uidOf(pod));
    this.#notBefore.delete(uidOf(pod));
  }

  /** First the status, then the pod: a crash between the two leaves a pod that is still to be deleted. */
  async #evacuate(turn: Turn): Promise<Requeue | undefined> {
    const rest = (this.#notBefore.get(uidOf(turn.pod)) ?? 0) - Date.now();
    if (rest > 0) return { requeueAfterMs: rest };
    const emptied = this.#emptiedLately(turn);
    if (emptied !== undefined) return this.#block(turn, emptied);
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
  #emptiedLately({ pod, daemonSet }: Turn): Blocker | undefined {
    const emptied = this.#emptied.get(placeOf(pod));
    if (emptied === undefined || Date.now() - emptied > cameBackWithin) return undefined;
    return {
      reason: BlockerReason.CameBack,
      message: `DaemonSet ${daemonSet} made this pod for node ${pod.spec.nodeName} as soon as the last one was deleted: see that the policy daemonset-gate.nodemaintenance.k8s.io is installed, and that the pod template of the DaemonSet names no node.`,
    };
  }

  /** Why the pod does not go, if it does not. */
  async #delete(pod: Pod): Promise<Blocker | undefined> {
    const { name, namespace = '' } = pod.metadata;
    const uid = uidOf(pod);
    try {
      this.#deleted.add(uid);
      await this.#cluster.kube.delete(resources.pods, { namespace, name }, { uid });
      this.#noteEmptied(pod);
      return undefined;
    } catch (error) {
      this.#deleted.delete(uid);
      if (!isRefusal(error)) throw error;
      const message = `The deletion is refused: ${error.apiMessage}`;
      return { reason: BlockerReason.DeletionRefused, message };
    }
  }

  #noteEmptied(pod: Pod): void {
    const now = Date.now();
    for (const [place, emptied] of this.#emptied)
      if (now - emptied > cameBackWithin) this.#emptied.delete(place);
    this.#emptied.set(placeOf(pod), now);
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
