import { hostname } from 'node:os';
import { connectKube } from '../kube/client.ts';
import { watchEvacuations } from '../kube/cluster.ts';
import { defaultNamespace, type KubeConfigChoice } from '../kube/config.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import type { Log } from '../kube/log.ts';
import { defaultLog } from './defaultLog.ts';
import { type Evacuate, Evacuator, stopTimeoutMs } from './evacuator.ts';
import { requireClass } from './evacuatorClass.ts';
import { checkCluster } from './preflight.ts';

export interface RunOptions extends KubeConfigChoice {
  /** Class of the evacuator, for example `migrate.example.com`: a DNS subdomain of at most 54 characters. */
  readonly evacuatorClass: string;
  readonly evacuate: Evacuate;
  /** Restricts the evacuator to the pods of one namespace. Default: all namespaces. */
  readonly namespace?: string | undefined;
  /** Namespace of the Lease for the leader election among replicas. Default: the namespace of this process. */
  readonly leaseNamespace?: string | undefined;
  /** Maximum number of pods that are evacuated in parallel. Others wait while their deadlines run. Default: 1000. */
  readonly maxConcurrent?: number | undefined;
  /** Logger. Default: pino, which writes JSON lines to standard output. */
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

/**
 * Runs an evacuator as a process. Only the leader of its replicas acts. Resolves when the evacuator was stopped and all calls
 * have ended. Throws an Error with a one-line message for problems that waiting does not solve: an invalid class, no kubeconfig,
 * missing permissions, or a cluster without the Evacuation API.
 */
export async function runEvacuator(options: RunOptions): Promise<void> {
  const {
    evacuatorClass,
    evacuate,
    namespace,
    maxConcurrent,
    log = defaultLog(),
    signal = stopSignal(),
  } = options;
  requireClass(evacuatorClass);
  const leaseNamespace = options.leaseNamespace ?? namespace ?? defaultNamespace(options);
  const kube = connectKube({ ...options, userAgent: `evacuator/${evacuatorClass}`, log });
  try {
    const view = watchEvacuations({ kube, namespace, log });
    await checkCluster({ kube, log, signal, namespace, leaseNamespace });
    if (signal.aborted) return;
    view.start(signal);
    log.info('Evacuator started', { evacuatorClass, namespace, leaseNamespace });
    const election = {
      name: `evacuator-${evacuatorClass}`,
      namespace: leaseNamespace,
      identity: `${hostname()}_${crypto.randomUUID()}`,
      leaseDurationSeconds,
      renewDeadlineSeconds,
    };
    await runWhenLeader({ kube, ...election, log, signal }, async (leading, fencedKube) => {
      if (!(await isSynced(view, leading))) return;
      const fencedView = { ...view, kube: fencedKube };
      await new Evacuator({ evacuatorClass, evacuate, view: fencedView, log, maxConcurrent }).run(leading);
    });
    log.info('Evacuator stopped', { evacuatorClass });
  } finally {
    await kube.close();
  }
}

async function isSynced(view: ReturnType<typeof watchEvacuations>, signal: AbortSignal): Promise<boolean> {
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
