import type { Lease, Node } from '../../api/core.ts';
import { RebootAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { otherHolderOf } from '../../domain/leases/lease.ts';
import { hasRebootRequest, isRebootWanted } from '../../domain/windows/rebootRequest.ts';
import { windowMaintenanceOf, workTypeOf } from '../../domain/windows/windowMaintenance.ts';
import { type FencedCluster, nodeLeaseOf } from '../../kube/cluster.ts';
import type { Log } from '../../kube/log.ts';
import { annotateReboot } from '../../kube/nodeReboots.ts';
import { resources } from '../../kube/resources.ts';
import { readWindowMaintenances } from '../../kube/windowObjects.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import type { NodeLeases } from '../../node-lease/nodeLeases.ts';

interface Deps {
  cluster: FencedCluster;
  leases: Pick<NodeLeases, 'holder' | 'read'>;
  log: Log;
}

const workers = 2;
/** The Node was changed at the same time. */
const retryMs = 1_000;

/**
 * Withdraws requests for reboots that no window waits for any more: its maintenance was cancelled, advanced, completed or deleted, or has failed, or
 * another client holds the node now. The window may be closed by then, so that no activity does it.
 */
export async function runRebootRequestsController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const { nodes, maintenances } = cluster;
  const queue = new WorkQueue('reboot-requests');
  const addNode = (node: Readonly<Node>) => {
    if (hasRebootRequest(node)) queue.add(node.metadata.name);
  };
  const addNamed = (name: string | undefined) => {
    const node = name === undefined ? undefined : nodes.get(name);
    if (node !== undefined) addNode(node);
  };
  const unsubscribe = [
    nodes.subscribe(({ type, object }) => {
      if (type !== 'Deleted') addNode(object);
    }),
    maintenances.subscribe(({ object }) => {
      if (workTypeOf(object) === 'Reboot') addNamed(windowMaintenanceOf(object)?.node);
    }),
    cluster.leases.subscribe(({ object }) => addNamed(object.metadata.name)),
  ];
  for (const node of nodes.list()) addNode(node);
  try {
    await queue.run({
      workers,
      reconcile: (name) => reconcile(deps, name),
      fieldsOf: (name) => ({ node: name }),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

async function reconcile({ cluster, leases, log }: Deps, name: string): Promise<Requeue | undefined> {
  const { kube, nodes, maintenances } = cluster;
  const cached = nodes.get(name);
  const isKept = (node: Node, all: readonly NodeMaintenance[], lease: Lease | undefined) =>
    !hasRebootRequest(node) ||
    isRebootWanted(node, all, otherHolderOf(lease, leases.holder, kube.now().getTime()));
  if (cached === undefined || isKept(cached, maintenances.list(), nodeLeaseOf(cluster, name)))
    return undefined;
  // The informers may not show what the request is based on. Its maintenance is recorded before the Node is annotated.
  const node = await kube.get(resources.nodes, { name });
  if (node === undefined) return undefined;
  const all = await readWindowMaintenances(kube);
  // A request that no window waits for is withdrawn although the Lease cannot be read.
  if (isKept(node, all, undefined) && isKept(node, all, await leases.read(name))) return undefined;
  const { Requested, Started } = RebootAnnotation;
  const isWithdrawn = await annotateReboot(kube, node, { [Requested]: null, [Started]: null });
  if (!isWithdrawn) return { requeueAfterMs: retryMs };
  log.info('Reboot request withdrawn', { node: name });
  return undefined;
}
