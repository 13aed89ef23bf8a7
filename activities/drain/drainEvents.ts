import type { DrainTier, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { capacityCondition, type CapacityFacts, CapacityReason } from '../../domain/capacity/condition.ts';
import type { ConditionFacts } from '../../domain/common/conditions.ts';
import { listed } from '../../domain/common/names.ts';
import { podName } from '../../domain/common/pod.ts';
import { numbered } from '../../domain/common/text.ts';
import type { DrainDecision } from '../../domain/drain/decide.ts';
import { type RemainingPod, remainingText } from '../../domain/drain/remaining.ts';
import { type BlockerReason, requiresIntervention } from '../../domain/evacuation/blocker.ts';
import { EVICTION_REQUESTS_SERVED } from '../../domain/evacuation/serving.ts';
import { aboutPod } from '../../kube/events.ts';
import type { InjectedDeps } from '../injectedDeps.ts';
import type { View } from '../view.ts';

/** Records the Events of a drain, each fact once. */
export class DrainEvents {
  readonly #deps: Pick<InjectedDeps, 'cluster' | 'events'>;
  readonly #recorded = new Set<string>();
  #capacity: string | undefined;
  #unserved: string | undefined;

  constructor(deps: Pick<InjectedDeps, 'cluster' | 'events'>) {
    this.#deps = deps;
  }

  record(maintenance: NodeMaintenance, decision: DrainDecision): void {
    this.#recordFastForwarded(maintenance, decision);
    if (decision.overruled.length > 0) this.#recordConflict(maintenance, decision.overruled);
    this.#recordBlocked(maintenance, decision);
  }

  /** Records once that pods wait, until they fit again, and every deadlock: the condition has the current pods. */
  recordCapacity(maintenance: NodeMaintenance, facts: CapacityFacts): void {
    const { status, reason, message } = capacityCondition(facts);
    if (status === 'False' && !facts.waits && reason !== CapacityReason.Deadlock) return;
    // Seconds at most.
    if (reason === CapacityReason.VolumesUnknown || (status === 'True' && !facts.isComplete)) return;
    const isDeadlock = reason === CapacityReason.Deadlock;
    const fact = status === 'True' ? undefined : isDeadlock ? message : reason;
    if (fact === this.#capacity) return;
    this.#capacity = fact;
    if (fact === undefined) return;
    this.#deps.events.record(maintenance, {
      type: 'Warning',
      reason: isDeadlock ? 'CapacityDeadlock' : 'CapacityUnavailable',
      message,
    });
  }

  /** Records once that no controller serves EvictionRequests, until one does. */
  recordServing(maintenance: NodeMaintenance, { status, reason, message }: ConditionFacts): void {
    const fact = status === 'False' ? reason : undefined;
    const known = maintenance.status?.conditions.find(
      ({ type }) => type === EVICTION_REQUESTS_SERVED,
    )?.reason;
    if (fact === this.#unserved || status === 'Unknown') return;
    this.#unserved = fact;
    // Another process may have recorded it.
    if (fact === undefined || fact === known) return;
    this.#deps.events.record(maintenance, { type: 'Warning', reason: 'EvictionRequestsNotServed', message });
  }

  recordTierDrained({ maintenance, nodes }: View, { number, total }: DrainTier): void {
    const next = number < total ? `; tier ${number + 1} is next` : '';
    this.#deps.events.record(maintenance, {
      type: 'Normal',
      reason: 'TierDrained',
      message: `Tier ${number} of ${total} is drained on ${numbered(nodes.length, 'node')}${next}.`,
    });
  }

  recordDrained({ maintenance, nodes }: View, { remaining }: DrainDecision): void {
    if (remaining.length > 0) this.#recordRemaining(maintenance, remaining);
    this.#deps.events.record(maintenance, {
      type: 'Normal',
      reason: 'Drained',
      message: `All pods that can be evacuated have left ${numbered(nodes.length, 'node')}.`,
    });
  }

  /** "We can at least emit an event saying that we are fast-forwarding" (KEP-4212 > Pod Selection and DrainTargets Example). */
  #recordFastForwarded(maintenance: NodeMaintenance, { fastForwarded }: DrainDecision): void {
    const added = fastForwarded.filter(({ node, by }) => this.#isNew(`${node} ${by}`));
    for (const by of new Set(added.map((one) => one.by))) {
      const nodes = added.filter((one) => one.by === by).map(({ node }) => node);
      const [noun, verb] = nodes.length > 1 ? ['Nodes', 'are'] : ['Node', 'is'];
      const message = `${noun} ${listed(nodes)} ${verb} ${by}: pods are evacuated before the drain plan of this maintenance targets them.`;
      this.#deps.events.record(maintenance, { type: 'Warning', reason: 'FastForwarded', message });
    }
  }

  /** Records the conflict on every maintenance that takes part in it. */
  #recordConflict(maintenance: NodeMaintenance, overruled: readonly string[]): void {
    if (!this.#isNew(`overruled ${overruled.join(' ')}`)) return;
    const { cluster, events } = this.#deps;
    const { name } = maintenance.metadata;
    const younger = listed(overruled);
    const message = `The drain plans of ${listed([name, ...overruled])} select or order the same pods differently, and each waits for the other: the oldest, ${name}, proceeds; ${younger} ${overruled.length > 1 ? 'are' : 'is'} fast-forwarded.`;
    const others = overruled.flatMap((other) => cluster.maintenances.get(other) ?? []);
    for (const one of [maintenance, ...others])
      events.record(one, { type: 'Warning', reason: 'DrainPlansConflict', message });
  }

  /** Records one pod for each cause: a budget that blocks a thousand pods is one Event. */
  #recordBlocked(maintenance: NodeMaintenance, { blocked }: DrainDecision): void {
    for (const { pod, blocker } of blocked) {
      if (!this.#isNew(blocker.message)) continue;
      this.#deps.events.record(maintenance, {
        type: requiresIntervention(blocker) ? 'Warning' : 'Normal',
        // Every Blocker has one of these reasons, but its status field is a string.
        reason: blocker.reason as BlockerReason,
        message: `Pod ${podName(pod)} cannot leave node ${pod.spec.nodeName}: ${blocker.message}`,
        related: aboutPod(pod),
      });
    }
  }

  #recordRemaining(maintenance: NodeMaintenance, remaining: readonly RemainingPod[]): void {
    const pods = remaining.length === 1 ? '1 static pod keeps' : `${remaining.length} static pods keep`;
    const message = `${pods} running: ${remainingText(remaining)}.`;
    this.#deps.events.record(maintenance, { type: 'Warning', reason: 'StaticPodsRemain', message });
  }

  #isNew(fact: string): boolean {
    const isNew = !this.#recorded.has(fact);
    this.#recorded.add(fact);
    return isNew;
  }
}
