import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../../api/core.ts';
import type { ObservedNodeReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { hasSameRequirements, isEvaluated } from '../../domain/readiness/gates.ts';
import { policiesIn } from '../../domain/readiness/policyGates.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { Log } from '../../kube/log.ts';
import type { NodePermissions } from '../../kube/nodePermissions.ts';
import { WorkQueue } from '../../kube/workQueue.ts';
import { PolicyAuthority } from './policyAuthority.ts';
import { gateRules, PolicyGatesReconciler } from './policyGatesReconciler.ts';
import { PolicyStatusReconciler, statusDelayMs } from './policyStatusReconciler.ts';

interface Deps {
  cluster: FencedCluster;
  /** The permissions of the authors of policies to gate nodes. */
  permissions: NodePermissions;
  log: Log;
}

interface Queues {
  /** Names of nodes. */
  gates: WorkQueue;
  /** Names of policies. */
  statuses: WorkQueue;
}

const gatesWorkers = 8;
const statusWorkers = 2;

/**
 * Writes the gates of NodeReadinessPolicies into the NodeReadinesses of the nodes that they select. Contract:
 *
 * 1. Each policy owns its gates under its own field manager. Gates that it no longer requires, and gates of nodes that it no longer
 *    selects, are removed; nothing else is. This needs no finalizer, because the managed fields show the owner.
 * 2. A gate that another field manager owns, wholly or in part, stays unchanged; the condition GatesApplied of the policy names it.
 * 3. The problems of a policy are published before its gates are written. Gates whose pods could not start are suppressed.
 * 4. Gates are written only to nodes that the author of the policy may gate (ADR 28).
 * 5. A policy whose gates the apiserver rejects blocks no other policy, and is retried with back-off.
 */
export async function runReadinessPoliciesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, permissions, log } = deps;
  const authority = new PolicyAuthority(cluster, permissions);
  const queues: Queues = {
    gates: new WorkQueue('readiness-policy-gates'),
    statuses: new WorkQueue('readiness-policy-status'),
  };
  const onRejection = (policy: string) => queues.statuses.addAfter(policy, statusDelayMs);
  const gates = new PolicyGatesReconciler({ cluster, authority, log, onRejection });
  const failureOf = gates.failureOf.bind(gates);
  const statuses = new PolicyStatusReconciler({
    cluster,
    authority,
    log,
    failureOf,
    onPermissionChange: (node) => queues.gates.add(node),
  });
  const unsubscribe = enqueueChanges(cluster, queues);
  try {
    await Promise.all([
      queues.gates.run({
        workers: gatesWorkers,
        reconcile: (name) => gates.reconcileGates(name),
        signal,
        log,
        observer: cluster.queues,
      }),
      queues.statuses.run({
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

/** Adds nodes and policies to the queues when a change affects them. Returns the functions that end the subscriptions. */
function enqueueChanges(cluster: FencedCluster, { gates, statuses }: Queues): (() => void)[] {
  const { nodes, daemonSets, readinesses, readinessPolicies } = cluster;
  const addPolicies = (isAffected: (policy: NodeReadinessPolicy) => boolean) => {
    for (const policy of readinessPolicies.list())
      if (isAffected(policy)) statuses.addAfter(policy.metadata.name, statusDelayMs);
  };
  const addPoliciesOf = (readiness: ObservedNodeReadiness) => {
    const owners = policiesIn(readiness, gateRules.managerPrefix);
    const node = nodes.get(readiness.metadata.name);
    addPolicies(
      ({ metadata, spec }) =>
        owners.includes(metadata.name) || (node !== undefined && selectsNode(spec.nodeSelector, node)),
    );
  };
  return [
    nodes.subscribe((change) => {
      if (change.type === 'Updated' && hasSameLabels(change.previous, change.object)) return;
      gates.add(change.object.metadata.name);
      addPolicies(() => true);
    }),
    readinesses.subscribe((change) => {
      if (change.type === 'Updated' && hasSameGates(change.previous, change.object)) return;
      gates.add(change.object.metadata.name);
      addPoliciesOf(change.object);
      if (change.type === 'Updated') addPoliciesOf(change.previous);
    }),
    daemonSets.subscribe((change) => {
      if (change.type === 'Updated' && isDeepStrictEqual(change.previous.spec, change.object.spec)) return;
      const { namespace } = change.object.metadata;
      addPolicies(({ spec }) => spec.readinessGates.some((gate) => gate.namespace === namespace));
    }),
    readinessPolicies.subscribe((change) => {
      const { type, object } = change;
      if (change.type === 'Updated' && hasSameRequirements(change.previous, object)) return;
      const isDeleted = type === 'Deleted' || object.metadata.deletionTimestamp !== undefined;
      if (isDeleted || isEvaluated(object)) for (const { metadata } of nodes.list()) gates.add(metadata.name);
      else statuses.add(object.metadata.name);
    }),
  ];
}

function hasSameLabels(before: Node, after: Node): boolean {
  return isDeepStrictEqual(before.metadata.labels, after.metadata.labels);
}

function hasSameGates(before: ObservedNodeReadiness, after: ObservedNodeReadiness): boolean {
  return isDeepStrictEqual([before.spec, before.gateOwners], [after.spec, after.gateOwners]);
}
