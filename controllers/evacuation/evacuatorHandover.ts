import type { Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import {
  DEPLOYMENT_EVACUATOR,
  EVACUATION_NODE_LABEL,
  FIELD_MANAGER,
  STATIC_POD_EVACUATOR,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { assertNever } from '../../domain/common/assertNever.ts';
import { type ConditionFacts, isTrue, withCondition } from '../../domain/common/conditions.ts';
import { compareNames, mayHaveAgent } from '../../domain/common/names.ts';
import { podTypeOf } from '../../domain/common/pod.ts';
import { joinedProblems } from '../../domain/common/text.ts';
import { gatingMaintenance } from '../../domain/drain/daemonSet.ts';
import { drainingMaintenances } from '../../domain/drain/drainingMaintenances.ts';
import { blockedCondition, blockedConditions } from '../../domain/evacuation/blocker.ts';
import { describeInstigators } from '../../domain/evacuation/evacuation.ts';
import {
  activationMessage,
  controllerEvacuator,
  deadlineSecondsOf,
  evacuationLabels,
  exhaustedCondition,
  type HandOver,
  HandOverReason,
  handOverMessage,
  hasResponded,
  type NextStep,
  nextEvacuatorStep,
  registeredEvacuators,
  successorsOf,
} from '../../domain/evacuation/evacuatorSelection.ts';
import { canStopStaticPods, nodeAgentOf } from '../../domain/leases/nodeAgent.ts';
import { readAgentLease } from '../../kube/agentLease.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { ignoreNotFound, isRejection } from '../../kube/errors.ts';
import { aboutPod, type EventContent, type EventRecorder } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import type { AutomaticRegistration } from './automaticRegistration.ts';
import type { KnownEvacuators } from './knownEvacuators.ts';

interface Deps {
  cluster: Cluster;
  events: EventRecorder;
  known: KnownEvacuators;
  /** Undefined unless the installation registers the evacuator of Deployments by itself. */
  registration?: AutomaticRegistration | undefined;
}

export type HandoverResult =
  /** No evacuator remains: evict the pod. */
  | { kind: 'Evict' }
  /** Wait until the Evacuation or the pod changes, or until the time is over. */
  | { kind: 'Wait'; requeueAfterMs?: number };

/** Upper limit of a wait, so that a clock adjustment or a shorter deadline takes effect. */
const maxWaitMs = 60_000;

/**
 * Activates the evacuators of a pod one after the other: "the evacuator responds when it observes its own class in
 * .status.activeEvacuatorClass" (KEP-4212 > DaemonSet Controller). All state is in the Evacuation. Every write carries the
 * resourceVersion that the decision was based on, so that it never overwrites the report of an evacuator.
 */
export class EvacuatorHandover {
  readonly #cluster: Cluster;
  readonly #events: EventRecorder;
  readonly #known: KnownEvacuators;
  readonly #registration: AutomaticRegistration | undefined;
  /** UIDs of Evacuations with an Event about invalid annotations of their pod. */
  readonly #warned = new Set<string>();

  constructor({ cluster, events, known, registration }: Deps) {
    this.#registration = registration;
    this.#cluster = cluster;
    this.#events = events;
    this.#known = known;
  }

  /** Performs the next step of the evacuators, and returns what to do then. */
  async reconcile(evacuation: Evacuation, pod: Pod): Promise<HandoverResult> {
    const { evacuators, problems } = registeredEvacuators(pod);
    if (problems.length > 0) this.#warn(evacuation, pod, problems);
    try {
      const labels = evacuationLabels(pod, evacuation.metadata.labels);
      // The Evacuation was created while the admission server was down.
      if (evacuation.spec.evacuators === undefined && evacuators.length > 0) {
        await this.#patch(evacuation, { metadata: { labels }, spec: { evacuators } });
        return { kind: 'Wait' };
      }
      // Without it the agent of the node would not see the Evacuation.
      const nodeLabel = labels[EVACUATION_NODE_LABEL];
      if (nodeLabel !== undefined && evacuation.metadata.labels?.[EVACUATION_NODE_LABEL] !== nodeLabel) {
        await this.#patch(evacuation, { metadata: { labels } });
        return { kind: 'Wait' };
      }
      if (evacuation.spec.evacuators === undefined && (await this.#register(evacuation, pod)))
        return { kind: 'Wait' };
      const hasAgent = await this.#awaitsLiveAgent(evacuation, pod);
      const step = nextEvacuatorStep(evacuation, pod, {
        now: this.#cluster.kube.now(),
        responseSeconds: this.#known.responseSeconds,
        isKnown: (evacuatorClass) => hasAgent || this.#known.has(evacuatorClass),
        isTargeted: podTypeOf(pod) === 'DaemonSet' && this.#isGated(pod),
      });
      return await this.#apply(evacuation, pod, step);
    } catch (error) {
      ignoreNotFound(error);
      return { kind: 'Wait' };
    }
  }

  /** Registers the evacuator of Deployments if the installation does so for such a pod. Returns whether it did. */
  async #register(evacuation: Evacuation, pod: Pod): Promise<boolean> {
    const message = await this.#registration?.reasonFor(pod);
    if (message === undefined) return false;
    await this.#patch(evacuation, { spec: { evacuators: [controllerEvacuator(DEPLOYMENT_EVACUATOR)] } });
    this.#record(evacuation, pod, { type: 'Normal', reason: 'EvacuatorRegistered', message });
    return true;
  }

  /** Reports whether the scheduling gate keeps the successor of this DaemonSet pod off the node. */
  #isGated(pod: Pod): boolean {
    const node = this.#cluster.nodes.get(pod.spec.nodeName ?? '');
    return (
      node !== undefined && gatingMaintenance(pod, node, this.#cluster.maintenances.list()) !== undefined
    );
  }

  /** Reports whether the Evacuation waits for the agent of its node, and that agent is alive and able to stop the pod. */
  async #awaitsLiveAgent(evacuation: Evacuation, pod: Pod): Promise<boolean> {
    const { nodeName = '' } = pod.spec;
    if (evacuation.status?.activeEvacuatorClass !== STATIC_POD_EVACUATOR) return false;
    if (podTypeOf(pod) !== 'Static' || hasResponded(evacuation) || !mayHaveAgent(nodeName)) return false;
    const { kube } = this.#cluster;
    try {
      return canStopStaticPods(nodeAgentOf(await readAgentLease(kube, nodeName), kube.now()));
    } catch (error) {
      if (!isRejection(error)) throw error;
      return false;
    }
  }

  /** Returns the instigators of the evacuation, for Events. */
  instigatorsOf(evacuation: Evacuation, pod: Pod): string {
    return describeInstigators(evacuation, this.maintenancesOf(pod));
  }

  /** Returns the maintenances that drain the node of the pod, by name. */
  maintenancesOf(pod: Pod): NodeMaintenance[] {
    const node = this.#cluster.nodes.get(pod.spec.nodeName ?? '');
    const draining = node === undefined ? [] : drainingMaintenances(node, this.#cluster.maintenances.list());
    return draining.toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  }

  forget({ metadata, spec }: Evacuation): void {
    this.#warned.delete(metadata.uid ?? '');
    this.#registration?.forget(spec.podRef.uid);
  }

  async #apply(evacuation: Evacuation, pod: Pod, step: NextStep): Promise<HandoverResult> {
    const now = this.#cluster.kube.now();
    switch (step.kind) {
      case 'Evict':
        return step;
      case 'Skip':
        await this.#skip(evacuation, pod);
        return { kind: 'Wait' };
      case 'Activate':
        await this.#activate(evacuation, pod, step);
        return { kind: 'Wait' };
      case 'Exhausted':
        await this.#exhaust(evacuation, pod, step.after);
        return { kind: 'Wait' };
      case 'ResetProgress':
        await this.#resetProgress(evacuation, now.toISOString());
        return { kind: 'Wait' };
      case 'AwaitProgress':
        return { kind: 'Wait', requeueAfterMs: Math.min(step.deadlineMs - now.getTime(), maxWaitMs) };
      default:
        return assertNever(step);
    }
  }

  /** An evacuator that has not responded still has not: its silence shows in two times that are equal. */
  async #resetProgress(evacuation: Evacuation, now: string): Promise<void> {
    await this.#patchStatus(evacuation, {
      ...(!hasResponded(evacuation) && { activeEvacuatorSince: now }),
      evacuationProgressTimestamp: now,
    });
  }

  async #activate(
    evacuation: Evacuation,
    pod: Pod,
    { evacuatorClass, after }: Extract<NextStep, { kind: 'Activate' }>,
  ): Promise<void> {
    const next = successorsOf(evacuation, evacuatorClass, pod);
    const at = this.#cluster.kube.now();
    const now = at.toISOString();
    const conditions = evacuation.status?.conditions ?? [];
    await this.#patchStatus(evacuation, {
      // What blocked the previous evacuator, or an eviction before the evacuators were registered, blocks this one no more.
      ...(isTrue(conditions, blockedCondition) && {
        conditions: [...blockedConditions(conditions, undefined, at)],
      }),
      activeEvacuatorClass: evacuatorClass,
      activeEvacuatorSince: now,
      activeEvacuatorCompleted: false,
      evacuationProgressTimestamp: now,
      expectedEvacuationFinishTime: null,
      message: activationMessage(evacuation, evacuatorClass, pod),
    });
    if (after !== undefined) this.#recordHandOver(evacuation, pod, after);
    const subject = `pod ${pod.metadata.name} from node ${pod.spec.nodeName}`;
    const deadline = `progress deadline ${deadlineSecondsOf(evacuation)} s`;
    this.#record(evacuation, pod, {
      type: 'Normal',
      reason: 'EvacuatorActivated',
      message: `Asked ${evacuatorClass} to evacuate ${subject} for ${this.instigatorsOf(evacuation, pod)}; ${deadline}; next: ${next}.`,
    });
  }

  async #exhaust(evacuation: Evacuation, pod: Pod, after: HandOver): Promise<void> {
    const cause = this.#causeOf(evacuation, after);
    const message = `${cause} No evacuator remains; the pod is being evicted.`;
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
    this.#recordHandOver(evacuation, pod, after);
  }

  async #skip(evacuation: Evacuation, pod: Pod): Promise<void> {
    const message =
      podTypeOf(pod) === 'Static'
        ? 'Pods of type Static are never evicted, and this pod has no evacuator.'
        : 'The drain targets of the node do not include this pod of a DaemonSet, and it has no evacuator.';
    if (evacuation.status?.message === message) return;
    await this.#patchStatus(evacuation, { message });
  }

  #recordHandOver(evacuation: Evacuation, pod: Pod, after: HandOver): void {
    this.#record(evacuation, pod, {
      type: after.reason === HandOverReason.Completed ? 'Normal' : 'Warning',
      reason: after.reason,
      message: this.#causeOf(evacuation, after),
    });
  }

  #causeOf(evacuation: Evacuation, after: HandOver): string {
    const { responseSeconds } = this.#known;
    return handOverMessage(after, { progressSeconds: deadlineSecondsOf(evacuation), responseSeconds });
  }

  /** "Never blocks the drain": an invalid annotation is reported once, and ignored. */
  #warn(evacuation: Evacuation, pod: Pod, problems: readonly string[]): void {
    const { uid = '' } = evacuation.metadata;
    if (this.#warned.has(uid)) return;
    this.#warned.add(uid);
    const message = `Ignored ${joinedProblems(problems)}. The pod is evacuated by its other evacuators, or evicted.`;
    this.#record(evacuation, pod, { type: 'Warning', reason: 'MalformedEvacuator', message });
  }

  /** Records an Event on the pod, which its owners watch, and on the Evacuation. */
  #record(evacuation: Evacuation, pod: Pod, event: EventContent): void {
    this.#events.record(aboutPod(pod), { ...event, related: evacuation, node: pod.spec.nodeName });
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

/** In a merge patch, null removes a field. */
type Nullable<T> = { [K in keyof T]: T[K] | null };
