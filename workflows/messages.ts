import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { Interrupted } from '../activities/contract.ts';
import type { AdvanceRequest } from '../api/maintenanceInput.ts';
import type { Glance } from '../domain/glance.ts';
import type { Progress } from './run.ts';

/** What the maintenance controller saw on the object with this UID, and who has changed its spec last, as far as is known. */
export type Observation = Interrupted & { uid: string; orderedBy?: string };

export const progress = defineQuery<Progress>('progress');
export const observe = defineSignal<[Observation]>('observe');
/** What has come to need a person, told when it does: everything else on the page can wait for the next activity. */
export const glance = defineSignal<[{ uid: string; glance: Glance }]>('glance');

// The same words as signals (fire and forget) and as updates (answered, refused when they make no sense).
export const advanceSignal = defineSignal<[AdvanceRequest?]>('advance');
export const cancelSignal = defineSignal('cancel');
export const pauseSignal = defineSignal('pause');
export const resumeSignal = defineSignal('resume');
export const advanceUpdate = defineUpdate<Progress, [AdvanceRequest?]>('advance');
export const cancelUpdate = defineUpdate<Progress>('cancel');
export const pauseUpdate = defineUpdate<Progress>('pause');
export const resumeUpdate = defineUpdate<Progress>('resume');
