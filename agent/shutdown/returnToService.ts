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
  let isWatching = false;
  try {
    for (;;) {
      // Before the decision, which must not miss a change.
      const changed = node.changed(stop.signal).catch(() => undefined);
      const step = await advance(deps, { node, preparing: preparing() }, signal);
      if (signal.aborted || step === 'Nothing') return;
      failures = step === 'Failed' ? failures + 1 : 0;
      if (step === 'Failed') await sleep(backOffMs(failures, retryBackOff), signal);
      if (step === 'AwaitLogind') await sleep(askLogindAgainMs, signal);
      if (step !== 'AwaitNode') continue;
      if (!isWatching) node.start(stop.signal);
      isWatching = true;
      await changed;
    }
  } finally {
    watching.abort();
    stop.dispose();
  }
}

interface Observed {
  readonly node: Informer<Node & BootedNode>;
  readonly preparing: boolean | undefined;
}

async function advance(
  deps: AgentDeps,
  observed: Observed,
  signal: AbortSignal,
): Promise<ReturnStep['kind'] | 'Failed'> {
  try {
    return (await decideAndAct(deps, observed, signal)).kind;
  } catch (error) {
    if (!signal.aborted)
      deps.log.warn('Return to service could not be decided, retrying', { error: errorMessage(error) });
    return 'Failed';
  }
}

async function decideAndAct(
  { kube, node: name, bootId, log }: AgentDeps,
  { node, preparing }: Observed,
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
