import { runShutdown, type ShutdownOptions } from '../../../agent/shutdown/shutdown.ts';
import { connectKube } from '../../../kube/client.ts';
import { EventRecorder } from '../../../kube/events.ts';
import type { Log } from '../../../kube/log.ts';

/** A node agent that handles shutdowns only, as a process of its own. Its argument is an AgentProcessOptions in JSON. */
export interface AgentProcessOptions {
  readonly kubeconfig: string;
  readonly node: string;
  readonly bootId: string;
  readonly shutdown: ShutdownOptions;
}

const { kubeconfig, node, bootId, shutdown } = JSON.parse(process.argv[2] ?? '') as AgentProcessOptions;

const write =
  (level: string) =>
  (message: string, fields: Record<string, unknown> = {}) => {
    process.stdout.write(`${JSON.stringify({ level, message, ...fields })}\n`);
  };
const log: Log = { debug: () => undefined, info: write('info'), warn: write('warn'), error: write('error') };
const kube = connectKube({ kubeconfig, userAgent: 'node-maintenance-agent', log });
const events = new EventRecorder({ kube, component: 'node-maintenance-agent', log });
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await runShutdown({ kube, node, bootId, events, log }, shutdown, stop.signal);
await events.flush(2_000);
await kube.close();
