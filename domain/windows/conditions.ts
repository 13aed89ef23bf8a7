import type { ConditionFacts } from '../common/conditions.ts';

/** The state of a window's Schedule in Temporal. */
export type ScheduleState =
  | { kind: 'UpToDate' }
  | { kind: 'Suspended' }
  | { kind: 'PausedInTemporal'; note: string }
  | { kind: 'InvalidSpec' }
  /** Temporal is unavailable. */
  | { kind: 'Unknown'; message: string }
  | { kind: 'Rejected'; message: string };

/** Returns condition Valid: the window can be scheduled. `problems` are sentences that begin with the field. */
export function validCondition(problems: readonly string[]): ConditionFacts {
  return problems.length === 0
    ? { type: 'Valid', status: 'True', reason: 'Valid', message: '' }
    : { type: 'Valid', status: 'False', reason: 'Invalid', message: `${problems.join('; ')}.` };
}

/** Returns condition Scheduled: the window opens at its times. */
export function scheduledCondition(state: ScheduleState): ConditionFacts {
  switch (state.kind) {
    case 'UpToDate':
      return scheduled('True', 'Scheduled', '');
    case 'Suspended':
      return scheduled(
        'False',
        'Suspended',
        'spec.suspend is true: the window does not open until it is false.',
      );
    case 'PausedInTemporal':
      return scheduled(
        'False',
        'PausedInTemporal',
        `The Schedule was paused in Temporal (${state.note || 'no note'}): the window does not open until the Schedule is unpaused there.`,
      );
    case 'InvalidSpec':
      return scheduled('False', 'InvalidSpec', 'The window does not open: see condition Valid.');
    case 'Unknown':
      return scheduled('Unknown', 'TemporalUnavailable', `Temporal is unavailable: ${state.message}`);
    case 'Rejected':
      return scheduled('False', 'Rejected', `Temporal rejected the Schedule: ${state.message}`);
  }
}

function scheduled(status: ConditionFacts['status'], reason: string, message: string): ConditionFacts {
  return { type: 'Scheduled', status, reason, message };
}
