import type { LifecycleEviction, ResponderStatus } from '../../api/lifecycle.ts';
import { MAX_RESPONDER_MESSAGE_LENGTH, MIN_RESPONDER_HEARTBEAT_SECONDS } from '../../api/names.ts';
import { oneLine } from '../common/text.ts';
import { isFinal } from '../evacuation/evictionRequest.ts';
import { activeResponder, respondersOf } from './responders.ts';
import { latestTime, timeText } from './times.ts';

/** Progress that a responder reports. */
export interface Report {
  readonly message: string;
  readonly expectedCompletionTime?: Date | undefined;
  /** The clock of the apiserver. */
  readonly now: Date;
}

/** Returns what the responder has reported if it is to act now: it is Active, and has not completed. */
export function assignmentOf(eviction: LifecycleEviction, name: string): ResponderStatus | undefined {
  if (eviction.metadata.deletionTimestamp !== undefined || isFinal(eviction)) return undefined;
  const active = activeResponder(respondersOf(eviction));
  if (active?.target.name !== name || active.status.completionTime !== undefined) return undefined;
  return active.status;
}

/** A heartbeat with the same message is written this often: several are missed before the deadline. */
const sameMessageMs = 300_000;

/** Returns how long to wait before the report may be written; 0: now. */
export function reportDelayMs(status: ResponderStatus, { message, now }: Report): number {
  if (status.heartbeatTime === undefined) return 0;
  const isSame = status.message === messageText(message);
  const intervalMs = isSame ? sameMessageMs : MIN_RESPONDER_HEARTBEAT_SECONDS * 1_000;
  return Math.max(0, Date.parse(status.heartbeatTime) + intervalMs - now.getTime());
}

/** The apiserver accepts no expected time that is further away. */
const latestExpectedMs = 10 * 365 * 86_400_000 - 86_400_000;

/** Returns the status with a heartbeat. The clocks of two processes differ, but a time never goes back. */
export function withHeartbeat(
  status: ResponderStatus,
  { message, expectedCompletionTime, now }: Report,
): ResponderStatus {
  const { startTime, heartbeatTime } = status;
  return {
    ...status,
    heartbeatTime: latestTime(now, startTime, heartbeatTime),
    ...expectedTime(expectedCompletionTime, now),
    message: messageText(message),
  };
}

function expectedTime(time: Date | undefined, now: Date): Pick<ResponderStatus, 'expectedCompletionTime'> {
  const distanceMs = (time?.getTime() ?? Number.NaN) - now.getTime();
  if (time === undefined || Number.isNaN(distanceMs)) return {};
  const allowedMs = Math.min(Math.max(distanceMs, 0), latestExpectedMs);
  return { expectedCompletionTime: timeText(new Date(now.getTime() + allowedMs)) };
}

/** Returns the status of a responder that waits: its message changes, and its deadline does not. */
export function withMessage(status: ResponderStatus, message: string): ResponderStatus {
  return { ...status, message: messageText(message) };
}

/** Returns the status of a responder that has completed. */
export function withCompletion(status: ResponderStatus, { message, now }: Report): ResponderStatus {
  const { startTime, heartbeatTime } = status;
  return {
    ...status,
    completionTime: latestTime(now, startTime, heartbeatTime),
    message: messageText(message),
  };
}

/** Returns the list with the status of one responder replaced, for a patch: a list in a merge patch replaces the whole list. */
export function replacedResponder(
  { status }: LifecycleEviction,
  next: ResponderStatus,
): readonly ResponderStatus[] {
  return (status?.responders ?? []).map((one) => (one.name === next.name ? next : one));
}

function messageText(message: string): string {
  return oneLine(message, MAX_RESPONDER_MESSAGE_LENGTH);
}
