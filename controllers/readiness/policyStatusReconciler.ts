import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { FIELD_MANAGER, READINESS_POLICY_MANAGER, READINESS_TAINT } from '../../api/names.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { compareNames } from '../../domain/common/names.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import { isEvaluated } from '../../domain/readiness/gates.ts';
import {
  hasPreviousGate,
  hasGate,
  isApplied,
  policyGatesFor,
  rejectionsOf,
} from '../../domain/readiness/policyGates.ts';
import { computePolicyStatus, type PolicyStatusInput } from '../../domain/readiness/policyStatus.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { isKubeError } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import type { Requeue } from '../../kube/workQueue.ts';
import type { PolicyAuthority } from './policyAuthority.ts';
import { gateRules } from './policyGatesReconciler.ts';
import { PolicyWorkloads } from './policyWorkloads.ts';

export interface PolicyStatusReconcilerOptions {
  cluster: FencedCluster;
  log: Log;
  authority: PolicyAuthority;
  /** Returns why the gates of a policy could not be written into the NodeReadiness of a node. */
  failureOf: (node: string, policy: string) => string | undefined;
  /** Called for a node that the author of a policy may gate, or may no longer gate. */
  onPermissionChange: (node: string) => void;
}

/** Changes of nodes and workloads are batched for this time. */
export const statusDelayMs = 1_000;
/** Pods, namespaces, Deployments and StatefulSets are polled at this interval, because they are not watched for this purpose. */
const pollMs = 60_000;
/** The pause after computing a status is this many times as long as the computation, however many nodes change. */
const pauseFactor = 20;
/** The number of nodes processed between two yields to the event loop: taints must not wait for the status of a policy. */
const nodesPerYield = 250;

/** The part of the input that depends on the NodeReadiness of each node. */
type Progress = Pick<
  PolicyStatusInput,
  'pendingNodes' | 'inEffect' | 'withPreviousDefinition' | 'rejections' | 'failures'
>;

/** Writes the status of a NodeReadinessPolicy. */
export class PolicyStatusReconciler {
  readonly #options: PolicyStatusReconcilerOptions;
  readonly #workloads: PolicyWorkloads;
  /** `performance.now()` before which no status is computed again. */
  #pausedUntilMs = 0;
  /** Policy -> the nodes that its author may not gate. */
  readonly #denied = new Map<string, ReadonlySet<string>>();
  /** Policy -> the latest error that was logged for its status. */
  readonly #loggedErrors = new Map<string, string>();

  constructor(options: PolicyStatusReconcilerOptions) {
    this.#options = options;
    this.#workloads = new PolicyWorkloads(options.cluster);
  }

