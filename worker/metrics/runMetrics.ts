import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import type { Gauge, Registry } from 'prom-client';
import { type ClusterScope, MAINTENANCE_WINDOW, NODE_MAINTENANCE } from '../../api/names.ts';
import type { TemporalAvailability } from '../../controllers/temporalAvailability.ts';
import { stalledCondition } from '../../domain/common/stalledRun.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { metricDefinitions } from './definitions.ts';
import { oldest } from './oldest.ts';
import { registerGauge } from './register.ts';

/** Registers the metric of the objects whose workflow makes no progress. */
export function observeStalledRuns(registry: Registry, { maintenances, windows }: Cluster): void {
  registerGauge(registry, metricDefinitions.stalled, (gauge) => {
    const objects = [
      ...maintenances.list().map((object) => ({ kind: NODE_MAINTENANCE.kind, object })),
      ...windows.list().map((object) => ({ kind: MAINTENANCE_WINDOW.kind, object })),
    ];
    const stalled = objects.flatMap(({ kind, object }) => {
      const condition = stalledCondition(object.status?.conditions);
      return condition === undefined ? [] : [{ kind, object, reason: condition.reason }];
    });
    for (const { kind, object, reason } of oldest(stalled))
      gauge.set({ kind, name: object.metadata.name, reason }, 1);
  });
}

const workflowTypes = ['nodeMaintenance', 'maintenanceWindow', 'notify'] as const;

/** Counts are requests to the visibility store of Temporal, which is slower than the rest of it. */
const countEveryMs = 15_000;
const countTimeoutMs = 10_000;

export interface OpenRunsDeps {
  temporal: Client;
  availability: TemporalAvailability;
  scope: ClusterScope;
  log: Log;
}

/** Counts the open runs of this cluster until the signal aborts. While Temporal does not answer there are no series. */
export async function countOpenRuns(gauge: Gauge, deps: OpenRunsDeps, leading: AbortSignal): Promise<void> {
  const { temporal, availability, log } = deps;
  const count = () => temporal.withDeadline(Date.now() + countTimeoutMs, () => countEach(gauge, deps));
  try {
    while (!leading.aborted) {
      if (availability.outage() !== undefined) gauge.reset();
      else
        await temporal.withAbortSignal(leading, count).catch((error: unknown) => {
          gauge.reset();
          if (!leading.aborted) log.debug('Open runs could not be counted', { error: errorMessage(error) });
        });
      await sleep(countEveryMs, undefined, { signal: leading }).catch(() => undefined);
    }
  } finally {
    gauge.reset();
  }
}

async function countEach(gauge: Gauge, { temporal, scope: { names } }: OpenRunsDeps): Promise<void> {
  const taskQueues = [names.taskQueue, names.notificationTaskQueue].map((name) => `"${name}"`).join(', ');
  for (const type of workflowTypes) {
    const query = `WorkflowType = "${type}" AND ExecutionStatus = "Running" AND TaskQueue IN (${taskQueues})`;
    const { count } = await temporal.workflow.count(query);
    gauge.set({ type }, count);
  }
}
