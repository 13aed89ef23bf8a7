import { hostname } from 'node:os';
import { connectKube } from '../kube/client.ts';
import { watchEvacuations } from '../kube/cluster.ts';
import { defaultNamespace, type KubeConfigChoice } from '../kube/config.ts';
import { runWhenLeader } from '../kube/leaderElection.ts';
import type { Log } from '../kube/log.ts';
import { type Evacuate, Evacuator, stopsWithin } from './evacuator.ts';
import { requireClass } from './evacuatorClass.ts';
import { jsonLog } from './jsonLog.ts';
import { checkCluster } from './preflight.ts';

export interface RunOptions extends KubeConfigChoice {
  /** For example `migrate.example.com`: a DNS subdomain of at most 54 characters. */
  readonly evacuatorClass: string;
  readonly evacuate: Evacuate;
  /** Evacuate the pods of this namespace only. Default: all. */
  readonly namespace?: string | undefined;
  /** Where the Lease is by which replicas agree who acts. Default: the namespace that this process runs in. */
  readonly leaseNamespace?: string | undefined;
  /** Pods that are evacuated at the same time; the others wait, and their deadlines run. Default 1000. */
  readonly atOnce?: number | undefined;
  /** Default: JSON lines on standard output. */
  readonly log?: Log | undefined;
  /** Ends it. Default: SIGTERM and SIGINT do. */
  readonly signal?: AbortSignal | undefined;
}

/** Another replica takes a silent one's place after leaseDuration; by then that one has ended what it ran, with some to spare. */
const leaseDurationSeconds = 15;
const renewDeadlineSeconds = leaseDurationSeconds - stopsWithin / 1_000 - 2;

/**
 * An evacuator as a process of its own: of its replicas one acts at a time. Resolves when it was told to stop and all calls
 * have ended. Throws an Error of one line for what waiting does not mend: a bad class, no kubeconfig, missing rights,
 * a cluster without Evacuations.
 */
export async function runEvacuator(options: RunOptions): Promise<void> {
  const { evacuatorClass, evacuate, namespace, atOnce, log = jsonLog(), signal = signals() } = options;
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
    await runWhenLeader({ kube, ...election, log, signal }, async (leading, fenced) => {
      if (!(await isSynced(view, leading))) return;
      const led = { ...view, kube: fenced };
      await new Evacuator({ evacuatorClass, evacuate, view: led, log, atOnce }).run(leading);
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

function signals(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGTERM', 'SIGINT'] as const) process.once(name, () => controller.abort());
  return controller.signal;
}
