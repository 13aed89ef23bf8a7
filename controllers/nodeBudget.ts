import { DEFAULT_NODE_BUDGET } from '../api/nodeBudget.ts';
import { FIELD_MANAGER, NODE_BUDGET_NAME } from '../api/names.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';

/** Makes the NodeBudget of the cluster, with the default, unless there is one: whoever maintains nodes by hand is warned from then on. */
export async function placeNodeBudget({ kube, nodeBudgets }: FencedCluster): Promise<void> {
  if (nodeBudgets.get(NODE_BUDGET_NAME) !== undefined) return;
  const budget = { metadata: { name: NODE_BUDGET_NAME }, spec: { maxUnavailable: DEFAULT_NODE_BUDGET } };
  try {
    await kube.create(resources.nodeBudgets, budget, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
  }
}
