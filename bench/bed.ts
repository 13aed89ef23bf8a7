import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { connectKube, type Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import type { ApiServer } from '../sandbox/apiserver.ts';
import { type Sandbox, startSandbox } from '../sandbox/sandbox.ts';
import { Census } from './census.ts';
import type { ContenderName } from './contender.ts';
import { adminOf, giveIdentities } from './identities.ts';
import { namespace } from './scene.ts';

/** What everything is measured on: one sandbox for the whole benchmark. */
export interface Bed {
  sandbox: Sandbox;
  /** The administrator's. */
  kube: Kube;
  server: ApiServer;
  temporal: Client;
  kubeconfigs: Record<ContenderName, string>;
  census: Census;
  maintenances: Informer<NodeMaintenance>;
  /** Names, in the order in which scenes take them. */
  nodes: readonly string[];
  /** Directory for the worker's CPU profiles. */
  profile?: string | undefined;
  log: Log;
  /** Aborts when the benchmark is interrupted. */
  signal: AbortSignal;
}

export interface BedOptions {
  nodes: number;
  profile?: string | undefined;
  log: Log;
  signal: AbortSignal;
  report: (line: string) => void;
}

/** Runs `use` on a bed of its own; when it returns, nothing of the bed is left, however it ended. */
export async function withBed<T>(options: BedOptions, use: (bed: Bed) => Promise<T>): Promise<T> {
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-bench-'));
  try {
    const { report, signal } = options;
    const sandbox = await startSandbox({ dir, nodes: options.nodes, report, signal });
    try {
      return await useSandbox(sandbox, options, use);
    } finally {
      report('Stopping the sandbox');
      await sandbox.stop();
    }
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function useSandbox<T>(
  sandbox: Sandbox,
  { nodes, profile, log, signal }: BedOptions,
  use: (bed: Bed) => Promise<T>,
): Promise<T> {
  const closing = new AbortController();
  const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'bench', log });
  const connection = await Connection.connect({ address: sandbox.temporalAddress });
  try {
    const server = adminOf(sandbox);
    const kubeconfigs = await giveIdentities(sandbox, kube, server);
    const census = new Census(kube, namespace, log);
    const maintenances = new Informer<NodeMaintenance>({ kube, resource: resources.nodeMaintenances, log });
    maintenances.start(closing.signal);
    await Promise.all([census.start(closing.signal), maintenances.synced(signal)]);
    const temporal = new Client({ connection, namespace: sandbox.temporalNamespace });
    const names = Array.from({ length: nodes }, (_, index) => `node-${index + 1}`);
    const parts = { sandbox, kube, server, temporal, kubeconfigs, census, maintenances };
    return await use({ ...parts, nodes: names, profile, log, signal });
  } finally {
    closing.abort();
    await connection.close();
    await kube.close();
  }
}
