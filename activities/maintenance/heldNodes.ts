import type { Lease, Node } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';

/** Everything that decides which nodes may be uncordoned, as the apiserver has it. */
export interface HeldNodes {
  /** Undefined if the worker may not list Leases. */
  leases: ReadonlyMap<string, Lease> | undefined;
  existing: readonly Node[];
  all: readonly NodeMaintenance[];
}

/**
 * Reads Leases before maintenances. A maintenance that joins a node after that has written its Lease since, so ours can no longer be
 * released with the resourceVersion that was read; one that joined before is in the list. If two maintenances complete together, the later
 * one sees that the other no longer holds the node.
 */
export async function readHeldNodes(kube: Kube): Promise<HeldNodes> {
  const [leases, { items: existing }] = await Promise.all([listLeases(kube), kube.list(resources.nodes)]);
  const { items: all } = await kube.list(resources.nodeMaintenances);
  return { leases, existing, all };
}

async function listLeases(kube: Kube): Promise<ReadonlyMap<string, Lease> | undefined> {
  try {
    const { items } = await kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE });
    return new Map(items.map((lease) => [lease.metadata.name, lease] as const));
  } catch (error) {
    if (isKubeError(error, 'Forbidden')) return undefined;
    throw error;
  }
}
