import type { StatefulSet } from '../../../api/core.ts';
import { STATEFULSET_EVACUATOR } from '../../../api/names.ts';
import { selectorText } from '../../../domain/common/labelSelector.ts';
import { gracePeriodSecondsOf } from '../../../domain/common/pod.ts';
import { appsController } from '../../../domain/evacuation/podRelease.ts';
import { type StatefulSetStep, statefulSetStep } from '../../../domain/evacuation/statefulSet.ts';
import { Evacuator } from '../../../evacuator-kit/evacuator.ts';
import type { EvacuatedPod } from '../../../evacuator-kit/protocol.ts';
import type { Progress } from '../../../evacuator-kit/progress.ts';
import { aborted, sleep } from '../../../kube/abort.ts';
import { type BackOff, backOffMs } from '../../../kube/backOff.ts';
import { byNamespace, type FencedCluster } from '../../../kube/cluster.ts';
import { isRejection } from '../../../kube/errors.ts';
import { aboutPod, type EventRecorder } from '../../../kube/events.ts';
import type { Log } from '../../../kube/log.ts';
import { resources } from '../../../kube/resources.ts';
import { Semaphore } from '../../../kube/semaphore.ts';
import { trimPod } from '../../../kube/transform.ts';

interface Deps {
  cluster: FencedCluster;
  /** Recorder for Events about pods. */
  events: EventRecorder;
  log: Log;
}

/** High, because waiting pods cost only memory. */
const maxConcurrent = 5_000;
/** Time between two checks of the other pods. */
const checks: BackOff = { firstMs: 1_000, capMs: 15_000 };
/** Interval of reports while a pod waits for the others, which extend its deadline: the eviction API cannot evict it, so that nobody could take over. */
const waitReportMs = 600_000;
/** A rejected deletion is retried after this, until the progress deadline. */
const rejectionRetryMs = 30_000;

/** The evacuated pods of one StatefulSet, which leave one at a time. */
interface Group {
  slot: Semaphore;
  members: number;
}

/**
 * Runs the evacuator of StatefulSet pods, for pods whose owner has registered it. It deletes a pod, by UID, if its budget can never allow a
 * disruption and all other pods of the StatefulSet are available; all other pods it leaves to the eviction API at once. Keeps no state: a
 * terminating pod needs no evacuator.
 */
export async function runStatefulSetEvacuator(
  { cluster, events, log }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const groups = new Map<string, Group>();
  const evacuator = new Evacuator({
    evacuatorClass: STATEFULSET_EVACUATOR,
    evacuate: async (pod, _evacuation, progress) => {
      const owner = appsController(pod.metadata, 'StatefulSet');
      if (owner === undefined)
        return 'The pod does not belong to a StatefulSet, so nothing would recreate it.';
      const group = groups.get(owner.uid) ?? { slot: new Semaphore(1), members: 0 };
      groups.set(owner.uid, group);
      group.members += 1;
      try {
        return await new Departure({ cluster, events, log }, pod, { progress, slot: group.slot }).run(owner);
      } finally {
        group.members -= 1;
        if (group.members === 0) groups.delete(owner.uid);
      }
    },
    view: cluster,
    log,
    maxConcurrent,
  });
  await evacuator.run(signal);
}

/** The departure of one pod from its node. */
class Departure {
  readonly #deps: Deps;
  readonly #pod: EvacuatedPod;
  readonly #progress: Progress;
  readonly #slot: Semaphore;

  constructor(deps: Deps, pod: EvacuatedPod, { progress, slot }: { progress: Progress; slot: Semaphore }) {
    this.#deps = deps;
    this.#pod = pod;
    this.#progress = progress;
    this.#slot = slot;
  }

  /** Resolves with the final message if the pod is left to the eviction API. Rejects when its evacuation is stopped, also because it is gone. */
  async run(owner: { name: string; uid: string }): Promise<string> {
    const { signal } = this.#progress;
    for (let idle = 0; ; idle++) {
      const attempt = await this.#attempt(owner);
      if (attempt.kind === 'Skip') return attempt.message;
      await sleep(attempt.kind === 'Wait' ? backOffMs(idle, checks) : rejectionRetryMs, signal);
    }
  }

