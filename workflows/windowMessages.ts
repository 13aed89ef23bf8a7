import { defineQuery, defineSignal, defineUpdate } from '@temporalio/workflow';
import type { NodesRequest } from '../api/windowInput.ts';
import type { WindowAnswer } from './windowRun.ts';

export const windowProgress = defineQuery<WindowAnswer>('progress');

// The same words as signals (fire and forget) and as updates (answered, refused when they make no sense).
export const windowSignals = {
  approve: defineSignal<[NodesRequest?]>('approve'),
  advance: defineSignal<[NodesRequest?]>('advance'),
  cancel: defineSignal('cancel'),
  pause: defineSignal('pause'),
  resume: defineSignal('resume'),
};
export const windowUpdates = {
  approve: defineUpdate<WindowAnswer, [NodesRequest?]>('approve'),
  advance: defineUpdate<WindowAnswer, [NodesRequest?]>('advance'),
  cancel: defineUpdate<WindowAnswer>('cancel'),
  pause: defineUpdate<WindowAnswer>('pause'),
  resume: defineUpdate<WindowAnswer>('resume'),
};
