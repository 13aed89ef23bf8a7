import { readFile } from 'node:fs/promises';
import { AGENT_COMPONENT } from '../api/names.ts';
import { connectKube } from '../kube/client.ts';
import { errorMessage } from '../kube/errors.ts';
import { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';
import { packageVersion } from '../process/packageVersion.ts';
import { runTogether } from '../process/runTogether.ts';
import type { AgentConfig } from './config.ts';
import type { AgentDeps } from './deps.ts';
import { serveHealth } from './health.ts';
import { runIdentityLease } from './identityLease.ts';
import { watchNode } from './nodeWatch.ts';
import { runReboot } from './reboot/reboot.ts';
import { returnToService } from './shutdown/returnToService.ts';
import { runShutdown, ShutdownState } from './shutdown/shutdown.ts';
import { runStaticPods, StaticPodState } from './staticPods/staticPods.ts';
import { runTokenRenewal } from './token.ts';

/** Events that are not written within this time after the end are lost. */
const flushMs = 2_000;

/**
 * Runs the parts of the agent side by side until the signal aborts. When one fails, the others end, and it rejects with the first failure. Nothing is
 * put back at the end: the next start continues from what is in the hold directory.
 */
export async function runAgent(config: AgentConfig, log: Log, signal: AbortSignal): Promise<void> {
  const { node, kubeconfig } = config;
  const bootId = await bootIdIn(config.bootIdFile);
  const kube = connectKube({ kubeconfig, userAgent: AGENT_COMPONENT, reloads: true, log });
  const events = new EventRecorder({ kube, component: AGENT_COMPONENT, log });
  const deps: AgentDeps = { kube, node, bootId, events, log };
  const staticPods = new StaticPodState();
  const shutdown = new ShutdownState();
  const isShuttingDown = () => shutdown.isInProgress;
  log.info('Node agent started', { node, bootId, version: packageVersion() });
  try {
    await runTogether(signal, [
      async (stop) => {
        const watch = watchNode(deps, stop);
        const staticPodOptions = { ...config.staticPods, watch };
        await runTogether(stop, [
          (end) => runStaticPods(deps, staticPodOptions, staticPods, end),
          async (end) => config.reboot && runReboot(deps, { ...config.reboot, watch, isShuttingDown }, end),
        ]);
      },
      (stop) => runIdentityLease(deps, { staticPods, canReboot: config.reboot !== undefined }, stop),
      (stop) => runTokenRenewal(deps, { kubeconfig }, stop),
      (stop) =>
        config.shutdown === undefined
          ? // An agent that delayed shutdowns may have left the maintenance of one.
            returnToService(deps, () => false, stop)
          : runShutdown(deps, { ...config.shutdown, shared: shutdown }, stop),
      (stop) => serveHealth(config.health, staticPods, { log, signal: stop }),
    ]);
  } finally {
    await events.flush(flushMs);
    await kube.close();
  }
}

async function bootIdIn(file: string): Promise<string> {
  try {
    return (await readFile(file, 'utf8')).trim();
  } catch (error) {
    const remedy = 'set --boot-id-file to the file that the kubelet reads';
    throw new Error(`the ID of the boot cannot be read: ${errorMessage(error)}: ${remedy}`, { cause: error });
  }
}
