import { log } from '@temporalio/activity';
import type { Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCordoned } from '../../domain/common/cordon.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { isReleasable } from '../../domain/leases/lease.ts';
import { heldNodesOf } from '../../domain/maintenance/status.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { nodeLeaseOf } from '../../kube/cluster.ts';
import { errorMessage, isRejection } from '../../kube/errors.ts';
import type { Deps } from '../deps.ts';
import type { View } from '../view.ts';
import { findHolders, readState, releaseUnlessNeeded } from './holders.ts';

const concurrentReleases = 16;

type ReleaseDeps = Pick<Deps, 'authority' | 'cluster' | 'heldNodes' | 'leases' | 'nodeLeases'>;

/**
 * Releases the Leases of nodes that the maintenance has held, that its selector no longer matches and that someone has uncordoned: they are in service
 * again, and others may maintain them. A Lease that another maintenance needs is kept, and so is one whose release the apiserver rejects.
 */
export async function releaseReturnedNodes(deps: ReleaseDeps, { maintenance }: View): Promise<void> {
  const { cluster, leases, nodeLeases } = deps;
  const { uid = '' } = maintenance.metadata;
  const { releases } = nodeLeases.of(uid);
  const isDue = ({ metadata: { name } }: Node) =>
    isReleasable(nodeLeaseOf(cluster, name), leases.holder) && releases.isDue(name);
  const recorded = heldNodesOf(maintenance).flatMap((name) => cluster.nodes.get(name) ?? []);
  const due = recorded.filter((node) => isReturned(maintenance, node) && isDue(node));
  if (due.length === 0) return;
  const { holdersOf } = await findHolders(deps, maintenance, due, cluster.maintenances.list());
  const unneeded = due.filter((node) => holdersOf(node).length === 0).map(({ metadata }) => metadata.name);
  if (unneeded.length === 0) return;
  const state = await readState(deps, { uid });
  if (state?.leases === undefined) return;
  const current = state.nodes.filter(
    (node) => unneeded.includes(node.metadata.name) && isReturned(state.maintenance, node),
  );
  await forEachBounded(concurrentReleases, current, async (node) => {
    const { name } = node.metadata;
    try {
      const released = await releaseUnlessNeeded(deps, state, node);
      if (released === 'Released')
        log.info('Lease of a node that was uncordoned by hand was released', { uid, node: name });
    } catch (error) {
      if (!isRejection(error)) throw error;
      releases.reject(name, errorMessage(error));
    }
  });
}

function isReturned({ spec }: NodeMaintenance, node: Node): boolean {
  return !isCordoned(node) && !selectsNode(spec.nodeSelector, node);
}
