import type { Pod } from '../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../api/evacuation.ts';
import { FIELD_MANAGER } from '../api/names.ts';
import { type ConditionFacts, withCondition } from '../domain/conditions.ts';
import { drainersOf } from '../domain/drainers.ts';
import { accountOf } from '../domain/evacuation.ts';
import {
  exhaustedCondition,
  type HandOver,
  HandOverReason,
  handOverMessage,
  registeredEvacuators,
  successorsOf,
  type Turn,
  turnOf,
} from '../domain/evacuator.ts';
import { podTypeOf } from '../domain/pod.ts';
import type { Cluster } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import { aboutPod, type EventRecorder } from '../kube/events.ts';
import { resources } from '../kube/resources.ts';

interface Deps {
  cluster: Cluster;
  events: EventRecorder;
}

/** What the evacuation controller is to do with an Evacuation whose pod is alive. */
export type Step =
  | { kind: 'Evict' }
  /** The pod is left alone: for so long, or until something changes. Milliseconds. */
  | { kind: 'Wait'; forMs?: number };

/** Turns can be long; a clock that is set, or a deadline that is shortened, is noticed after this long. Milliseconds. */
const longestWait = 60_000;

/**
 * Gives the evacuators of a pod their turns, one after the other: "the evacuator responds when it observes its own class
 * in .status.activeEvacuatorClass" (KEP-4212 > DaemonSet Controller). All it knows stands in the Evacuation, and every
 * write is for the version that it judged: what an evacuator reports meanwhile is not overwritten.
 */
export class EvacuatorTurns {
  readonly #cluster: Cluster;
  readonly #events: EventRecorder;
  /** UIDs of Evacuations whose pod's annotations were complained about. */
  readonly #complained = new Set<string>();

  constructor({ cluster, events }: Deps) {
    this.#cluster = cluster;
    this.#events = events;
  }

  /** Takes the evacuators of an Evacuation one step further. */
  async advance(evacuation: Evacuation, pod: Pod): Promise<Step> {
    const { evacuators, problems } = registeredEvacuators(pod);
    if (problems.length > 0) this.#complain(evacuation, pod, problems);
    try {
      if (evacuation.spec.evacuators === undefined && evacuators.length > 0) {
        // Made while admission was down.
        const labels = { ...pod.metadata.labels, ...evacuation.metadata.labels };
        await this.#patch(evacuation, { metadata: { labels }, spec: { evacuators } });
        return { kind: 'Wait' };
      }
      return await this.#take(evacuation, pod, turnOf(evacuation, pod, this.#cluster.kube.now()));
    } catch (error) {
      // The object changed or went meanwhile: the informer will show it, and then it is looked at again.
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
      return { kind: 'Wait' };
    }
  }

  /** On whose account the pod leaves its node, for people. */
  accountOf(evacuation: Evacuation, pod: Pod): string {
    const node = this.#cluster.nodes.get(pod.spec.nodeName ?? '');
    const draining = node === undefined ? [] : drainersOf(node, this.#cluster.maintenances.list());
    return accountOf(evacuation, draining);
  }

  forget({ metadata }: Evacuation): void {
    this.#complained.delete(metadata.uid ?? '');
  }

  async #take(evacuation: Evacuation, pod: Pod, turn: Turn): Promise<Step> {
    const now = this.#cluster.kube.now();
    switch (turn.kind) {
      case 'Evict':
        return turn;
      case 'Keep':
        await this.#keep(evacuation, pod);
        return { kind: 'Wait' };
      case 'Ask':
        await this.#ask(evacuation, pod, turn);
        return { kind: 'Wait' };
      case 'Exhausted':
        await this.#exhaust(evacuation, pod, turn.after);
        return { kind: 'Wait' };
      case 'Restamp':
        await this.#patchStatus(evacuation, { evacuationProgressTimestamp: now.toISOString() });
        return { kind: 'Wait' };
      case 'Await':
        return { kind: 'Wait', forMs: Math.min(turn.until - now.getTime(), longestWait) };
      default:
        return assertNever(turn);
    }
  }

