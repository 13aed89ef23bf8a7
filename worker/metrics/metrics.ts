import { collectDefaultMetrics, Registry } from 'prom-client';
import { EvacuationOutcome } from '../../domain/evacuation/outcome.ts';
import { EvictionEnd } from '../../domain/evictionRequests/conditions.ts';
import type { InstallationReview } from '../../domain/installation/review.ts';
import type { Answer, Rejection } from '../../http/server.ts';
import type { Cluster } from '../../kube/cluster.ts';
import type { LeaderElectionMetrics } from '../../kube/leaderElection.ts';
import type { RequestObservation } from '../../kube/transport.ts';
import type { WorkQueueObserver } from '../../kube/workQueue.ts';
import type { IdentityLease } from '../identity.ts';
import { metricDefinitions } from './definitions.ts';
import { observeElections } from './leaderMetrics.ts';
import { observeLeases } from './leaseMetrics.ts';
import { observeDrains, observeMaintenances } from './maintenanceMetrics.ts';
import { observeQueues } from './queueMetrics.ts';
import {
  registerCounter,
  registerCounterOf,
  registerGauge,
  registerHistogram,
  registerSettableGauge,
} from './register.ts';
import { countOpenRuns, observeStalledRuns, type OpenRunsDeps } from './runMetrics.ts';
import { observeWindows } from './windowMetrics.ts';

/** Prometheus itself waits for 10 s by default. */
const sdkTimeoutMs = 5_000;

export interface Metrics {
  onRequest: (observation: RequestObservation) => void;
  onRejection: (server: string, reason: Rejection) => void;
  onNotification: (outcome: 'sent' | 'failed' | 'dropped') => void;
  onDecryptionFailure: () => void;
  onRestart: (workflow: 'nodeMaintenance' | 'maintenanceWindow') => void;
  onRetention: (retention: { actualSeconds: number; requiredSeconds: number }) => void;
  onInstallation: (review: Pick<InstallationReview, 'counts' | 'unknownFields'>) => void;
  /** Observes the work queues of the control loops. */
  queues: WorkQueueObserver;
  /** Observes the leader elections that this process takes part in. */
  elections: LeaderElectionMetrics;
  onEvacuationEnd: (outcome: EvacuationOutcome) => void;
  onEvictionEnd: (end: EvictionEnd) => void;
  /** Counts the drains that end, until the signal aborts. */
  observeDrains(cluster: Pick<Cluster, 'maintenances'>, leading: AbortSignal): Promise<void>;
  /** Counts the open runs, until the signal aborts. */
  observeRuns(deps: OpenRunsDeps, leading: AbortSignal): Promise<void>;
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
  const decryptionFailures = registerCounter(registry, metricDefinitions.decryptionFailures);
  const restarts = registerCounter(registry, metricDefinitions.workflowRestarts);
  for (const workflow of ['nodeMaintenance', 'maintenanceWindow']) restarts.inc({ workflow }, 0);
  for (const outcome of ['sent', 'failed', 'dropped']) notifications.inc({ outcome }, 0);
  const drainSeconds = registerHistogram(registry, metricDefinitions.drainDuration);
  const openRuns = registerSettableGauge(registry, metricDefinitions.openRuns);
  let retention: Parameters<Metrics['onRetention']>[0] | undefined;
  registerGauge(registry, metricDefinitions.historyRetention, (gauge) => {
    if (retention !== undefined) gauge.set(retention.actualSeconds);
  });
  registerGauge(registry, metricDefinitions.historyRetentionRequired, (gauge) => {
    if (retention !== undefined) gauge.set(retention.requiredSeconds);
  });
  return {
    queues: observeQueues(registry),
    elections: observeElections(registry),
    ...countEnds(registry),
    observeDrains: (cluster, leading) => observeDrains(drainSeconds, cluster, leading),
    observeRuns: (deps, leading) => countOpenRuns(openRuns, deps, leading),
    onRestart: (workflow) => restarts.inc({ workflow }),
    onRetention: (observed) => (retention = observed),
    onInstallation: observeInstallation(registry),
    onRejection: (server, reason) => rejections.inc({ server, reason }),
    onDecryptionFailure: () => decryptionFailures.inc(),
    onNotification: (outcome) => notifications.inc({ outcome }),
    onRequest({ verb, resource, status, seconds }) {
      requests.inc({ verb, resource, status: String(status ?? 0) });
      requestSeconds.observe({ verb }, seconds);
    },
    observe: (cluster) => {
      observeMaintenances(registry, cluster);
      observeStalledRuns(registry, cluster);
      observeLeases(registry, cluster);
      observeWindows(registry, cluster);
      registerGauge(registry, metricDefinitions.watchesConnected, (gauge) =>
        gauge.set(cluster.isFollowing() ? 1 : 0),
      );
    },
    observeIdentity: (identity) => observeIdentity(registry, identity),
    observeTemporal: (isConnected) => {
      registerGauge(registry, metricDefinitions.temporalConnected, (gauge) =>
        gauge.set(isConnected() ? 1 : 0),
      );
    },
    scrape: async (sdkAddress) => {
      if (sdkAddress === undefined) return registry.metrics();
      const [own, sdk] = await Promise.all([registry.metrics(), sdkMetrics(sdkAddress)]);
      return `${own}\n${sdk}`;
    },
  };
}

/** Returns the metrics of Temporal's SDK; empty while it does not answer, such as when it cannot connect: then ours count most. */
async function sdkMetrics(address: string): Promise<string> {
  try {
    const response = await fetch(`http://${address}/metrics`, { signal: AbortSignal.timeout(sdkTimeoutMs) });
    return await response.text();
  } catch {
    return '';
  }
}

/** Counts evacuations and evictions that have ended, each outcome from 0. */
function countEnds(registry: Registry): Pick<Metrics, 'onEvacuationEnd' | 'onEvictionEnd'> {
  const evacuations = registerCounter(registry, metricDefinitions.podEvacuations);
  for (const outcome of Object.values(EvacuationOutcome)) evacuations.inc({ outcome }, 0);
  const evictions = registerCounter(registry, metricDefinitions.evictions);
  for (const outcome of Object.values(EvictionEnd)) evictions.inc({ outcome }, 0);
  return {
    onEvacuationEnd: (outcome) => evacuations.inc({ outcome }),
    onEvictionEnd: (outcome) => evictions.inc({ outcome }),
  };
}

/** Returns the response to Prometheus. */
export async function metricsAnswer(metrics: Metrics, sdkAddress?: string): Promise<Answer> {
  return { status: 200, type: 'text/plain; version=0.0.4', body: await metrics.scrape(sdkAddress) };
}

/** Returns a function that sets what the gauges show. They have no series before. */
function observeInstallation(registry: Registry): Metrics['onInstallation'] {
  let latest: Parameters<Metrics['onInstallation']>[0] | undefined;
  registerGauge(registry, metricDefinitions.installedManifests, (gauge) => {
    for (const [state, count] of Object.entries(latest?.counts ?? {})) gauge.set({ state }, count);
  });
  registerGauge(registry, metricDefinitions.unknownFields, (gauge) => {
    if (latest !== undefined) gauge.set(latest.unknownFields.length);
  });
  return (review) => (latest = review);
}

function observeIdentity(registry: Registry, identity: IdentityLease): void {
  const { identityLeaseRenewed, identityLeaseErrors } = metricDefinitions;
  registerGauge(registry, identityLeaseRenewed, (gauge) => gauge.set(identity.renewedAtSeconds));
  registerCounterOf(registry, identityLeaseErrors, () => identity.errors);
}
