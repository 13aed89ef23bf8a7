import { hostname } from 'node:os';
import type { Registry } from 'prom-client';
import type { LifecycleEviction } from '../api/lifecycle.ts';
import { connectKube, type FencedKube, type Kube } from '../kube/client.ts';
import { type EvacuationView, watchEvacuations, watchEvictions } from '../kube/cluster.ts';
import { defaultNamespace, type KubeConfigChoice } from '../kube/config.ts';
import type { Informer } from '../kube/informer.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import { toLivePod } from '../kube/livePod.ts';
import type { Log } from '../kube/log.ts';
import { defaultLog } from './defaultLog.ts';
import type { Evacuate } from './evacuate.ts';
import { stopTimeoutMs } from './calls.ts';
import { Evacuator } from './evacuator.ts';
import { requireClass } from './evacuatorClass.ts';
import { EvacuatorMetrics } from './metrics.ts';
import type { EvacuatePod } from './protocol.ts';
import { checkCluster } from './preflight.ts';
import { requireResponderName, Responder } from './responder.ts';
import { type Health, serve } from './serve.ts';

export interface RunOptions extends KubeConfigChoice {
  /** Class of the evacuator, for example `migrate.example.com`: a DNS subdomain of at most 54 characters. */
  readonly evacuatorClass: string;
  readonly evacuate: Evacuate;
  /**
   * Name under which the same function also serves Evictions of lifecycle.k8s.io (alpha in Kubernetes 1.37), for example `example.com/migrate`, in
   * `.spec.evictionResponders` of pods. Default: it serves Evacuations only.
   */
  readonly responderName?: string | undefined;
  /** Restricts the evacuator to the pods of one namespace. Default: all namespaces. */
  readonly namespace?: string | undefined;
  /** Namespace of the Lease for the leader election among replicas. Default: the namespace of this process. */
  readonly leaseNamespace?: string | undefined;
  /** Maximum number of pods that are evacuated in parallel. Others wait while their deadlines run. Default: 1000. */
  readonly maxConcurrent?: number | undefined;
  /** Port of /healthz and /readyz, on all addresses. Default: not served. */
  readonly healthPort?: number | undefined;
  /** Port of /metrics for Prometheus, on all addresses. Default: not served. */
  readonly metricsPort?: number | undefined;
  /** A registry of prom-client with metrics of your own, to which those of the evacuator are added. Default: a new one, with those of the process. */
  readonly registry?: Registry | undefined;
  /** Logger. Default: JSON lines on standard output, without those of level debug. */
  readonly log?: Log | undefined;
  /** Stops the evacuator. Default: SIGTERM and SIGINT stop it. */
  readonly signal?: AbortSignal | undefined;
}

/**
 * Another replica becomes the leader when the Lease has not been renewed for leaseDurationSeconds. By then the former leader
 * has stopped its calls, with a margin of two seconds.
 */
const leaseDurationSeconds = 15;
const renewDeadlineSeconds = leaseDurationSeconds - stopTimeoutMs / 1_000 - 2;

/** State that the parts of a running evacuator share. */
interface Running {
  readonly options: RunOptions;
  readonly kube: Kube;
  readonly leaseNamespace: string;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly health: Health;
  readonly metrics: EvacuatorMetrics;
}

/**
 * Runs an evacuator as a process. Only the leader of its replicas acts. Resolves when the evacuator was stopped and all calls
 * have ended. Throws an Error with a one-line message for problems that waiting does not solve: an invalid class, no kubeconfig,
 * a port that is taken, missing permissions, or a cluster without the Evacuation API.
 */
export async function runEvacuator(options: RunOptions): Promise<void> {
  const { evacuatorClass, namespace, log = defaultLog(), signal = stopSignal() } = options;
  requireClass(evacuatorClass);
  if (options.responderName !== undefined) requireResponderName(options.responderName);
  const leaseNamespace = options.leaseNamespace ?? namespace ?? defaultNamespace(options);
  const metrics = new EvacuatorMetrics(options.registry);
  const userAgent = `evacuator/${evacuatorClass}`;
  const kube = connectKube({ ...options, userAgent, log, onRequest: metrics.onRequest });
  const health: Health = { isReady: false };
  const { healthPort, metricsPort } = options;
  try {
    const closeServers = await serve({ healthPort, metricsPort }, { health, metrics, log });
    try {
      await run({ options, kube, leaseNamespace, log, signal, health, metrics });
    } finally {
      closeServers();
    }
  } finally {
    await kube.close();
  }
}

async function run(running: Running): Promise<void> {
  const { options, kube, leaseNamespace, log, signal, health, metrics } = running;
  const { evacuatorClass, namespace } = options;
  const view = watchEvacuations({ kube, namespace, log });
  const respondsTo = options.responderName !== undefined;
  await checkCluster({ kube, log, signal, namespace, leaseNamespace, respondsTo });
  if (signal.aborted) return;
  const evictions = respondsTo ? watchEvictions({ kube, namespace, log }) : undefined;
  view.start(signal);
  evictions?.start(signal);
  void isSynced(view, signal).then((synced) => {
    health.isReady = synced;
  });
  log.info('Evacuator started', { evacuatorClass, namespace, leaseNamespace });
  const election = {
    name: `evacuator-${evacuatorClass}`,
    namespace: leaseNamespace,
    identity: `${hostname()}_${crypto.randomUUID()}`,
    leaseDurationSeconds,
    renewDeadlineSeconds,
  };
  metrics.leading(false);
  await runWhenLeader({ kube, ...election, log, signal }, async (leading, fencedKube) => {
    metrics.leading(true);
    try {
      if (await isSynced(view, leading))
        await lead(running, { ...view, kube: fencedKube, evictions }, leading);
    } finally {
      metrics.leading(false);
    }
  });
  log.info('Evacuator stopped', { evacuatorClass });
}

async function lead(
  { options, log, metrics }: Running,
  view: EvacuationView & {
    readonly kube: FencedKube;
    readonly evictions: Informer<LifecycleEviction> | undefined;
  },
  leading: AbortSignal,
): Promise<void> {
  const { evacuatorClass, responderName, evacuate, maxConcurrent } = options;
  const evacuatePod: EvacuatePod = async (pod, evacuation, progress) =>
    evacuate(await toLivePod(pod), evacuation, progress);
  const { onCall } = metrics;
  const shared = { evacuate: evacuatePod, log, maxConcurrent, onCall };
  const { evictions } = view;
  await Promise.all([
    new Evacuator({ ...shared, evacuatorClass, view }).run(leading),
    evictions === undefined || responderName === undefined
      ? undefined
      : new Responder({ ...shared, responderName, view: { ...view, evictions } }).run(leading),
  ]);
}

async function isSynced(view: Pick<EvacuationView, 'synced'>, signal: AbortSignal): Promise<boolean> {
  await view.synced(signal).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return !signal.aborted;
}

function stopSignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => controller.abort());
  return controller.signal;
}
