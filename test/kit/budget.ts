import { reserveNodes } from '../../activities/windows/reservations.ts';
import { NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import type { NodeDisruptionBudget } from '../../api/nodeDisruptionBudget.ts';
import { resources } from '../../kube/resources.ts';
import type { TestCluster } from './cluster.ts';

/** Reads the NodeDisruptionBudget that has the reservations. A window that reserves no node creates it if it does not exist. */
export async function readBudget(c: TestCluster): Promise<NodeDisruptionBudget> {
  const key = { name: NODE_DISRUPTION_BUDGET_NAME };
  const read = () => c.admin.get(resources.nodeDisruptionBudgets, key);
  const found = await read();
  if (found !== undefined) return found;
  await reserveNodes(c, 'none', () => []);
  return (await read()) as NodeDisruptionBudget;
}