  async reconcileStatus(name: string): Promise<Requeue | void> {
    const policy = this.#options.cluster.readinessPolicies.get(name);
    if (policy === undefined || policy.metadata.deletionTimestamp !== undefined) {
      for (const cache of [this.#denied, this.#loggedErrors]) cache.delete(name);
      return undefined;
    }
    const startedAtMs = performance.now();
    const pauseMs = this.#pausedUntilMs - startedAtMs;
    // The first status is never delayed: the nodes of the policy wait for it.
    if (pauseMs > 0 && isEvaluated(policy)) return { requeueAfterMs: pauseMs };
    const isFinal = await this.#updateStatus(policy);
    const endedAtMs = performance.now();
    this.#pausedUntilMs = endedAtMs + Math.min((endedAtMs - startedAtMs) * pauseFactor, pollMs);
    return { requeueAfterMs: isFinal ? pollMs : statusDelayMs };
  }

  /** Resolves with false if the gates in effect have changed, so that the progress has to be computed again. */
  async #updateStatus(policy: NodeReadinessPolicy): Promise<boolean> {
    const workloads = await this.#workloads.workloadsOf(policy);
    const input = { ...(await this.#inputFor(policy)), ...workloads };
    const status = computePolicyStatus(input, this.#options.cluster.kube.now().toISOString());
    if (!isDeepStrictEqual(policy.status, status)) await this.#write(policy, status);
    return isEvaluated(policy) && isDeepStrictEqual(policy.status?.suppressedGates, status.suppressedGates);
  }

  async #write({ metadata: { name, uid } }: NodeReadinessPolicy, status: object): Promise<void> {
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ] as const;
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    try {
      const { kube } = this.#options.cluster;
      await kube.jsonPatch(resources.nodeReadinessPolicies, { name }, operations, options);
      this.#loggedErrors.delete(name);
    } catch (error) {
      // The policy was deleted or replaced: its watch event reconciles it again.
      if (!isKubeError(error, 'Invalid', 'NotFound')) throw error;
      if (error.kind !== 'Invalid' || this.#loggedErrors.get(name) === error.apiMessage) return;
      this.#loggedErrors.set(name, error.apiMessage);
      this.#options.log.warn('Status of a policy could not be written', {
        policy: name,
        error: error.apiMessage,
      });
    }
  }

  async #inputFor(
    policy: NodeReadinessPolicy,
  ): Promise<Omit<PolicyStatusInput, 'workloads' | 'missingNamespaces'>> {
    const nodes = this.#options.cluster.nodes.list();
    const { nodeSelector, readinessGates } = policy.spec;
    const selectedNodes = nodes.filter((node) => selectsNode(nodeSelector, node));
    const selected = new Set(selectedNodes.map(({ metadata }) => metadata.name));
    const denied = await this.#options.authority.deniedNodes(policy, selectedNodes);
    this.#reportPermissions(policy.metadata.name, denied.nodes);
    const namespaces = new Set(readinessGates.map(({ namespace }) => namespace));
    const pods = this.#options.cluster.pods.list();
    return {
      policy,
      selected,
      totalNodes: nodes.length,
      pods: pods.filter(({ metadata }) => namespaces.has(metadata.namespace ?? '')),
      taint: READINESS_TAINT,
      denied,
      ...(await this.#progressOf(policy, new Set([...selected].filter((node) => !denied.nodes.has(node))))),
    };
  }

  #reportPermissions(policy: string, denied: ReadonlySet<string>): void {
    const before = this.#denied.get(policy) ?? new Set<string>();
    for (const node of [...before, ...denied])
      if (before.has(node) !== denied.has(node)) this.#options.onPermissionChange(node);
    this.#denied.set(policy, denied);
  }

  async #progressOf(policy: NodeReadinessPolicy, selected: ReadonlySet<string>): Promise<Progress> {
    const { nodes, readinesses, readinessPolicies } = this.#options.cluster;
    const { name } = policy.metadata;
    const manager = READINESS_POLICY_MANAGER + name;
    const { managerPrefix } = gateRules;
    // As they are written: a policy that does not count on a node takes no gate from another one.
    const writersOf = await this.#options.authority.writersOn(
      nodes.list().filter(({ metadata }) => selected.has(metadata.name)),
      readinessPolicies.list(),
    );
    const inEffect = new Set<string>();
    const withPreviousDefinition = new Set<string>();
    const rejections: PolicyStatusInput['rejections'][number][] = [];
    const failures: PolicyStatusInput['failures'][number][] = [];
    let pendingNodes = 0;
    for (const [i, node] of nodes.list().entries()) {
      if ((i + 1) % nodesPerYield === 0) await yieldToEventLoop();
      const { name: nodeName } = node.metadata;
      const readiness = readinesses.get(nodeName);
      const own = selected.has(nodeName)
        ? policyGatesFor(node, writersOf(node), readiness, gateRules).find((one) => one.policy === name)
        : undefined;
      const message = this.#options.failureOf(nodeName, name);
      if (message !== undefined) failures.push({ node: nodeName, message });
      for (const rejection of rejectionsOf(readiness, own, manager))
        rejections.push({ ...rejection, node: nodeName });
      if (own !== undefined && (readiness === undefined || !isApplied(readiness, own.gates, manager)))
        pendingNodes += 1;
      if (readiness === undefined) continue;
      for (const gate of policy.spec.readinessGates) {
        if (hasGate(readiness, gate, manager)) inEffect.add(gate.name);
        if (hasPreviousGate(readiness, gate, { policy: name, managerPrefix }))
          withPreviousDefinition.add(gate.name);
      }
    }
    const byNodeName = (a: { node: string }, b: { node: string }) => compareNames(a.node, b.node);
    return {
      pendingNodes,
      inEffect,
      withPreviousDefinition,
      rejections: rejections.toSorted(byNodeName),
      failures: failures.toSorted(byNodeName),
    };
  }
}
