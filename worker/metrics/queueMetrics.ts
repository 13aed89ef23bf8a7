import type { Registry } from 'prom-client';
import type { ObservedQueue, WorkQueueObserver } from '../../kube/workQueue.ts';
import { metricDefinitions } from './definitions.ts';
import { registerCounter, registerGauge, registerHistogram } from './register.ts';

/** Registers the metrics of the work queues, and returns the observer that fills them. */
export function observeQueues(registry: Registry): WorkQueueObserver {
  const queues = new Set<ObservedQueue>();
  const gauges: [QueueGauge, (queue: ObservedQueue) => number][] = [
    [metricDefinitions.queueDepth, ({ length }) => length],
    [metricDefinitions.queueUnfinished, (queue) => sum(queue.workingSeconds())],
    [metricDefinitions.queueLongestRunning, (queue) => Math.max(0, ...queue.workingSeconds())],
  ];
  for (const [definition, read] of gauges)
    registerGauge(registry, definition, (gauge) => {
      for (const queue of queues) gauge.set({ name: queue.name }, read(queue));
    });
  const waited = registerHistogram(registry, metricDefinitions.queueDuration);
  const worked = registerHistogram(registry, metricDefinitions.queueWorkDuration);
  const retries = registerCounter(registry, metricDefinitions.queueRetries);
  return {
    started: (queue) => {
      queues.add(queue);
      retries.inc({ name: queue.name }, 0);
      return () => queues.delete(queue);
    },
    taken: (name, seconds) => waited.observe({ name }, seconds),
    done: (name, seconds) => worked.observe({ name }, seconds),
    retried: (name) => retries.inc({ name }),
  };
}

type Definitions = typeof metricDefinitions;
type QueueGauge = Extract<
  Definitions[keyof Definitions],
  { name: `node_maintenance_workqueue_${string}`; type: 'gauge' }
>;

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
