import { collectDefaultMetrics, Registry } from 'prom-client';
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
  /** Adds the gauges that are read from the informers at each scrape. */
  observe(cluster: Cluster): void;
  /** Adds the metrics of the identity Lease of this process. */
  observeIdentity(identity: IdentityLease): void;
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
  for (const outcome of ['sent', 'failed', 'dropped']) notifications.inc({ outcome }, 0);
  return {
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

function observeCluster(registry: Registry, { maintenances, evacuations }: Cluster): void {
  registerGauge(registry, metricDefinitions.maintenances, (gauge) => {
    for (const { spec } of maintenances.list()) gauge.inc({ stage: spec.stage });
  });
  registerGauge(registry, metricDefinitions.evacuations, (gauge) => gauge.set(evacuations.list().length));
}

function observeIdentity(registry: Registry, identity: IdentityLease): void {
  const { identityLeaseRenewed, identityLeaseErrors } = metricDefinitions;
  registerGauge(registry, identityLeaseRenewed, (gauge) => gauge.set(identity.renewedAtSeconds));
  registerCounterOf(registry, identityLeaseErrors, () => identity.errors);
}
