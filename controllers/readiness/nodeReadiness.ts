import { isDeepStrictEqual } from 'node:util';
import type { Node, Pod } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { skippedNodes } from '../../domain/common/nodePermission.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { hasSameRequirements, type ReadinessTiming, selectsPod } from '../../domain/readiness/gates.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Change } from '../../kube/informer.ts';
import type { Log } from '../../kube/log.ts';
import type { NodePermissions } from '../../kube/nodePermissions.ts';
import { WorkQueue } from '../../kube/workQueue.ts';
import { NodeStates } from './nodeStates.ts';
import { PolicyAuthority } from './policyAuthority.ts';
import { isTainted } from './readinessTaint.ts';
import { readinessConditionOf, StatusReconciler } from './statusReconciler.ts';
import { isInCordonOrDrain, TaintReconciler } from './taintReconciler.ts';

interface Deps {
  cluster: FencedCluster;
  /** The permissions of the authors of policies to gate nodes. */
  permissions: NodePermissions;
  timing: ReadinessTiming;
  events: EventRecorder;
  log: Log;
}

const taintWorkers = 32;
const statusWorkers = 16;

/**
 * Lets a node accept pods when its readiness gates are ready (Node Readiness Gates > Design Details). Contract:
 *
 * 1. Every node has a NodeReadiness of the same name, owned by the Node. A NodeReadiness that was created before its node gets the
 *    owner if this Node still exists. One that a previous Node object owns is left to the garbage collector.
 * 2. The taint is removed as soon as all blocking gates are ready. The gates are read from the apiserver once before: a stale
 *    informer cannot make a node accept pods without a gate that existed before the node. `decideReadiness` decides when the taint
 *    is added. Other taints stay unchanged, and so does a readiness taint that another field manager gave a value.
 * 3. The status and the condition follow the taint, at most once a second per node, when no taint of another node is pending.
 * 4. The status contains all state that decisions need; losing the process loses at most one second of it.
 * 5. A node without gates costs one NodeReadiness and no further requests.
 */
export async function runNodeReadinessController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, permissions, log } = deps;
  const authority = new PolicyAuthority(cluster, permissions);
  const taintQueue = new WorkQueue('readiness-taint');
  // A queue of its own: no node waits for the removal of its taint while statuses of other nodes are written.
  const statusQueue = new WorkQueue('readiness-status');
  const states = new NodeStates(cluster, authority);
  const taints = new TaintReconciler({ ...deps, authority, states, statusQueue });
  const isTaintWorkPending = () => taints.patchesInFlight + taintQueue.length > 0;
  const statuses = new StatusReconciler({ cluster, states, isTaintWorkPending });
  const unsubscribe = enqueueChangedNodes(cluster, states, taintQueue);
  try {
    await Promise.all([
      taintQueue.run({
        workers: taintWorkers,
        reconcile: (name) => taints.reconcileTaint(name),
        signal,
        log,
        observer: cluster.queues,
      }),
      statusQueue.run({
        workers: statusWorkers,
        reconcile: (name) => statuses.reconcileStatus(name),
        signal,
        log,
        observer: cluster.queues,
      }),
    ]);
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** Adds a node to the queue for each change that may affect its readiness. Returns the functions that end the subscriptions. */
function enqueueChangedNodes(cluster: FencedCluster, states: NodeStates, queue: WorkQueue): (() => void)[] {
  const { nodes, pods, maintenances, readinesses, readinessPolicies } = cluster;
  const addSelected = ({ spec }: NodeMaintenance | NodeReadinessPolicy) => {
    for (const node of nodes.list()) if (selectsNode(spec.nodeSelector, node)) queue.add(node.metadata.name);
  };
  const addAffected = (change: Change<Readonly<NodeMaintenance | NodeReadinessPolicy>>) => {
    addSelected(change.object);
    if (change.type === 'Updated') addSelected(change.previous);
  };
  return [
    nodes.subscribe((change) => {
      if (isRelevantNodeChange(change, states)) queue.add(change.object.metadata.name);
    }),
    readinesses.subscribe(({ object }) => queue.add(object.metadata.name)),
    readinessPolicies.subscribe((change) => {
      if (change.type !== 'Updated' || !hasSameRequirements(change.previous, change.object))
        addAffected(change);
    }),
    maintenances.subscribe((change) => {
      if (change.type !== 'Updated' || !maintainsSameNodes(change.previous, change.object))
        addAffected(change);
    }),
    pods.subscribe((change) => {
      const versions = change.type === 'Updated' ? [change.object, change.previous] : [change.object];
      for (const pod of versions) if (isGatePod(pod, states)) queue.add(pod.spec.nodeName ?? '');
    }),
  ];
}

/** Reports whether a gate of its node selects the pod. Changes of the gates themselves reconcile the node anyway. */
function isGatePod(pod: Pod, states: NodeStates): boolean {
  const gates = states.get(pod.spec.nodeName ?? '')?.gates ?? [];
  return gates.some((gate) => selectsPod(gate, pod));
}

/** Returns false for a node that has neither gates, nor the taint, nor the condition, and whose labels are unchanged. */
function isRelevantNodeChange(change: Change<Readonly<Node>>, states: NodeStates): boolean {
  if (change.type !== 'Updated') return true;
  const { object, previous } = change;
  const state = states.get(object.metadata.name);
  if (state === undefined || state.gates.length > 0 || isTainted(object)) return true;
  const current = [object.metadata.labels, readinessConditionOf(object)];
  return !isDeepStrictEqual(current, [previous.metadata.labels, undefined]);
}

function maintainsSameNodes(before: NodeMaintenance, after: NodeMaintenance): boolean {
  if (isInCordonOrDrain(before) !== isInCordonOrDrain(after)) return false;
  const nodes = (one: NodeMaintenance) => [one.spec.nodeSelector, skippedNodes(one)];
  return !isInCordonOrDrain(after) || isDeepStrictEqual(nodes(before), nodes(after));
}
