import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { ObservedStage } from '../../activities/contract.ts';
import type { AdvanceRequest } from '../../api/maintenanceInput.ts';
import type { DetailsSnapshot } from '../../domain/maintenance/detailsSnapshot.ts';
import type { Progress } from './run.ts';

/**
 * State of the object with this UID as the maintenance controller observed it, and the user who changed its spec last, if known. Any client may
 * send it: it only says that there is something to read.
 */
export type Observation = ObservedStage & { uid: string; requestedBy?: string };

export const progress = defineQuery<Progress>('progress');
export const observe = defineSignal<[Observation]>('observe');
/** Updates the current details when an intervention is required; other changes are shown after the next activity. */
export const refreshDetails = defineSignal<[{ uid: string; details: DetailsSnapshot }]>('refreshDetails');

// Signals and updates share their names. Only updates return a response, and are rejected when they are invalid.
export const advanceSignal = defineSignal<[AdvanceRequest?]>('advance');
export const cancelSignal = defineSignal<[unknown?]>('cancel');
export const pauseSignal = defineSignal<[unknown?]>('pause');
export const resumeSignal = defineSignal<[unknown?]>('resume');
export const advanceUpdate = defineUpdate<Progress, [AdvanceRequest?]>('advance');
export const cancelUpdate = defineUpdate<Progress, [unknown?]>('cancel');
export const pauseUpdate = defineUpdate<Progress, [unknown?]>('pause');
export const resumeUpdate = defineUpdate<Progress, [unknown?]>('resume');