  async #ask(evacuation: Evacuation, pod: Pod, { evacuatorClass, after }: Turn & { kind: 'Ask' }) {
    const next = successorsOf(evacuation, evacuatorClass, pod);
    const message = `Waiting for ${evacuatorClass} to respond; next: ${next}.`;
    const now = this.#cluster.kube.now().toISOString();
    await this.#patchStatus(evacuation, {
      activeEvacuatorClass: evacuatorClass,
      activeEvacuatorSince: now,
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: now,
      expectedEvacuationFinishTime: null,
      message,
    });
    if (after !== undefined) this.#announceHandOver(evacuation, pod, after);
    this.#announce(evacuation, pod, {
      type: 'Normal',
      reason: 'EvacuatorAsked',
      message: `${evacuatorClass} is asked to evacuate pod ${pod.metadata.name} from node ${pod.spec.nodeName} for ${this.accountOf(evacuation, pod)}, and has ${evacuation.spec.progressDeadlineSeconds} s for each step; next: ${next}.`,
    });
  }

  async #exhaust(evacuation: Evacuation, pod: Pod, after: HandOver): Promise<void> {
    const why = handOverMessage(after, evacuation.spec.progressDeadlineSeconds);
    const message = `${why} No evacuator is left: the pod is being evicted.`;
    const facts: ConditionFacts = {
      type: exhaustedCondition,
      status: 'True',
      reason: after.reason,
      message,
    };
    const now = this.#cluster.kube.now().toISOString();
    await this.#patchStatus(evacuation, {
      activeEvacuatorClass: null,
      activeEvacuatorSince: null,
      activeEvacuatorCompleted: false,
      expectedEvacuationFinishTime: null,
      message,
      conditions: withCondition(evacuation.status?.conditions ?? [], facts, now),
    });
    this.#announceHandOver(evacuation, pod, after);
  }

  async #keep(evacuation: Evacuation, pod: Pod): Promise<void> {
    const message = `Pods of type ${podTypeOf(pod)} are not evicted, and this one has no evacuator.`;
    if (evacuation.status?.message === message) return;
    await this.#patchStatus(evacuation, { message });
  }

  #announceHandOver(evacuation: Evacuation, pod: Pod, after: HandOver): void {
    const { progressDeadlineSeconds } = evacuation.spec;
    this.#announce(evacuation, pod, {
      type: after.reason === HandOverReason.Completed ? 'Normal' : 'Warning',
      reason: after.reason,
      message: handOverMessage(after, progressDeadlineSeconds),
    });
  }

  /** "Never blocks the drain": an annotation that nobody can read is said, and passed over. */
  #complain(evacuation: Evacuation, pod: Pod, problems: readonly string[]): void {
    const { uid = '' } = evacuation.metadata;
    if (this.#complained.has(uid)) return;
    this.#complained.add(uid);
    const message = `Without this evacuator the pod is evacuated by the others, or evicted: ${problems.join('; ')}.`;
    this.#announce(evacuation, pod, { type: 'Warning', reason: 'MalformedEvacuator', message });
  }

  /** On the pod, which is what its owners look at, and on the Evacuation. */
  #announce(evacuation: Evacuation, pod: Pod, event: Parameters<EventRecorder['record']>[1]): void {
    this.#events.record(aboutPod(pod), { ...event, related: evacuation });
    this.#events.record(evacuation, event);
  }

  async #patchStatus(evacuation: Evacuation, status: Nullable<Partial<EvacuationStatus>>): Promise<void> {
    await this.#patch(evacuation, { status }, 'status');
  }

  async #patch(
    { metadata }: Evacuation,
    patch: { metadata?: object; spec?: object; status?: object },
    subresource?: 'status',
  ): Promise<void> {
    const { name, namespace = '', uid, resourceVersion } = metadata;
    const guarded = { ...patch, metadata: { ...patch.metadata, uid, resourceVersion } };
    await this.#cluster.kube.mergePatch(resources.evacuations, { namespace, name }, guarded, {
      fieldManager: FIELD_MANAGER,
      ...(subresource && { subresource }),
    });
  }
}

/** In a merge patch null takes a field away. */
type Nullable<T> = { [K in keyof T]: T[K] | null };

function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
