import { sdkMetrics } from '../../worker/metrics/definitions.ts';
import type { WorkerProcess } from './worker.ts';

/** Returns the port at which a worker serves its metrics. */
export function metricsPortOf(worker: WorkerProcess): number {
  return Number(/"metrics":(\d+)/.exec(worker.log())?.[1]);
}

/** Returns the value of a series, which is given with its labels in order; undefined if it does not exist. */
export function valueOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((one) => one.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

/** Returns how the exposed metrics of Temporal's SDK differ from their documentation, one sentence each. */
export function sdkMetricProblems(text: string): string[] {
  return sdkMetrics.flatMap(({ name, type, labels }) => {
    const exposed = new RegExp(`^# TYPE ${name} (\\w+)$`, 'm').exec(text)?.[1];
    if (exposed === undefined) return [];
    if (exposed !== type) return [`${name} is a ${exposed}`];
    const series = text.match(new RegExp(`^${name}(?:_bucket|_count)?\\{[^}]*\\}`, 'gm')) ?? [];
    // Requests about no namespace have no label for it.
    const missing = labels.filter(
      (label) => !series.some((one) => one.includes(`,${label}="`) || one.includes(`{${label}="`)),
    );
    return missing.map((label) => `${name} has no label ${label}: ${series[0] ?? 'no series'}`);
  });
}
