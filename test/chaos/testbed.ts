import { readdirSync, statSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { connectKube, type Kube } from '../../kube/client.ts';
import { silentLog } from '../../kube/log.ts';
import type { Sandbox, SandboxOptions } from '../../sandbox/sandbox.ts';
import { priorityClasses } from '../kit/resources.ts';
import { retryUntilAnswered } from './retryUntilAnswered.ts';
import { type EvictionApi, priorities, type Priority } from './scenario.ts';
import { WorkerSlot } from './workerSlot.ts';

/** The servers that chaos runs share, one run after the other. Each run has names of its own. */
export interface Testbed {
  sandbox: Sandbox;
  evictionApi: EvictionApi;
  /** The administrator's client, past all faults of networks. */
  kube: Kube;
  temporal: Client;
  auditLog: AuditLogFile;
  /**
   * Returns so many places for workers, with networks and clocks of their own. The workers of one run serve the next, too. New ones run with these
   * NODE_OPTIONS.
   */
  workerSlots(count: number, nodeOptions?: string): Promise<readonly WorkerSlot[]>;
  close(): Promise<void>;
}

/** Lets the apiserver of a sandbox serve the API, and write the audit log by which runs are checked. */
export async function sandboxOptions(
  dir: string,
  evictionApi: EvictionApi,
): Promise<Pick<SandboxOptions, 'auditLogs' | 'auditPolicy' | 'eventTtl' | 'evictionRequest'>> {
  const auditLogs = join(dir, 'audit');
  await mkdir(auditLogs, { recursive: true });
  return {
    auditLogs,
    auditPolicy: fileURLToPath(new URL('audit-policy.yaml', import.meta.url)),
    // Shorter than the time between two restarts of etcd, each of which begins it again.
    eventTtl: '2m',
    evictionRequest: servesEvictionRequests(evictionApi),
  };
}

const controllers = ['kube-controller-manager', 'kube-scheduler', 'kwok'] as const;

/**
 * Restarts the servers that make pods Ready: after the outages of an earlier run, each of them may open its watches again only after a minute, and they wait
 * for each other.
 */
export async function restartControllers({ sandbox }: Testbed): Promise<void> {
  const servers = controllers.map((name) => sandbox.server(name));
  await Promise.all(servers.map((server) => server.kill()));
  await Promise.all(servers.map((server) => server.start()));
}

export function servesEvictionRequests(evictionApi: EvictionApi): boolean {
  return evictionApi !== 'evacuation';
}

export async function createTestbed(
  sandbox: Sandbox,
  auditDir: string,
  evictionApi: EvictionApi,
): Promise<Testbed> {
  const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'chaos', log: silentLog });
  const connection = await Connection.connect({ address: sandbox.temporalAddress });
  const temporal = new Client({ connection, namespace: sandbox.temporalNamespace });
  const slots: WorkerSlot[] = [];
  const workerSlots = async (count: number, nodeOptions = '') => {
    while (slots.length < count) slots.push(await WorkerSlot.create(sandbox, evictionApi, nodeOptions));
    for (const unused of slots.slice(count)) await unused.stop();
    return slots.slice(0, count);
  };
  const close = async () => {
    await Promise.all(slots.map((slot) => slot.close()));
    await connection.close();
    await kube.close();
  };
  for (const value of priorities.filter((one) => one > 0))
    await retryUntilAnswered(`PriorityClass ${value}`, () =>
      kube.apply(priorityClasses, { metadata: { name: priorityClassOf(value) }, value } as never, {
        fieldManager: 'chaos',
      }),
    );
  return { sandbox, evictionApi, kube, temporal, auditLog: new AuditLogFile(auditDir), workerSlots, close };
}

export function priorityClassOf(priority: Priority): string {
  return `chaos-${priority}`;
}

/** The audit log of the only apiserver that writes to a directory. */
export class AuditLogFile {
  readonly #dir: string;

  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Returns its length in bytes, from which a run reads it. */
  end(): number {
    return statSync(this.#path()).size;
  }

  async linesFrom(offset: number): Promise<string[]> {
    const file = await open(this.#path());
    try {
      const lines: string[] = [];
      for await (const line of file.readLines({ start: offset })) lines.push(line);
      return lines;
    } finally {
      await file.close();
    }
  }

  #path(): string {
    const [name, ...others] = readdirSync(this.#dir);
    if (name === undefined || others.length > 0)
      throw new Error(
        `${this.#dir} must contain one audit log, not ${others.length + (name === undefined ? 0 : 1)}`,
      );
    return join(this.#dir, name);
  }
}
