import { uptime } from 'node:os';
import type { Node } from '../../api/core.ts';
import { shutdownMaintenanceName } from '../../domain/shutdown/maintenance.ts';
import { type BootedNode, decideReturn, type ReturnStep } from '../../domain/shutdown/return.ts';
import { anySignal, sleep } from '../../kube/abort.ts';
import { backOffMs } from '../../kube/backOff.ts';
import { errorMessage } from '../../kube/errors.ts';
import { Informer } from '../../kube/informer.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { AgentDeps } from '../deps.ts';
import { completion, SHUTDOWN_MANAGER } from './maintenance.ts';

const { nodeMaintenances } = resources;
/** The stored object has more than the rest of the project reads. */
const nodes = resources.nodes as Resource<Node & BootedNode>;

const retryBackOff = { firstMs: 500, capMs: 30_000 };
const askLogindAgainMs = 2_000;

/**
 * Completes the maintenance of a shutdown once the node is Ready after it, or the shutdown was cancelled. Resolves when there is none left
 * to complete, or the signal aborts. Watches the Node only while it waits for it.
 */
export async function returnToService(
  deps: AgentDeps,
  preparing: () => boolean | undefined,
  signal: AbortSignal,
): Promise<void> {
  const watching = new AbortController();
  const stop = anySignal(signal, watching.signal);
  const node = new Informer({
    kube: deps.kube,
    resource: nodes,
    fieldSelector: `metadata.name=${deps.node}`,
    log: deps.log,
  });
  let failures = 0;
  try {
    for (let isWatched = false; !signal.aborted; ) {
      try {
        // Before the decision, which must not miss a change.
        const changed = node.changed(stop.signal).catch(() => undefined);
        const step = await advance(deps, { node, preparing: preparing() }, signal);
        failures = 0;
        if (step.kind === 'Nothing') return;
        if (step.kind === 'AwaitLogind') await sleep(askLogindAgainMs, signal);
        if (step.kind !== 'AwaitNode') continue;
        if (!isWatched) node.start(stop.signal);
        isWatched = true;
        await changed;
      } catch (error) {
        if (signal.aborted) return;
        deps.log.warn('Return to service could not be decided, retrying', { error: errorMessage(error) });
        await sleep(backOffMs(failures++, retryBackOff), signal);
      }
    }
  } finally {
    watching.abort();
    stop.dispose();
  }
}

async function advance(
  { kube, node: name, bootId, log }: AgentDeps,
  { node, preparing }: { node: Informer<Node & BootedNode>; preparing: boolean | undefined },
  signal: AbortSignal,
): Promise<ReturnStep> {
  const key = { name: shutdownMaintenanceName(name) };
  const maintenance = await kube.get(nodeMaintenances, key, { signal });
  const bootedAtMs = Date.now() - uptime() * 1000;
  const step = decideReturn(maintenance, node.get(name), { node: name, bootId, bootedAtMs, preparing });
  if (step.kind === 'AwaitNode')
    log.info('The Node was not back after its boot yet', { missing: step.missing });
  if (step.kind !== 'Complete' || maintenance === undefined) return step;
  await kube.jsonPatch(nodeMaintenances, key, completion(maintenance), {
    signal,
    fieldManager: SHUTDOWN_MANAGER,
  });
  log.info('Maintenance of the shutdown was completed', { ...key, because: step.because });
  return step;
}
