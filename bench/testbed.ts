import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import type { ApiServer } from '../sandbox/apiserver.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import { Cordons } from './cordons.ts';
import { checkedOutWorker, installWorker, type WorkerProgram } from './application.ts';
import { adminOf, createIdentities } from './identities.ts';
import { PodCount } from './podCount.ts';
import { AuditLog } from './requests.ts';
import type { TargetName } from './targetNames.ts';

/** The namespace of the pods that are drained. */
export const namespace = 'bench';

/** The environment of all measurements: one sandbox for the whole run. */
export interface Testbed {
  sandbox: Sandbox;
  /** Connects as the administrator. */
  kube: Kube;
  server: ApiServer;
  temporal: Client;
  kubeconfigs: Record<TargetName, string>;
  auditLog: AuditLog;
  podCount: PodCount;
  cordons: Cordons;
  maintenances: Informer<NodeMaintenance>;
  /** Names of the nodes; a workload uses the first ones. */
  nodes: readonly string[];
  worker: WorkerProgram;
  log: Log;
  /** Aborts when the benchmark is interrupted. */
  signal: AbortSignal;
}

export interface TestbedOptions {
  nodes: number;
  /** The apiserver serves lifecycle.k8s.io. */
  evictionRequest: boolean;
  /** Directory for CPU profiles of the worker. */
  profile?: string | undefined;
  log: Log;
  signal: AbortSignal;
  report: (line: string) => void;
}

/** Runs `use` on a new testbed, which is always removed again. */
export async function withTestbed<T>(
  options: TestbedOptions,
  use: (testbed: Testbed) => Promise<T>,
): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-bench-'));
  try {
    const { nodes, evictionRequest, profile, report, signal } = options;
    const worker =
      profile === undefined ? await installWorker(join(dir, 'application')) : checkedOutWorker(profile);
    const audit = await auditOptions(dir);
    const sandbox = await startSandbox({ dir, nodes, evictionRequest, ...audit, report, signal });
    try {
      return await useSandbox({ sandbox, worker, auditLog: new AuditLog(audit.auditLogs) }, options, use);
    } finally {
      report('Stopping the sandbox');
      await sandbox.stop();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** Lets the apiserver of a sandbox in this directory write the audit log of a benchmark, which costs it time. */
export async function auditOptions(dir: string): Promise<{ auditLogs: string; auditPolicy: string }> {
  const auditLogs = join(dir, 'audit');
  await mkdir(auditLogs);
  return { auditLogs, auditPolicy: fileURLToPath(new URL('./audit-policy.yaml', import.meta.url)) };
}

async function useSandbox<T>(
  { sandbox, worker, auditLog }: Pick<Testbed, 'sandbox' | 'worker' | 'auditLog'>,
  { nodes, log, signal }: TestbedOptions,
  use: (testbed: Testbed) => Promise<T>,
): Promise<T> {
  const closing = new AbortController();
  const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'bench', log });
  const connection = await Connection.connect({ address: sandbox.temporalAddress });
  try {
    const server = adminOf(sandbox);
    const kubeconfigs = await createIdentities(sandbox, kube, server);
    const podCount = new PodCount(kube, namespace, log);
    const maintenances = new Informer<NodeMaintenance>({ kube, resource: resources.nodeMaintenances, log });
    maintenances.start(closing.signal);
    const cordons = new Cordons(kube, log);
    await Promise.all([
      podCount.start(closing.signal),
      cordons.start(closing.signal),
      maintenances.synced(signal),
    ]);
    const temporal = new Client({ connection, namespace: sandbox.temporalNamespace });
    const names = Array.from({ length: nodes }, (_, index) => `node-${index + 1}`);
    const parts = { sandbox, auditLog, kube, server, temporal, kubeconfigs, podCount, cordons, maintenances };
    return await use({ ...parts, worker, nodes: names, log, signal });
  } finally {
    closing.abort();
    await connection.close();
    await kube.close();
  }
}
