import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { REQUESTED_BY_ANNOTATION, STARTED_BY, WINDOW_LABEL } from '../../api/names.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { CloudEvent, Notification } from '../../api/notification.ts';
import { isTransient } from '../../domain/evacuation/blocker.ts';
import { cut } from '../../domain/common/text.ts';
import { cloudEventProblem } from '../../domain/notifications/cloudEvent.ts';
import { deliveryResultOf, type EndpointResponse } from '../../domain/notifications/delivery.ts';
import type { BlockedPod } from '../../domain/drain/decide.ts';
import {
  blocked as blockedNotification,
  type NotifiedMaintenance,
  type NotifiedWindow,
} from '../../domain/notifications/events.ts';
import { podName } from '../../domain/common/pod.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { NotificationActivities } from '../contract.ts';

/** Accepts notifications for delivery. Without an endpoint it discards them. */
export interface NotificationOutbox {
  /** Resolves when the notification is as durable as the maintenance itself. A second call with the same `id` changes nothing. */
  enqueue(notification: Notification): Promise<void>;
  /** Records that the notification will not be delivered. */
  dropped(event: CloudEvent, reason: string): void;
}

/** A transient cause is reported after it has blocked a drain for this long. */
const transientBlockMs = 300_000;
/** Limits the causes that are reported at a time: the first ones suffice when a thousand pods are stuck. */
const maxReportedCauses = 20;

const maxReasonLength = 1_000;

export interface DeliveryOptions {
  /** Rejects when there is no response. */
  post: (event: CloudEvent, signal: AbortSignal) => Promise<EndpointResponse>;
  onOutcome: (outcome: 'sent' | 'failed') => void;
}

/** Creates the activity that sends one notification. */
export function createDeliverActivity({
  post,
  onOutcome,
}: DeliveryOptions): Pick<NotificationActivities, 'deliver'> {
  return {
    deliver: async (event) => {
      const problem = cloudEventProblem(event);
      if (problem !== undefined) throw failure(problem, { nonRetryable: true });
      try {
        await deliver(post, event);
        onOutcome('sent');
      } catch (error) {
        onOutcome('failed');
        throw error;
      }
    },
  };
}

/** Activity: logs and counts an event that will not be delivered. Ignores what no worker has enqueued. */
export function recordDropped(
  { notifications }: { notifications: NotificationOutbox },
  event: unknown,
  reason: unknown,
): void {
  if (cloudEventProblem(event) !== undefined) return;
  notifications.dropped(event as CloudEvent, cut(String(reason), maxReasonLength));
}

async function deliver(post: DeliveryOptions['post'], event: CloudEvent): Promise<void> {
  const response = await post(event, Context.current().cancellationSignal).catch((error: unknown) => {
    throw failure(`the endpoint did not respond: ${errorMessage(error)}`);
  });
  const result = deliveryResultOf(response, Date.now());
  switch (result.kind) {
    case 'Delivered':
      return;
    case 'Rejected':
      throw failure(`the endpoint rejected the notification: ${result.reason}`, { nonRetryable: true });
    case 'Retry':
      throw failure(
        `the endpoint is not available: ${result.reason}`,
        result.afterMs === undefined ? {} : { nextRetryDelay: result.afterMs },
      );
  }
}

function failure(
  message: string,
  options: { nonRetryable?: boolean; nextRetryDelay?: number } = {},
): ApplicationFailure {
  return ApplicationFailure.create({ type: 'NotDelivered', message, ...options });
}

/**
 * Reports the causes that block a drain. Its memory only saves requests: the outbox accepts each notification once, also
 * from another worker.
 */
export class BlockedNotifications {
  readonly #outbox: NotificationOutbox;
  /** Time at which each cause was first observed. */
  #firstObservedMs: ReadonlyMap<string, number> = new Map();
  readonly #reported = new Set<string>();

  constructor(outbox: NotificationOutbox) {
    this.#outbox = outbox;
  }

  /**
   * Enqueues a notification for each new cause: at once if it requires intervention, after five minutes if it is transient. Neither
   * delays nor fails the drain.
   */
  enqueue(maintenance: NodeMaintenance, blocked: readonly BlockedPod[], now: Date): void {
    const causes = new Map(blocked.map((one) => [one.blocker.message, one] as const));
    this.#forgetOthers(causes, now);
    for (const [cause, blockedPod] of causes) {
      if (this.#reported.has(cause) || !this.#isDue(cause, blockedPod, now)) continue;
      if (this.#reported.size >= maxReportedCauses) return;
      this.#reported.add(cause);
      this.#enqueue(cause, maintenance, blockedPod, now);
    }
  }

  #forgetOthers(causes: ReadonlyMap<string, BlockedPod>, now: Date): void {
    const known = this.#firstObservedMs;
    this.#firstObservedMs = new Map(
      [...causes.keys()].map((cause) => [cause, known.get(cause) ?? now.getTime()] as const),
    );
    for (const cause of this.#reported) if (!causes.has(cause)) this.#reported.delete(cause);
  }

  #isDue(cause: string, { blocker }: BlockedPod, now: Date): boolean {
    const blockedMs = now.getTime() - (this.#firstObservedMs.get(cause) ?? 0);
    return !isTransient(blocker) || blockedMs >= transientBlockMs;
  }

  #enqueue(cause: string, maintenance: NodeMaintenance, { pod, blocker }: BlockedPod, now: Date): void {
    const about = { pod: podName(pod), node: pod.spec.nodeName ?? '', blocker };
    const notification = blockedNotification(notifiedMaintenanceOf(maintenance), about, now.toISOString());
    const { log } = Context.current();
    void this.#outbox.enqueue(notification).catch((error: unknown) => {
      log.warn('Notification could not be enqueued, retrying', {
        id: notification.id,
        error: errorMessage(error),
      });
      this.#reported.delete(cause);
    });
  }
}

export function notifiedMaintenanceOf({ metadata, spec }: NodeMaintenance): NotifiedMaintenance {
  const { name, uid = '', annotations = {}, labels = {} } = metadata;
  const by = annotations[REQUESTED_BY_ANNOTATION] ?? annotations[STARTED_BY];
  const window = labels[WINDOW_LABEL];
  return {
    name,
    uid,
    ...(spec.reason && { reason: spec.reason }),
    ...(by !== undefined && { by }),
    ...(window !== undefined && { window }),
  };
}

export function notifiedWindowOf({
  metadata: { name, uid = '' },
  status,
}: MaintenanceWindow): NotifiedWindow {
  return { name, uid, status };
}
