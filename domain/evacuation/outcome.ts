import type { Evacuation } from '../../api/evacuation.ts';

/** How the evacuation of a pod ended. */
export const EvacuationOutcome = {
  /** The pod left while an evacuator was responsible for it. */
  Evacuator: 'Evacuator',
  /** The pod left after the eviction API had accepted its eviction. */
  Evicted: 'Evicted',
  /** The pod left otherwise: it finished, or a user deleted it. */
  Gone: 'Gone',
  /** The pod stayed: nothing requests its evacuation any more. */
  Withdrawn: 'Withdrawn',
} as const;
export type EvacuationOutcome = (typeof EvacuationOutcome)[keyof typeof EvacuationOutcome];

/** Returns the outcome of an Evacuation that was deleted. */
export function outcomeOf(
  { status }: Pick<Evacuation, 'status'>,
  pod: { stays: boolean; wasEvicted: boolean },
): EvacuationOutcome {
  if (pod.wasEvicted) return EvacuationOutcome.Evicted;
  if (pod.stays) return EvacuationOutcome.Withdrawn;
  return status?.activeEvacuatorClass === undefined ? EvacuationOutcome.Gone : EvacuationOutcome.Evacuator;
}
