import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Context } from '@temporalio/activity';
import { Client } from '@temporalio/client';
import { defineSearchAttributeKey } from '@temporalio/common';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import type { NodeMaintenanceActivities } from '../activities/contract.ts';
import { longRunningTaskQueueOf } from '../api/names.ts';
import { ensureToolchain } from '../sandbox/toolchain.ts';
import { until } from '../sandbox/until.ts';
import { tunedArguments } from '../temporal-config/devServer.ts';
import { declaredNamespace } from '../temporal-config/namespace.ts';
import { loadWorkflows } from '../worker/bundle.ts';
import { createLogger, toLog } from '../process/log.ts';

/**
 * `node --max-semi-space-size=8 --heap-growing-percent=20 --max-old-space-size=MB bench/workflowCache.ts [COUNT...]`: prints the memory of a
 * worker that caches so many drained maintenances, which is what most cached workflows are. It has no informers, whose memory depends on the
 * cluster.
 */

const counts = process.argv.slice(2).map(Number);
const steps = counts.length > 0 ? counts : [100, 200, 400, 800];
const taskQueue = 'workflow-cache';
const nodes = Array.from({ length: 20 }, (_, index) => `node-of-a-rack-${index + 1}`);
const heartbeatTimeoutSeconds = 180;
const timeoutMs = 600_000;

/** The ids of the runs whose nodes are drained. */
const held = new Set<string>();

/** Activities of maintenances that are drained at once, and stay so. */
const activities = {
  admit: async () => {
    const uid = Context.current().info.workflowExecution?.runId ?? '';
    const name = Context.current().info.workflowExecution?.workflowId ?? '';
    const cluster = { name: 'bench', uid: 'bench' };
    const state = { generation: 1, stage: 'Drain' as const, paused: false, position: 0, planLength: 12 };
    return { name, uid, cluster, nodes, heartbeatTimeoutSeconds, ...state };
  },
  startStage: async () => ({ nodes }),
  drain: async () => ({ kind: 'Drained' as const, nodes }),
  keepDrained: async () => {
    const context = Context.current();
    held.add(context.info.workflowExecution?.workflowId ?? '');
    const heartbeat = setInterval(() => context.heartbeat(), (heartbeatTimeoutSeconds * 1_000) / 3);
    try {
      return await context.cancelled;
    } finally {
      clearInterval(heartbeat);
    }
  },
} satisfies Partial<NodeMaintenanceActivities>;

function residentMb(): number {
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
}

/** Collects garbage of the main thread, and waits: the thread of the workflows does so when it is idle. */
async function settle(): Promise<void> {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  await new Promise((resolve) => setTimeout(resolve, 5_000));
}

async function startUntil(client: Client, count: number): Promise<void> {
  for (let index = held.size; index < count; index += 1)
    await client.workflow.start('nodeMaintenance', {
      workflowId: `cached-${index}`,
      taskQueue,
      args: [{ name: `cached-${index}` }],
    });
  const probe = () => (held.size >= count ? undefined : `${held.size} are drained`);
  await until(`${count} maintenances to be drained`, probe, { timeoutMs });
}

async function measure({ address }: { address: string }): Promise<void> {
  const connection = await NativeConnection.connect({ address });
  const maxConcurrentActivityTaskExecutions = Math.max(...steps) + 100;
  const main = await Worker.create({
    connection,
    taskQueue,
    workflowBundle: await loadWorkflows({ file: undefined, traces: false }, toLog(createLogger('warn'))),
    activities,
    maxCachedWorkflows: Math.max(...steps) + 10,
    maxConcurrentActivityTaskExecutions,
  });
  const longRunning = await Worker.create({
    connection,
    taskQueue: longRunningTaskQueueOf(taskQueue),
    activities,
    maxConcurrentActivityTaskExecutions,
  });
  const ended = Promise.all([main.run(), longRunning.run()]);
  const client = new Client({ connection });
  await startUntil(client, 5);
  await settle();
  let former = { count: 5, mb: residentMb() };
  process.stdout.write(`cached ${former.count}: ${former.mb.toFixed(0)} MB\n`);
  for (const count of steps) {
    await startUntil(client, count);
    await settle();
    const mb = residentMb();
    const each = ((mb - former.mb) * 1_024) / (count - former.count);
    process.stdout.write(
      `cached ${count}: ${mb.toFixed(0)} MB, ${each.toFixed(0)} KB for each further one\n`,
    );
    former = { count, mb };
  }
  main.shutdown();
  longRunning.shutdown();
  await ended;
  await connection.close();
}

Runtime.install({ logger: new DefaultLogger('ERROR') });
const { temporal } = await ensureToolchain();
const environment = await TestWorkflowEnvironment.createLocal({
  server: {
    executable: { type: 'existing-path', path: temporal },
    extraArgs: tunedArguments(),
    log: { format: 'pretty', level: 'never' },
    searchAttributes: Object.entries(declaredNamespace().searchAttributes).map(([name, type]) =>
      defineSearchAttributeKey(name, type === 'Keyword' ? 'KEYWORD' : 'KEYWORD_LIST'),
    ),
  },
});
try {
  await measure(environment);
} finally {
  await environment.teardown();
}
process.exit(0);
