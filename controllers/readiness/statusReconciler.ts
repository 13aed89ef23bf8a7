import { isDeepStrictEqual } from 'node:util';
import type { Condition, Node, ObjectMeta } from '../../api/core.ts';
import {
  FIELD_MANAGER,
  NODE_EXISTS_LABEL,
  READINESS_CONDITION,
  READINESS_CONDITION_MANAGER,
} from '../../api/names.ts';
import type { NodeReadiness, NodeReadinessStatus, ObservedNodeReadiness } from '../../api/nodeReadiness.ts';
import { type ConditionFacts, withCondition } from '../../domain/common/conditions.ts';
import { readinessCondition } from '../../domain/readiness/gates.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreNotFound, isFailedTest, isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import type { Requeue } from '../../kube/workQueue.ts';
import { isAdoptedBy, isLabelledWithoutNode, isOfPreviousNode, isOwnedBy } from './nodeOwner.ts';
import type { NodeState, NodeStates } from './nodeStates.ts';
import { isTainted } from './readinessTaint.ts';

export interface StatusReconcilerOptions {
  cluster: FencedCluster;
  states: NodeStates;
  /** Reports whether taints are being reconciled. */
  isTaintWorkPending: () => boolean;
}

/** Statuses are deferred in favour of taints, which pods wait for, for at most this time. */
const maxDeferralMs = 3_000;
const deferralRetryMs = 200;

/** Creates the NodeReadiness of a node, and writes its status and the condition of the Node. */
export class StatusReconciler {
  readonly #options: StatusReconcilerOptions;

  constructor(options: StatusReconcilerOptions) {
    this.#options = options;
  }

  async reconcileStatus(name: string): Promise<Requeue | void> {
    const { cluster, states } = this.#options;
    const node = cluster.nodes.get(name);
    const readiness = cluster.readinesses.get(name);
    const state = states.get(name);
    if (node === undefined) return this.#removeLabel(readiness);
    if (state?.status === undefined || state.uid !== node.metadata.uid) return undefined;
    if (isOfPreviousNode(readiness, node)) return undefined;
    if (readiness === undefined || !isOwnedBy(readiness, node)) {
      const owned = await this.#ensureOwner(node, readiness);
      if (owned !== undefined && isTainted(node)) await states.confirmGates(node, state, owned);
      return undefined;
    }
    // One of an earlier release. What follows does not depend on the label.
    if (!isAdoptedBy(readiness, node)) await this.#ensureOwner(node, readiness);
    // Confirming the gates early saves the request when the taint is removed.
    if (isTainted(node)) await states.confirmGates(node, state);
    if (this.#isDeferred(state)) return { requeueAfterMs: deferralRetryMs };
    return this.#writeChanges(node, readiness, state);
  }

  #isDeferred(state: NodeState): boolean {
    const now = performance.now();
    const since = (state.deferredSinceMs ??= now);
    if (this.#options.isTaintWorkPending() && now - since < maxDeferralMs) return true;
    state.deferredSinceMs = undefined;
    return false;
  }

  async #writeChanges(node: Node, readiness: ObservedNodeReadiness, state: NodeState): Promise<void> {
    const { status } = state;
    if (status === undefined) return;
    const condition = readinessCondition(status, READINESS_CONDITION);
    const current = readinessConditionOf(node);
    const hasCondition = isDeepStrictEqual(current && factsOf(current), condition);
    const hasStatus = isDeepStrictEqual(readiness.status, status);
    if (hasCondition && hasStatus) return;
    state.statusWrittenAtMs = performance.now();
    if (!hasStatus) await this.#writeStatus(readiness, status);
    if (!hasCondition) await this.#writeCondition(node, condition);
  }

  async #writeStatus(
    { metadata: { name, uid } }: ObservedNodeReadiness,
    status: NodeReadinessStatus,
  ): Promise<void> {
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ] as const;
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    await this.#options.cluster.kube
      .jsonPatch(resources.nodeReadinesses, { name }, operations, options)
      .catch((error: unknown) => {
        // The object was deleted or replaced: its watch event reconciles it again.
        if (!isFailedTest(error) && !isKubeError(error, 'NotFound')) throw error;
      });
  }

  async #writeCondition(
    { metadata: { name, uid }, status }: Node,
    facts: ConditionFacts | undefined,
  ): Promise<void> {
    const { kube } = this.#options.cluster;
    const before = (status?.conditions ?? []).filter(({ type }) => type === READINESS_CONDITION);
    const conditions = facts === undefined ? [] : withCondition(before, facts, kube.now().toISOString());
    const object = { metadata: { name, uid }, status: { conditions } };
    const options = { fieldManager: READINESS_CONDITION_MANAGER, force: true, subresource: 'status' };
    await kube.apply(resources.nodes, object as Node, options).catch(ignoreNotFound);
  }

  /**
   * Creates the NodeReadiness of a node, or adds the owner to one that was created before its node. Resolves with undefined if
   * another client wrote it first.
   */
  async #ensureOwner(
    { metadata: { name, uid = '' } }: Node,
    readiness: ObservedNodeReadiness | undefined,
  ): Promise<NodeReadiness | undefined> {
    // Read from the apiserver: with a deleted node as its owner, gates reserved for the next node of this name would be deleted.
    const node = await this.#options.cluster.kube.get(resources.nodes, { name });
    if (node?.metadata.uid !== uid) return undefined;
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid }];
    const metadata = { name, ownerReferences, labels: { [NODE_EXISTS_LABEL]: 'true' } };
    const writing =
      readiness === undefined
        ? this.#create(metadata)
        : this.#adopt({ ...metadata, uid: readiness.metadata.uid ?? '' });
    return writing.catch((error: unknown) => {
      if (!isKubeError(error, 'AlreadyExists')) throw error;
      return undefined;
    });
  }

  /** Removes the label from a NodeReadiness without a Node. A conflict has a watch event, which reconciles it again. */
  async #removeLabel(readiness: ObservedNodeReadiness | undefined): Promise<void> {
    if (readiness === undefined || !isLabelledWithoutNode(readiness)) return;
    const { name, uid, resourceVersion } = readiness.metadata;
    const patch = { metadata: { uid, resourceVersion, labels: { [NODE_EXISTS_LABEL]: null } } };
    await this.#options.cluster.kube
      .mergePatch(resources.nodeReadinesses, { name }, patch, { fieldManager: FIELD_MANAGER })
      .catch((error: unknown) => {
        if (!isKubeError(error, 'NotFound') && !isKubeError(error, 'Conflict')) throw error;
      });
  }

  #create(metadata: ObjectMeta): Promise<NodeReadiness> {
    const object = { metadata, spec: { readinessGates: [] } };
    return this.#options.cluster.kube.create<NodeReadiness>(resources.nodeReadinesses, object, {
      fieldManager: FIELD_MANAGER,
    });
  }

  #adopt(metadata: ObjectMeta): Promise<NodeReadiness> {
    const options = { fieldManager: FIELD_MANAGER, force: true };
    return this.#options.cluster.kube.apply(resources.nodeReadinesses, { metadata }, options);
  }
}

/** Returns the condition that mirrors the readiness of a node. */
export function readinessConditionOf({ status }: Readonly<Node>): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === READINESS_CONDITION);
}

function factsOf({ type, status, reason, message }: ConditionFacts): ConditionFacts {
  return { type, status, reason, message };
}
