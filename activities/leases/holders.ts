import type { Lease, Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { autoscalerAnnotationsToRemove, ownAutoscalerAnnotations } from '../../domain/common/autoscalers.ts';
import { isCordonedByMaintenance } from '../../domain/common/cordon.ts';
import { NodeDecision } from '../../domain/common/requester.ts';
import { holdsNodes, stageOf } from '../../domain/common/stage.ts';
import { isReleasable } from '../../domain/leases/lease.ts';
import { hasCordonRecord } from '../../domain/maintenance/status.ts';
import type { MaintenanceRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { nodeStatusOf, nodesOf } from '../view.ts';

type HolderDeps = Pick<Deps, 'authority'>;

/** The nodes of a maintenance, and who else holds them. */
export interface Holders {
  maintenance: NodeMaintenance;
  nodes: readonly Node[];
  /** The names of the other maintenances that hold a node. One that is being deleted counts as Complete and holds no node. */
  holdersOf: (node: Node) => string[];
  /** Reports whether one of them has recorded the node: it returns it to service even if it selects other nodes by then. */
  isRecorded: (node: Node) => boolean;
}

/** The state in the apiserver. An informer may not show yet that a node was cordoned a moment ago. */
export interface ClusterState extends Holders {
  /** Undefined if the worker may not list Leases. */
  leases: ReadonlyMap<string, Lease> | undefined;
}

export async function readState(
  deps: HolderDeps & Pick<Deps, 'heldNodes'>,
  ref: Pick<MaintenanceRef, 'uid'>,
): Promise<ClusterState | undefined> {
  const { leases, existing, all } = await deps.heldNodes.get();
  const maintenance = all.find((one) => one.metadata.uid === ref.uid);
  return maintenance && { leases, ...(await findHolders(deps, maintenance, existing, all)) };
}

export async function findHolders(
  deps: HolderDeps,
  maintenance: NodeMaintenance,
  existing: readonly Node[],
  all: readonly NodeMaintenance[],
): Promise<Holders> {
  const nodes = await nodesToReturn(deps, maintenance, existing);
  const others = all.filter(
    (other) => other.metadata.uid !== maintenance.metadata.uid && holdsNodes(stageOf(other)),
  );
  const decisionOf = await deps.authority.decideAll(others, nodes);
  const isHolder = (decision: NodeDecision | undefined) =>
    decision === NodeDecision.Proceed || decision === NodeDecision.Hold;
  const holding = ({ metadata: { name } }: Node) =>
    others.filter((other) => isHolder(decisionOf(other, name)));
  return {
    maintenance,
    nodes,
    holdersOf: (node) => holding(node).map(({ metadata }) => metadata.name),
    isRecorded: (node) => holding(node).some((other) => hasCordonRecord(nodeStatusOf(other, node))),
  };
}

/** Returns the nodes that were held before, and those that the selector matches: the requester must be allowed to maintain these. */
async function nodesToReturn(
  { authority }: HolderDeps,
  maintenance: NodeMaintenance,
  existing: readonly Node[],
): Promise<Node[]> {
  const isHeld = (node: Node) => hasCordonRecord(nodeStatusOf(maintenance, node));
  const decisionOf = await authority.decideAll(
    [maintenance],
    existing.filter((node) => !isHeld(node)),
  );
  return nodesOf(maintenance, existing).filter(
    ({ metadata: { name } }) => decisionOf(maintenance, name) !== NodeDecision.Skip,
  );
}

/** Releases the Lease of a node unless another maintenance needs it. Kept: also if another client holds it. Changed: it was written since it was read. */
export async function releaseUnlessNeeded(
  { leases }: Pick<Deps, 'leases'>,
  state: ClusterState,
  node: Node,
): Promise<'Released' | 'Kept' | 'Changed'> {
  const lease = state.leases?.get(node.metadata.name);
  const isNeeded = state.holdersOf(node).length > 0;
  if (isNeeded || lease === undefined || !isReleasable(lease, leases.holder)) return 'Kept';
  return leases.releaseIfUnchanged(lease);
}

/** Returns the annotations to remove: none while another maintenance holds the node. */
export function annotationsToRemove({ maintenance, holdersOf }: Holders, node: Node): string[] {
  const record = nodeStatusOf(maintenance, node);
  // Another maintenance that was completed before may have left its own, with its cordon.
  const left = isCordonedByMaintenance(node) ? ownAutoscalerAnnotations(node) : [];
  const own = hasCordonRecord(record) ? autoscalerAnnotationsToRemove(node, record) : left;
  return own.length > 0 && holdersOf(node).length > 0 ? [] : own;
}
