import { resources } from '../kube/resources.ts';
import { until } from '../sandbox/until.ts';
import { namespace, type Testbed } from './testbed.ts';
import { placePod } from './workload.ts';

const timeoutMs = 120_000;
const quietMs = 1_000;

/**
 * Lets a target drain a node with one pod before the measured drain, so that its code is compiled and its connections are
 * open, as in a cluster where it has been running. The node is one of those that no workload uses.
 */
export async function warmUp(testbed: Testbed, drain: (node: string) => Promise<void>): Promise<void> {
  const { podCount, signal } = testbed;
  const node = testbed.nodes.at(-1) ?? '';
  const name = `warm-up-${crypto.randomUUID().slice(0, 8)}`;
  await placePod(testbed, name, node);
  const waiting = () => (podCount.count(node, 'ready') === 1 ? undefined : `${node} does not run it`);
  await until('the pod of the warm-up', waiting, { timeoutMs, signal });
  await drain(node);
  const left = async () => {
    if ((await testbed.kube.get(resources.pods, { namespace, name })) !== undefined) return 'its pod exists';
    const { spec } = (await testbed.kube.get(resources.nodes, { name: node })) ?? {};
    if (spec?.unschedulable === true || (spec?.taints ?? []).length > 0) return `${node} is cordoned`;
    return podCount.quietMs < quietMs ? 'a pod has just changed' : undefined;
  };
  await until('the end of the warm-up', left, { timeoutMs, signal });
}
