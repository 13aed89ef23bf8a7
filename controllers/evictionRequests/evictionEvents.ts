import type { Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import {
  EVICTION_REQUEST,
  EvictionReason,
  LIFECYCLE_EVICTION,
  RESPONDER_HEARTBEAT_DEADLINE_SECONDS,
} from '../../api/names.ts';
import { EvictionEnd, evictionEnd } from '../../domain/evictionRequests/conditions.ts';
import { activeResponder, overdueResponder, respondersOf } from '../../domain/evictionRequests/responders.ts';
import { aboutPod, type EventRecorder, type EventSubject } from '../../kube/events.ts';

/** Records what users need to know about Evictions. */
export class EvictionEvents {
  readonly #events: EventRecorder;

  constructor({ events }: { events: EventRecorder }) {
    this.#events = events;
  }

  /** Records what a write has changed. Returns how the Eviction has ended if it has now. */
  record(before: LifecycleEviction, after: LifecycleEviction, pod: Pod | undefined): EvictionEnd | undefined {
    const subject = pod === undefined ? subjectOf(after, LIFECYCLE_EVICTION) : aboutPod(pod);
    const overdue = overdueResponder(before, after);
    if (pod !== undefined && overdue !== undefined) {
      const next = activeResponder(respondersOf(after))?.target.name ?? 'none';
      const message = `Responder ${overdue} has not reported for ${RESPONDER_HEARTBEAT_DEADLINE_SECONDS / 60} minutes; next: ${next}.`;
      this.#events.record(subject, {
        type: 'Warning',
        reason: 'ResponderInterrupted',
        message,
        related: subjectOf(after, LIFECYCLE_EVICTION),
        node: pod.spec.nodeName,
      });
    }
    const end = evictionEnd(before) === undefined ? evictionEnd(after) : undefined;
    if (end === EvictionEnd.NoFurtherResponder) {
      const message = `No responder of Eviction ${after.metadata.name} has evicted the pod.`;
      this.#events.record(subject, { type: 'Warning', reason: 'EvictionFailed', message });
    }
    return end;
  }

  /** Records that a request is invalid. */
  recordRequest(before: EvictionRequest, after: EvictionRequest): void {
    const invalid = after.status?.conditions?.find(({ reason }) => reason === EvictionReason.EvictionInvalid);
    const wasInvalid = before.status?.conditions?.some(({ reason }) => reason === invalid?.reason);
    if (invalid === undefined || wasInvalid === true) return;
    const { message } = invalid;
    this.#events.record(subjectOf(after, EVICTION_REQUEST), {
      type: 'Warning',
      reason: 'EvictionInvalid',
      message,
    });
  }
}

/** Names the kind, which the apiserver leaves out of the items of a list. */
function subjectOf(
  { metadata: { name, namespace, uid } }: EvictionRequest | LifecycleEviction,
  { apiVersion, kind }: { apiVersion: string; kind: string },
): EventSubject {
  return { apiVersion, kind, metadata: { name, ...(namespace && { namespace }), ...(uid && { uid }) } };
}
