import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import { ORDERED_BY_ANNOTATION, STARTED_BY, WINDOW_LABEL } from '../api/names.ts';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { CloudEvent, Notice } from '../api/notice.ts';
import { mayPass } from '../domain/blocker.ts';
import { judgeAnswer, type ReceiverAnswer } from '../domain/delivery.ts';
import type { BlockedPod } from '../domain/drain.ts';
import { blocked as blockedNotice, type NoticedMaintenance, type NoticedWindow } from '../domain/notices.ts';
import { podName } from '../domain/pod.ts';
import { wordsOf } from '../kube/errors.ts';
import type { NoticeActivities } from './contract.ts';

/** Where notices go out. Without a receiver nothing does. */
export interface Outbox {
  /** Resolves when it is as durable as the maintenance itself. Putting it out again, with the same id, changes nothing. */
  put(notice: Notice): Promise<void>;
  /** The receiver has not got it, and will not get it. */
  lost(event: CloudEvent, because: string): void;
}

/** How long a budget may be used up, or a pod be late, before that is news. Milliseconds. */
const passingFor = 300_000;
/** At a time: a thousand pods that are stuck are no more news than the first of them. */
const mostCauses = 20;

export interface Delivering {
  /** Rejects when there is no answer. */
  post: (event: CloudEvent, signal: AbortSignal) => Promise<ReceiverAnswer>;
  onOutcome: (outcome: 'sent' | 'failed') => void;
}

/** Sends one notice. */
export function deliverer({ post, onOutcome }: Delivering): Pick<NoticeActivities, 'deliver'> {
  return {
    deliver: async (event) => {
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

async function deliver(post: Delivering['post'], event: CloudEvent): Promise<void> {
  const answer = await post(event, Context.current().cancellationSignal).catch((error: unknown) => {
    throw failure(`no answer from the receiver: ${wordsOf(error)}`);
  });
  const outcome = judgeAnswer(answer, Date.now());
  switch (outcome.kind) {
    case 'Delivered':
      return;
    case 'Refused':
      throw failure(`the receiver refused it: ${outcome.because}`, { nonRetryable: true });
    case 'TryAgain':
      throw failure(
        `the receiver cannot take it now: ${outcome.because}`,
        outcome.afterMs === undefined ? {} : { nextRetryDelay: outcome.afterMs },
      );
  }
}

function failure(
  message: string,
  options: { nonRetryable?: boolean; nextRetryDelay?: number } = {},
): ApplicationFailure {
  return ApplicationFailure.create({ type: 'NotDelivered', message, ...options });
}

/** Tells of what a drain is blocked by. What it remembers only spares requests: a notice is put out once. */
export class BlockedNotices {
  readonly #notices: Outbox;
  /** Cause -> since when it has been there. Milliseconds. */
  #since: ReadonlyMap<string, number> = new Map();
  readonly #told = new Set<string>();

  constructor(notices: Outbox) {
    this.#notices = notices;
  }

  /** What needs a person is told at once, what may pass by itself when it stays. A drain does not wait for it, and is not failed by it. */
  tell(maintenance: NodeMaintenance, blocked: readonly BlockedPod[], now: Date): void {
    const causes = new Map(blocked.map((one) => [one.blocker.message, one] as const));
    this.#since = new Map(
      [...causes.keys()].map((cause) => [cause, this.#since.get(cause) ?? now.getTime()] as const),
    );
    for (const cause of this.#told) if (!causes.has(cause)) this.#told.delete(cause);
    for (const [cause, { pod, blocker }] of causes) {
      const lasts = now.getTime() - (this.#since.get(cause) ?? 0);
      if (this.#told.has(cause) || (mayPass(blocker) && lasts < passingFor)) continue;
      if (this.#told.size >= mostCauses) return;
      this.#told.add(cause);
      const about = { pod: podName(pod), node: pod.spec.nodeName ?? '', blocker };
      const notice = blockedNotice(noticedMaintenance(maintenance), about, now.toISOString());
      const { log } = Context.current();
      void this.#notices.put(notice).catch((error: unknown) => {
        log.warn('Notice is put out later', { id: notice.id, error: wordsOf(error) });
        this.#told.delete(cause);
      });
    }
  }
}

export function noticedMaintenance({ metadata, spec }: NodeMaintenance): NoticedMaintenance {
  const { name, uid = '', annotations = {}, labels = {} } = metadata;
  const by = annotations[ORDERED_BY_ANNOTATION] ?? annotations[STARTED_BY];
  const window = labels[WINDOW_LABEL];
  return {
    name,
    uid,
    ...(spec.reason && { reason: spec.reason }),
    ...(by !== undefined && { by }),
    ...(window !== undefined && { window }),
  };
}

export function noticedWindow({ metadata: { name, uid = '' }, status }: MaintenanceWindow): NoticedWindow {
  return { name, uid, status };
}
