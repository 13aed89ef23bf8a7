import type { IdleMeasurement } from './idle.ts';
import type { BlockedMeasurement, BudgetMeasurement, DrainMeasurement } from './measure.ts';
import { programCpuMsPerPod } from './programCpu.ts';
import type { TakeOverMeasurement } from './takeOver.ts';
import { isOurs } from './targetNames.ts';

/** A figure of a run. Its title names it in printed tables, in recorded files and in docs/performance.md. */
export interface Column<T> {
  title: string;
  value: (run: T) => number | undefined;
  digits: number;
}

export const drainColumns: readonly Column<DrainMeasurement>[] = [
  { title: 'deleted s', value: ({ wallSeconds }) => wallSeconds, digits: 2 },
  { title: 'reported s', value: ({ reportedSeconds }) => reportedSeconds, digits: 2 },
  { title: 'pods/s', value: ({ pods, wallSeconds }) => pods / wallSeconds, digits: 1 },
  { title: 'requests/pod', value: ({ requests, pods }) => requests.total / pods, digits: 2 },
  { title: 'own count/pod', value: ({ ownRequests, pods }) => ownRequests && ownRequests / pods, digits: 2 },
  { title: 'rejected', value: ({ requests }) => requests.rejected, digits: 0 },
  { title: 'RSS MB', value: ({ residentMb }) => residentMb, digits: 0 },
  { title: 'history', value: ({ historyEvents }) => historyEvents, digits: 0 },
  { title: 'history KB', value: ({ historyBytes }) => historyBytes && historyBytes / 1_000, digits: 0 },
  { title: 'cordon s', value: ({ firstCordonSeconds }) => firstCordonSeconds, digits: 2 },
  { title: 'eviction s', value: ({ firstEvictionSeconds }) => firstEvictionSeconds, digits: 2 },
  { title: 'silent s', value: ({ silentSeconds }) => silentSeconds, digits: 2 },
  { title: 'CPU ms/pod', value: programCpuMsPerPod, digits: 1 },
  {
    title: 'apiserver CPU ms/pod',
    value: ({ cpuSeconds, pods }) => perPod(cpuSeconds['kube-apiserver'], pods),
    digits: 1,
  },
  {
    title: 'Temporal CPU ms/pod',
    value: ({ target, cpuSeconds, pods }) =>
      isOurs(target) ? perPod(cpuSeconds['temporal'], pods) : undefined,
    digits: 1,
  },
  { title: 'settling s', value: ({ settling }) => settling.seconds, digits: 2 },
  { title: 'start s', value: ({ startSeconds }) => startSeconds, digits: 2 },
];

function perPod(seconds: number | undefined, pods: number): number | undefined {
  return seconds === undefined ? undefined : (seconds * 1_000) / pods;
}

export const blockedColumns: readonly Column<BlockedMeasurement>[] = [
  { title: 'rejected/s', value: ({ rejectedPerSecond }) => rejectedPerSecond, digits: 2 },
  { title: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond, digits: 2 },
];

export const budgetColumns: readonly Column<BudgetMeasurement>[] = [
  ...drainColumns,
  { title: 'first wait s', value: ({ budgetStartSeconds }) => budgetStartSeconds, digits: 2 },
  { title: 'longest wait s', value: ({ longestWait }) => longestWait, digits: 2 },
  { title: 'p99 wait s', value: ({ p99Wait }) => p99Wait, digits: 2 },
];

export const idleColumns: readonly Column<IdleMeasurement>[] = [
  { title: 'nodes', value: ({ nodes }) => nodes, digits: 0 },
  { title: 'pods', value: ({ pods }) => pods, digits: 0 },
  { title: 'start s', value: ({ startSeconds }) => startSeconds, digits: 2 },
  { title: 'RSS MB', value: ({ residentMb }) => residentMb.idle, digits: 0 },
  { title: 'peak MB', value: ({ residentMb }) => residentMb.peak, digits: 0 },
  { title: 'requests/s', value: ({ requestsPerSecond }) => requestsPerSecond, digits: 2 },
  { title: 'cores', value: ({ cores }) => cores['worker'], digits: 3 },
  { title: 'apiserver cores', value: ({ cores }) => cores['kube-apiserver'], digits: 3 },
  { title: 'CPU ms per churned pod', value: ({ churnMsPerPod }) => churnMsPerPod, digits: 2 },
];

export const takeOverColumns: readonly Column<TakeOverMeasurement>[] = [
  { title: 'first eviction s', value: ({ firstEviction }) => firstEviction, digits: 2 },
  { title: 'drain continues s', value: ({ drainContinues }) => drainContinues, digits: 2 },
  { title: 'start s', value: ({ start }) => start, digits: 2 },
];
