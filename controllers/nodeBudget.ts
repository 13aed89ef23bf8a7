import { isDeepStrictEqual } from 'node:util';
import { DEFAULT_NODE_BUDGET, type NodeBudget } from '../api/nodeBudget.ts';
import { FIELD_MANAGER, NODE_BUDGET_NAME } from '../api/names.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { asItStands, measured } from '../domain/nodeBudget.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { ignoreIfOutdated, isKubeError } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';

/** Its status is written at most so often, however many nodes go at once. Milliseconds. */
const writeEvery = 1_000;
/** It may have been deleted, or a claim may have become too old. Milliseconds. */
const checkEvery = 60_000;

/** Makes the NodeBudget of the cluster unless there is one, and keeps its status true: nodes, maintenances -> object. */
export async function runNodeBudgetController(
  { cluster, log }: { cluster: FencedCluster; log: Log },
  signal: AbortSignal,
): Promise<void> {
  const queue = new WorkQueue();
  const look = () => queue.addAfter(NODE_BUDGET_NAME, writeEvery);
  const { nodes, maintenances, nodeBudgets } = cluster;
  const unsubscribe = [nodes.subscribe(look), maintenances.subscribe(look), nodeBudgets.subscribe(look)];
  queue.add(NODE_BUDGET_NAME);
  try {
    await queue.run({ workers: 1, reconcile: () => keep(cluster), signal, log });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

async function keep(cluster: FencedCluster): Promise<Requeue> {
  const budget = cluster.nodeBudgets.get(NODE_BUDGET_NAME);
  await (budget === undefined ? place(cluster) : tell(cluster, budget));
  return { requeueAfterMs: checkEvery };
}

/** With the default: whoever maintains nodes by hand is warned from then on. */
async function place({ kube }: FencedCluster): Promise<void> {
  const budget = { metadata: { name: NODE_BUDGET_NAME }, spec: { maxUnavailable: DEFAULT_NODE_BUDGET } };
  try {
    await kube.create(resources.nodeBudgets, budget, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
  }
}

async function tell({ kube, ...cluster }: FencedCluster, budget: NodeBudget): Promise<void> {
  const maintenances = cluster.maintenances.list();
  const now = kube.now();
  const { status } = asItStands(budget, { turns: claimedTurns(maintenances), now: now.getTime() });
  const sight = { nodes: cluster.nodes.list(), maintenances, claims: status?.claims ?? [] };
  const said = measured(budget, sight, now.toISOString());
  const { claims: _claims, ...before } = budget.status ?? {};
  if (isDeepStrictEqual(said, before)) return;
  // The claims are the windows', who write them under the resourceVersion that they decided on.
  const body = { metadata: { uid: budget.metadata.uid }, status: said };
  const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
  await kube
    .mergePatch(resources.nodeBudgets, { name: NODE_BUDGET_NAME }, body, options)
    .catch(ignoreIfOutdated);
}
