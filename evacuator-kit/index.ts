/** The public API for authors of evacuators, documented in README.md. */
export type { Evacuation } from '@node-maintenance/api';
export type { LivePod } from '../kube/livePod.ts';
export type { Log } from '../kube/log.ts';
export type { Evacuate } from './evacuate.ts';
export { EvacuationStopped, type Progress, type ProgressReport, StopReason } from './progress.ts';
export { runEvacuator, type RunOptions } from './run.ts';