  /**
   * Deletes the pod if it may go now, and keeps its turn until it is gone. A pod that waits gives its turn to the others: the one that it waits for may
   * have to leave first, because it cannot run on its node.
   */
  async #attempt(owner: {
    name: string;
    uid: string;
  }): Promise<{ kind: 'Skip'; message: string } | { kind: 'Wait' } | { kind: 'Rejected' }> {
    const { signal } = this.#progress;
    const release = await this.#turn(owner.name);
    try {
      signal.throwIfAborted();
      const statefulSet = await this.#statefulSet(owner);
      if (statefulSet === undefined)
        return { kind: 'Skip', message: `StatefulSet ${owner.name} no longer exists.` };
      const step = await this.#next(statefulSet);
      if (step.kind === 'Skip') return step;
      if (step.kind === 'Wait') {
        // Extends the deadline, as the wait for the turn does.
        this.#progress.report({ message: step.message });
        return { kind: 'Wait' };
      }
      if (await this.#delete(statefulSet)) await aborted(signal);
      return { kind: 'Rejected' };
    } finally {
      release();
    }
  }

  /** Waits until no other pod of the StatefulSet is leaving. Resolves with what ends the turn. */
  async #turn(statefulSet: string): Promise<() => void> {
    const message = `Waiting for other pods of StatefulSet ${statefulSet}: they leave one at a time.`;
    if (!this.#slot.isIdle) this.#progress.reportWaiting(message);
    const waiting = setInterval(() => this.#progress.report({ message }), waitReportMs);
    try {
      return await this.#slot.acquire(this.#progress.signal);
    } finally {
      clearInterval(waiting);
    }
  }

  async #statefulSet({ name, uid }: { name: string; uid: string }): Promise<StatefulSet | undefined> {
    const key = { namespace: this.#pod.metadata.namespace, name };
    const found = await this.#deps.cluster.kube.get(resources.statefulSets, key);
    return found?.metadata.uid === uid ? found : undefined;
  }

  /** Reads the pods from the apiserver: the informer may not show yet that another one is terminating. */
  async #next(statefulSet: StatefulSet): Promise<StatefulSetStep> {
    const { kube, budgets } = this.#deps.cluster;
    const { namespace = '', uid } = statefulSet.metadata;
    const labelSelector = selectorText(statefulSet.spec.selector);
    const { items } = await kube.list(resources.pods, { namespace, labelSelector });
    const current = items.find(({ metadata }) => metadata.uid === this.#pod.metadata.uid);
    return statefulSetStep({
      pod: trimPod(current ?? this.#pod),
      statefulSet,
      pods: items.filter(({ metadata }) => appsController(metadata, 'StatefulSet')?.uid === uid),
      budgets: budgets.byIndex(byNamespace, namespace),
      now: kube.now(),
    });
  }

  /** Deletes the pod. Returns false when the apiserver rejects it. */
  async #delete({ metadata }: StatefulSet): Promise<boolean> {
    const { cluster, events, log } = this.#deps;
    const { name, namespace = '', uid = '' } = this.#pod.metadata;
    try {
      await cluster.kube.delete(resources.pods, { namespace, name }, { uid });
    } catch (error) {
      if (!isRejection(error)) throw error;
      this.#progress.reportWaiting(`The apiserver rejected the deletion of the pod: ${error.apiMessage}`);
      return false;
    }
    const pod = trimPod(this.#pod);
    const graceMs = gracePeriodSecondsOf(pod) * 1_000;
    const message = `StatefulSet ${metadata.name} recreates the pod on another node: it is terminating, because its PodDisruptionBudget can never allow a disruption and all other pods are available.`;
    const expectedFinishTime = new Date(cluster.kube.now().getTime() + graceMs);
    this.#progress.report({ message, expectedFinishTime });
    const event = `Deleted on node ${pod.spec.nodeName}, as the annotation of evacuator ${STATEFULSET_EVACUATOR} permits: its PodDisruptionBudget can never allow a disruption, and all other pods of StatefulSet ${metadata.name} are available.`;
    events.record(aboutPod(pod), { type: 'Normal', reason: 'DeletedByEvacuator', message: event });
    log.info('Pod of a StatefulSet deleted', { pod: `${namespace}/${name}`, statefulSet: metadata.name });
    return true;
  }
}
