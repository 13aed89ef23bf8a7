import { collectDefaultMetrics, Registry } from 'prom-client';
import { MAINTENANCE_WINDOW, NODE_MAINTENANCE } from '../../api/names.ts';
import { stalledCondition } from '../../domain/common/stalledRun.ts';
import { progressProblemOf } from '../../domain/maintenance/progressing.ts';
import type { Answer, Rejection } from '../../http/server.ts';
import type { Cluster } from '../../kube/cluster.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import type { IdentityLease } from '../identity.ts';
import { metricDefinitions } from './definitions.ts';
import { observeLeases } from './leaseMetrics.ts';
import { registerCounter, registerCounterOf, registerGauge, registerHistogram } from './register.ts';
import { observeWindows } from './windowMetrics.ts';

/** Prometheus itself waits for 10 s by default. */
const sdkTimeoutMs = 5_000;

export interface Metrics {
  onRequest: (observation: RequestObservation) => void;
  onRejection: (server: string, reason: Rejection) => void;
  onNotification: (outcome: 'sent' | 'failed' | 'dropped') => void;
  onRestart: (workflow: 'nodeMaintenance' | 'maintenanceWindow') => void;
  onRetention: (retention: { actualSeconds: number; requiredSeconds: number }) => void;
  /** Adds the gauges that are read from the informers at each scrape. */
  observe(cluster: Cluster): void;
  /** Adds the metrics of the identity Lease of this process. */
  observeIdentity(identity: IdentityLease): void;
  /** Adds the metric of the connection to Temporal. */
  observeTemporal(isConnected: () => boolean): void;
  /** Returns the metrics as text: ours, then those of Temporal's SDK, if it serves them at this address. */
  scrape(sdkAddress?: string): Promise<string>;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const requests = registerCounter(registry, metricDefinitions.kubeRequests);
  const requestSeconds = registerHistogram(registry, metricDefinitions.kubeRequestDuration);
  const rejections = registerCounter(registry, metricDefinitions.httpRejections);
  const notifications = registerCounter(registry, metricDefinitions.notifications);
  const restarts = registerCounter(registry, metricDefinitions.workflowRestarts);
  for (const workflow of ['nodeMaintenance', 'maintenanceWindow']) restarts.inc({ workflow }, 0);
  for (const outcome of ['sent', 'failed', 'dropped']) notifications.inc({ outcome }, 0);
  let retention: Parameters<Metrics['onRetention']>[0] | undefined;
  registerGauge(registry, metricDefinitions.historyRetention, (gauge) => {
    if (retention !== undefined) gauge.set(retention.actualSeconds);
  });
  registerGauge(registry, metricDefinitions.historyRetentionRequired, (gauge) => {
    if (retention !== undefined) gauge.set(retention.requiredSeconds);
  });
  return {
    onRestart: (workflow) => restarts.inc({ workflow }),
    onRetention: (observed) => (retention = observed),
    onRejection: (server, reason) => rejections.inc({ server, reason }),
    onNotification: (outcome) => notifications.inc({ outcome }),
    onRequest({ verb, resource, status, seconds }) {
      requests.inc({ verb, resource, status: String(status ?? 0) });
      requestSeconds.observe({ verb }, seconds);
    },
    observe: (cluster) => {
      observeCluster(registry, cluster);
      observeLeases(registry, cluster);
      observeWindows(registry, cluster);
    },
    observeIdentity: (identity) => observeIdentity(registry, identity),
    observeTemporal: (isConnected) => {
      registerGauge(registry, metricDefinitions.temporalConnected, (gauge) =>
        gauge.set(isConnected() ? 1 : 0),
      );
    },
    scrape: async (sdkAddress) => {
      if (sdkAddress === undefined) return registry.metrics();
      const signal = AbortSignal.timeout(sdkTimeoutMs);
      const sdk = await fetch(`http://${sdkAddress}/metrics`, { signal });
      return `${await registry.metrics()}\n${await sdk.text()}`;
    },
  };
}

/** Returns the response to Prometheus. */
export async function metricsAnswer(metrics: Metrics, sdkAddress?: string): Promise<Answer> {
  return { status: 200, type: 'text/plain; version=0.0.4', body: await metrics.scrape(sdkAddress) };
}

function observeCluster(registry: Registry, { maintenances, windows, evacuations }: Cluster): void {
  registerGauge(registry, metricDefinitions.maintenances, (gauge) => {
    for (const { spec } of maintenances.list()) gauge.inc({ stage: spec.stage });
  });
  registerGauge(registry, metricDefinitions.maintenancesNotProgressing, (gauge) => {
    for (const maintenance of maintenances.list()) {
      const problem = progressProblemOf(maintenance);
      if (problem !== undefined) gauge.inc({ reason: problem.reason });
    }
  });
  registerGauge(registry, metricDefinitions.stalled, (gauge) => {
    const objects = [
      ...maintenances.list().map((object) => ({ kind: NODE_MAINTENANCE.kind, object })),
      ...windows.list().map((object) => ({ kind: MAINTENANCE_WINDOW.kind, object })),
    ];
    for (const { kind, object } of objects) {
      const { metadata, status } = object;
      const condition = stalledCondition(status?.conditions);
      if (condition !== undefined) gauge.set({ kind, name: metadata.name, reason: condition.reason }, 1);
    }
  });
  registerGauge(registry, metricDefinitions.evacuations, (gauge) => gauge.set(evacuations.list().length));
}

function observeIdentity(registry: Registry, identity: IdentityLease): void {
  const { identityLeaseRenewed, identityLeaseErrors } = metricDefinitions;
  registerGauge(registry, identityLeaseRenewed, (gauge) => gauge.set(identity.renewedAtSeconds));
  registerCounterOf(registry, identityLeaseErrors, () => identity.errors);
}
