import { WindowOverrideAnnotation, WORK_NAMESPACE } from '../../api/names.ts';
import type { ConditionFacts } from '../common/conditions.ts';
import type { WindowStop } from './overrides.ts';

/** The state of a window's Schedule in Temporal. */
export type ScheduleState =
  | { kind: 'UpToDate' }
  | { kind: 'Suspended'; stop: WindowStop }
  | { kind: 'PausedInTemporal'; note: string }
  | { kind: 'InvalidSpec' }
  /** Temporal is unavailable. */
  | { kind: 'Unknown'; message: string }
  | { kind: 'Rejected'; message: string }
  /** The worker does not have the key of its payloads. */
  | { kind: 'Unreadable'; message: string };

/** Message about a window that runs a Job, and may not: it names the remedies of an administrator. */
export const jobsNotEnabledMessage = `spec.work: Jobs of windows are not enabled, because the worker may not create Jobs in namespace ${WORK_NAMESPACE}: apply deploy/window-jobs (Helm chart: windowJobs.enabled; npm start -- --install --window-jobs), or set spec.work.type to None.`;

/** Problems that keep a window from being scheduled. */
export interface WindowProblems {
  /** Sentences that begin with the field. */
  fields: readonly string[];
  /** The window runs a Job, and the worker may not create Jobs. */
  areJobsMissing: boolean;
}

/** Returns condition Valid: the window can be scheduled. */
export function validCondition({ fields, areJobsMissing }: WindowProblems): ConditionFacts {
  const jobs = areJobsMissing ? jobsNotEnabledMessage : undefined;
  if (fields.length > 0) {
    const message = [`${fields.join('; ')}.`, jobs].filter((text) => text !== undefined).join(' ');
    return { type: 'Valid', status: 'False', reason: 'Invalid', message };
  }
  return jobs === undefined
    ? { type: 'Valid', status: 'True', reason: 'Valid', message: '' }
    : { type: 'Valid', status: 'False', reason: 'JobsNotEnabled', message: jobs };
}

/** Returns condition Scheduled: the window opens at its times. */
export function scheduledCondition(state: ScheduleState): ConditionFacts {
  switch (state.kind) {
    case 'UpToDate':
      return scheduled('True', 'Scheduled', '');
    case 'Suspended':
      return suspended(state.stop);
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
    case 'Unreadable':
      return scheduled(
        'Unknown',
        'KeyMissing',
        `The Schedule cannot be read: ${state.message}. ${keyIsLost}`,
      );
  }
}

function suspended({ suspend, paused }: WindowStop): ConditionFacts {
  if (paused === undefined)
    return scheduled(
      'False',
      'Suspended',
      'spec.suspend is true: the window does not open until it is false.',
    );
  const also = suspend ? ' spec.suspend is true as well.' : '';
  return scheduled(
    'False',
    'Paused',
    `The window is paused (${paused}): it does not open until kubectl maintenance window resume removes the annotation ${WindowOverrideAnnotation.Paused}.${also}`,
  );
}

const keyIsLost =
  'If the key is lost, delete the Schedule (temporal schedule delete), and the worker creates it again.';

function scheduled(status: ConditionFacts['status'], reason: string, message: string): ConditionFacts {
  return { type: 'Scheduled', status, reason, message };
}
