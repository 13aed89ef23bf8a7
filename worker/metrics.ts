import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { Cluster } from '../kube/cluster.ts';
import type { RequestObservation } from '../kube/transport.ts';
import type { Answer } from './http.ts';
import type { IdentityLease } from './identity.ts';
import { observeLeases } from './leaseMetrics.ts';
import { observeWindows } from './windowMetrics.ts';

export interface Metrics {
  onRequest: (observation: RequestObservation) => void;
  onNotice: (outcome: 'sent' | 'failed' | 'given_up') => void;
  /** Adds the gauges that are read from the informers at each scrape. */
  observe(cluster: Cluster): void;
  /** Adds what is known of this process's own Lease. */
  observeIdentity(identity: IdentityLease): void;
  /** The text of a scrape: ours, then that of Temporal's SDK where it runs, which has an endpoint of its own. */
  scrape(sdkAddress?: string): Promise<string>;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: 'node_maintenance_kube_requests_total',
    help: 'Requests to the Kubernetes API; status 0 had no answer.',
    labelNames: ['verb', 'resource', 'status'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'node_maintenance_kube_request_seconds',
    help: 'Duration of requests to the Kubernetes API.',
    labelNames: ['verb'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
    registers: [registry],
  });
  const notices = new Counter({
    name: 'node_maintenance_notices_total',
    help: 'Notices to the receiver: sent, attempts that failed, and given up.',
    labelNames: ['outcome'],
    registers: [registry],
  });
  for (const outcome of ['sent', 'failed', 'given_up']) notices.inc({ outcome }, 0);
  return {
    onNotice: (outcome) => notices.inc({ outcome }),
    onRequest({ verb, resource, status, seconds: duration }) {
      requests.inc({ verb, resource, status: String(status ?? 0) });
      seconds.observe({ verb }, duration);
    },
    observe: (cluster) => {
      observeCluster(registry, cluster);
      observeLeases(registry, cluster);
      observeWindows(registry, cluster);
    },
    observeIdentity: (identity) => observeIdentity(registry, identity),
    scrape: async (sdkAddress) => {
      if (sdkAddress === undefined) return registry.metrics();
      const sdk = await fetch(`http://${sdkAddress}/metrics`);
      return `${await registry.metrics()}\n${await sdk.text()}`;
    },
  };
}

/** The answer to Prometheus. */
export async function scraped(metrics: Metrics, sdkAddress?: string): Promise<Answer> {
  return { status: 200, type: 'text/plain; version=0.0.4', body: await metrics.scrape(sdkAddress) };
}

function observeCluster(registry: Registry, { maintenances, evacuations }: Cluster): void {
  new Gauge({
    name: 'node_maintenance_maintenances',
    help: 'NodeMaintenances by stage.',
    labelNames: ['stage'],
    registers: [registry],
    collect() {
      this.reset();
      for (const { spec } of maintenances.list()) this.inc({ stage: spec.stage });
    },
  });
  new Gauge({
    name: 'node_maintenance_evacuations',
    help: 'Evacuations that exist.',
    registers: [registry],
    collect() {
      this.set(evacuations.list().length);
    },
  });
}

function observeIdentity(registry: Registry, identity: IdentityLease): void {
  new Gauge({
    name: 'node_maintenance_identity_lease_renewed_seconds_ago',
    help: 'Time since the last renewal of the identity Lease of this process.',
    registers: [registry],
    collect() {
      this.set(identity.sinceRenewal);
    },
  });
  new Counter({
    name: 'node_maintenance_identity_lease_errors_total',
    help: 'Failures to renew the identity Lease of this process, or to collect expired ones.',
    registers: [registry],
    collect() {
      this.reset();
      this.inc(identity.errors);
    },
  });
}
