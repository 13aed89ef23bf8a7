import type { KubeObject } from '../../api/core.ts';
import {
  FIELD_MANAGER,
  MAX_READINESS_GATES,
  READINESS_POLICY_MANAGER as managerPrefix,
} from '../../api/names.ts';
import type { ObservedNodeReadiness } from '../../api/nodeReadiness.ts';
import { type AppliedGate, gateWrites } from '../../domain/readiness/policyGates.ts';
import type { FencedKube } from '../../kube/client.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { isKubeError, isRejection } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { Requeue } from '../../kube/workQueue.ts';
import type { PolicyAuthority } from './policyAuthority.ts';

export interface PolicyGatesReconcilerOptions {
  cluster: FencedCluster;
  authority: PolicyAuthority;
  log: Log;
  /** Called when the apiserver rejects the gates of a policy with a new error. */
  onRejection: (policy: string) => void;
}

export const gateRules = { managerPrefix, maxGates: MAX_READINESS_GATES };

/** The interval at which all nodes are reconciled in case a change was missed. Requests are sent only for differences. */
const resyncMs = 300_000;

/** `Outdated`: another client wrote the object first. `Unchanged`: the write created no new version of the object. */
type WriteResult = 'Written' | 'Unchanged' | 'Outdated' | { rejectedBecause: string };

/** Writes the gates of all policies into the NodeReadiness of a node. */
export class PolicyGatesReconciler {
  readonly #options: PolicyGatesReconcilerOptions;
  /** Node -> policy -> the error of the apiserver for the latest attempt to apply its gates. */
  readonly #failures = new Map<string, Map<string, string>>();

  constructor(options: PolicyGatesReconcilerOptions) {
    this.#options = options;
  }

  /** Returns why the gates of a policy could not be written into the NodeReadiness of a node. */
  failureOf(node: string, policy: string): string | undefined {
    return this.#failures.get(node)?.get(policy);
  }

  /** Performs at most one write: the next one must be based on the version that it creates. */
  async reconcileGates(name: string): Promise<Requeue | 'BackOff' | void> {
    const { nodes, readinesses, readinessPolicies } = this.#options.cluster;
    const node = nodes.get(name);
    const readiness = readinesses.get(name);
    if (node === undefined || readiness === undefined) {
      this.#failures.delete(name);
      return undefined;
    }
    const policies = await this.#options.authority.policiesWriting(node, readinessPolicies.list());
    const { orphans, applied } = gateWrites(node, policies, readiness, gateRules);
    const failures = this.#failuresOf(name);
    for (const policy of failures.keys())
      if (applied.every((one) => one.policy !== policy)) failures.delete(policy);
    const removed = orphans.length === 0 ? 'Unchanged' : await this.#remove(readiness, orphans);
    // The watch event of the write reconciles the node again.
    if (removed === 'Written') return { requeueAfterMs: resyncMs };
    if (removed === 'Outdated') return 'BackOff';
    const requeue = await this.#applyFirst(readiness, applied);
    if (removed === 'Unchanged') return requeue;
    const { rejectedBecause: error } = removed;
    this.#options.log.warn('Gates could not be removed from a node', { node: name, gates: orphans, error });
    return 'BackOff';
  }

  #failuresOf(node: string): Map<string, string> {
    const failures = this.#failures.get(node) ?? new Map<string, string>();
    this.#failures.set(node, failures);
    return failures;
  }

  /** Applies the gates of policies until one write succeeds. Policies that the apiserver rejected before come last. */
  async #applyFirst(
    readiness: ObservedNodeReadiness,
    applied: readonly { policy: string; gates: AppliedGate[] }[],
  ): Promise<Requeue | 'BackOff'> {
    const { name } = readiness.metadata;
    const failures = this.#failuresOf(name);
    const [untried = [], failed = []] = [false, true].map((hasFailed) =>
      applied.filter(({ policy }) => failures.has(policy) === hasFailed),
    );
    for (const { policy, gates } of [...untried, ...failed]) {
      const result = await this.#apply(readiness, policy, gates);
      if (result === 'Unchanged') continue;
      if (result === 'Written') return { requeueAfterMs: resyncMs };
      if (result === 'Outdated') return 'BackOff';
      this.#recordFailure(name, policy, result.rejectedBecause);
    }
    return failures.size > 0 ? 'BackOff' : { requeueAfterMs: resyncMs };
  }

  #recordFailure(node: string, policy: string, message: string): void {
    const failures = this.#failuresOf(node);
    if (failures.get(policy) === message) return;
    failures.set(policy, message);
    this.#options.log.warn('Gates of a policy could not be applied', { node, policy, error: message });
    this.#options.onRejection(policy);
  }

  /** Removes gates that only policies own and no policy requires. */
  async #remove(readiness: ObservedNodeReadiness, orphans: readonly string[]): Promise<WriteResult> {
    const { name, uid, resourceVersion } = readiness.metadata;
    const readinessGates = readiness.spec.readinessGates.filter((gate) => !orphans.includes(gate.name));
    // The resourceVersion keeps a concurrent change of another field manager from being lost.
    const patch = { metadata: { uid, resourceVersion }, spec: { readinessGates } };
    const options = { fieldManager: FIELD_MANAGER };
    this.#options.log.debug('Removing gates that no policy requires', { node: name, gates: orphans });
    return this.#attempt(readiness, (kube) =>
      kube.mergePatch(resources.nodeReadinesses, { name }, patch, options),
    );
  }

  async #apply(
    readiness: ObservedNodeReadiness,
    policy: string,
    readinessGates: readonly AppliedGate[],
  ): Promise<WriteResult> {
    const { name, uid, resourceVersion } = readiness.metadata;
    // The resourceVersion keeps a gate that another field manager has just added from being taken over.
    const version = {
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    };
    const object = { metadata: { name, ...version }, spec: { readinessGates } };
    const options = { fieldManager: managerPrefix + policy, force: true };
    this.#options.log.debug('Applying the gates of a policy', {
      node: name,
      policy,
      gates: readinessGates.length,
    });
    return this.#attempt(readiness, (kube) => kube.apply(resources.nodeReadinesses, object, options));
  }

  async #attempt(
    readiness: ObservedNodeReadiness,
    write: (kube: FencedKube) => Promise<KubeObject>,
  ): Promise<WriteResult> {
    try {
      const { metadata } = await write(this.#options.cluster.kube);
      return metadata.resourceVersion === readiness.metadata.resourceVersion ? 'Unchanged' : 'Written';
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return 'Outdated';
      if (isRejection(error)) return { rejectedBecause: error.apiMessage };
      throw error;
    }
  }
}
