/** The public API for authors of evacuators, documented in README.md. */
export type { Evacuation } from '../api/evacuation.ts';
export type { Log } from '../kube/log.ts';
export { type Evacuate, Evacuator, type EvacuatorOptions, type LivePod } from './evacuator.ts';
export { runEvacuator, type RunOptions } from './run.ts';
export { EvacuationStopped, type Progress, type ProgressReport, StopReason } from './session.ts';
