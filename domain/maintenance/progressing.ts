import type { Condition } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { type ConditionFacts, isTrue } from '../common/conditions.ts';
import { hasStarted, isCompleted, isDrained, stageOf } from '../common/stage.ts';
import { isObserved } from './runNeed.ts';

/** Condition of a NodeMaintenance whose workflow could not start or advance. A maintenance that has never waited for it does not have one. */
const PROGRESSING = 'Progressing';

/** Reports whether the workflow of the maintenance has something to do: a stage to start, a drain to advance, or nodes to uncordon. */
export function needsWorkflow(maintenance: Readonly<NodeMaintenance>): boolean {
  const { status } = maintenance;
  const stage = stageOf(maintenance);
  if (stage === 'Complete') return !isCompleted(maintenance);
  if (!isObserved(maintenance) || !hasStarted(maintenance, stage)) return true;
  return stage === 'Drain' && !isDrained(maintenance) && !isTrue(status?.conditions, 'Paused');
}

/**
 * Returns the condition that the maintenance should have; undefined if the one that it has stays. `outage` is why Temporal is
 * unavailable. The text of an outage stays the same while it lasts, so that it costs one write for each maintenance.
 */
export function progressingCondition(
  maintenance: Readonly<NodeMaintenance>,
  outage: string | undefined,
): ConditionFacts | undefined {
  const isReported = progressProblemOf(maintenance) !== undefined;
  const isWaiting = outage !== undefined && needsWorkflow(maintenance);
  if (isWaiting === isReported) return undefined;
  return isWaiting
    ? {
        type: PROGRESSING,
        status: 'False',
        reason: 'TemporalUnavailable',
        message: `Temporal is unavailable: ${outage}. The maintenance starts and advances when Temporal is available again. Until then its nodes stay as they are, and pods that have an Evacuation are evacuated.`,
      }
    : {
        type: PROGRESSING,
        status: 'True',
        reason: 'TemporalAvailable',
        message:
          outage === undefined ? 'Temporal is available again.' : 'Nothing is left that requires Temporal.',
      };
}

/** Returns the condition Progressing if it is False. */
export function progressProblemOf({ status }: Readonly<NodeMaintenance>): Condition | undefined {
  return status?.conditions.find(
    (condition) => condition.type === PROGRESSING && condition.status === 'False',
  );
}
