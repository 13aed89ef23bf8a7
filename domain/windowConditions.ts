import type { ConditionFacts } from './conditions.ts';

/** What is known of a window's Schedule in Temporal. */
export type ScheduleState =
  | { kind: 'AsWanted' }
  | { kind: 'Suspended' }
  | { kind: 'PausedInTemporal'; note: string }
  | { kind: 'NotValid' }
  /** Temporal does not answer. */
  | { kind: 'Unknown'; message: string }
  | { kind: 'Refused'; message: string };

/** Whether the window can be scheduled as it is; `problems` are sentences that begin with the field. */
export function validCondition(problems: readonly string[]): ConditionFacts {
  return problems.length === 0
    ? { type: 'Valid', status: 'True', reason: 'Valid', message: '' }
    : { type: 'Valid', status: 'False', reason: 'Invalid', message: `${problems.join('; ')}.` };
}

/** Whether the window opens at its times. */
export function scheduledCondition(state: ScheduleState): ConditionFacts {
  const not = (reason: string, message: string): ConditionFacts => ({
    type: 'Scheduled',
    status: 'False',
    reason,
    message,
  });
  switch (state.kind) {
    case 'AsWanted':
      return { type: 'Scheduled', status: 'True', reason: 'Scheduled', message: '' };
    case 'Suspended':
      return not('Suspended', 'spec.suspend is true: no window opens until it is false.');
    case 'PausedInTemporal':
      return not(
        'PausedInTemporal',
        `Somebody paused the Schedule in Temporal (${state.note || 'without a note'}): no window opens until it is unpaused there.`,
      );
    case 'NotValid':
      return not('NotValid', 'No window opens: condition Valid says what is to be corrected.');
    case 'Unknown':
      return {
        type: 'Scheduled',
        status: 'Unknown',
        reason: 'TemporalUnavailable',
        message: `Temporal does not answer: ${state.message}`,
      };
    case 'Refused':
      return not('Refused', `Temporal refuses the Schedule: ${state.message}`);
  }
}
