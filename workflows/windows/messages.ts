import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { NodesRequest } from '../../api/windowInput.ts';
import type { WindowRunProgress } from './run.ts';

export const windowProgress = defineQuery<WindowRunProgress>('progress');

// Signals and updates share their names. Only updates return a response, and are rejected when they are invalid.
export const windowSignals = {
  approve: defineSignal<[NodesRequest?]>('approve'),
  advance: defineSignal<[NodesRequest?]>('advance'),
  cancel: defineSignal<[unknown?]>('cancel'),
  pause: defineSignal<[unknown?]>('pause'),
  resume: defineSignal<[unknown?]>('resume'),
};
export const windowUpdates = {
  approve: defineUpdate<WindowRunProgress, [NodesRequest?]>('approve'),
  advance: defineUpdate<WindowRunProgress, [NodesRequest?]>('advance'),
  cancel: defineUpdate<WindowRunProgress, [unknown?]>('cancel'),
  pause: defineUpdate<WindowRunProgress, [unknown?]>('pause'),
  resume: defineUpdate<WindowRunProgress, [unknown?]>('resume'),
};
