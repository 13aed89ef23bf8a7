import { log } from '@temporalio/activity';
import type { Node } from '../../api/core.ts';
import { UNCORDONED_BY_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isCordoned } from '../../domain/common/cordon.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { leasesRejected } from '../../domain/leases/nodeLease.ts';
import { heldNodesOf } from '../../domain/maintenance/status.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { errorMessage, isRejection } from '../../kube/errors.ts';
import type { Deps } from '../deps.ts';
import { changeNode } from '../nodeChange.ts';
import type { View } from '../view.ts';
import { annotationsToRemove, type ClusterState, readState, releaseUnlessNeeded } from './holders.ts';

const concurrentNodes = 16;

type ReturnDeps = Pick<Deps, 'authority' | 'cluster' | 'heldNodes' | 'leases' | 'nodeLeases'>;

/**
 * Releases nodes that the maintenance has held, that its selector no longer matches and that someone has uncordoned: removes the annotations against
 * autoscalers, and releases their Leases. Resolves with their names: they are in service, and Complete has nothing to do there, so that their records can be
 * dropped. Another maintenance that selects a node keeps what it needs.
 */
export async function returnUncordonedNodes(
  deps: ReturnDeps,
  { maintenance }: View,
): Promise<ReadonlySet<string>> {
  const { cluster, nodeLeases } = deps;
  const { uid = '' } = maintenance.metadata;
  const { returned, unreturned } = nodeLeases.of(uid);
  const recorded = heldNodesOf(maintenance).flatMap((name) => cluster.nodes.get(name) ?? []);
  const names = new Set(
    recorded.filter((node) => isReturned(maintenance, node)).map(({ metadata }) => metadata.name),
  );
  // A node may be selected and cordoned again.
  for (const name of returned) if (!names.has(name)) returned.delete(name);
  const isDue = (name: string) => unreturned.isDue(name) && nodeLeases.shouldRetry(name);
  const due = [...names].filter((name) => !returned.has(name) && isDue(name));
  if (due.length === 0) return returned;
  // An informer may not show yet that a node was cordoned a moment ago.
  const state = await readState(deps, { uid });
  if (state === undefined) return returned;
  const nodes = state.nodes.filter(
    (node) => due.includes(node.metadata.name) && isReturned(state.maintenance, node),
  );
  await forEachBounded(concurrentNodes, nodes, async (node) => {
    const { name } = node.metadata;
    const problem = await releaseNode(deps, state, node);
    if (problem !== undefined) return unreturned.reject(name, problem);
    unreturned.accept(name);
    returned.add(name);
    log.info('Node was released: it is no longer selected, and was uncordoned', { uid, node: name });
  });
  return returned;
}

function isReturned({ spec }: NodeMaintenance, node: Node): boolean {
  return !isCordoned(node) && !selectsNode(spec.nodeSelector, node);
}

/** Resolves with why the node cannot be released yet; undefined if it is. */
async function releaseNode(deps: ReturnDeps, state: ClusterState, node: Node): Promise<string | undefined> {
  if (state.leases === undefined) return leasesRejected;
  try {
    const changed = await withoutAnnotations(deps, state, node);
    if (changed !== 'Done') return changed;
    const released = await releaseUnlessNeeded(deps, state, node);
    return released === 'Changed' ? 'the Lease was changed a moment ago' : undefined;
  } catch (error) {
    if (!isRejection(error)) throw error;
    return errorMessage(error);
  }
}

/** Only the holder of the Lease changes a node. */
async function withoutAnnotations(deps: ReturnDeps, state: ClusterState, node: Node): Promise<string> {
  const { name, annotations: present = {} } = node.metadata;
  const removed = annotationsToRemove(state, node);
  if (removed.length === 0) return 'Done';
  const because = await deps.nodeLeases.ensureHeld(name);
  if (because !== undefined) return because;
  const keys = UNCORDONED_BY_ANNOTATION in present ? [...removed, UNCORDONED_BY_ANNOTATION] : removed;
  const annotations = Object.fromEntries(keys.map((key) => [key, null]));
  const changed = await changeNode(deps, node, { annotations });
  return changed === 'Changed' ? 'the node was changed a moment ago' : 'Done';
}
