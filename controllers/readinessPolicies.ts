import { setImmediate as othersHadTheirTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, Node } from '../api/core.ts';
import {
  FIELD_MANAGER,
  MAX_READINESS_GATES,
  READINESS_POLICY_MANAGER,
  READINESS_TAINT,
} from '../api/names.ts';
import type { SeenReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { compareNames } from '../domain/names.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import {
  type AppliedGate,
  gatesOfPolicies,
  gateWrites,
  hasFormerGate,
  hasGate,
  isWritten,
  policiesIn,
  refusalsOf,
} from '../domain/policyGates.ts';
import { asksTheSame, isChecked } from '../domain/readiness.ts';
import { type PolicyFacts, policyStatus, type Workload } from '../domain/readinessPolicy.ts';
import type { FencedKube } from '../kube/client.ts';
import type { FencedCluster } from '../kube/cluster.ts';
import { isKubeError, isRefusal } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { workloadOf, workloadsIn } from '../kube/workloads.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
}

const nodesAtOnce = 8;
const policiesAtOnce = 2;
/** What happens to nodes and workloads is looked at together. Milliseconds. */
const lookAfter = 1_000;
/** Pods, namespaces and the pod templates of Deployments and StatefulSets are not followed, but looked at. Milliseconds. */
const lookEvery = 60_000;
/** For so long what a namespace was seen to have serves all policies. Milliseconds. */
const freshFor = 10_000;
/** A policy is looked at for at most one part in so many of the time, however many nodes change. */
const restPerLook = 20;
/** So many nodes are looked at before others have their turn: taints must not wait for what is told of a policy. */
const nodesAtATime = 250;
/** Every node, in case that something was missed. Nothing is sent when nothing differs. Milliseconds. */
const resyncEvery = 300_000;

const rules = { manager: READINESS_POLICY_MANAGER, mostGates: MAX_READINESS_GATES };

/**
 * Gives nodes the gates of the policies that select them. Contract:
 *
 * 1. Each policy owns its gates by a field manager of its own: what it no longer asks for, or for nodes that it no longer
 *    selects, goes, and nothing else does. That needs no finalizer, because the fields tell whose they are.
 * 2. A gate that somebody else wrote stays as it is, and so does one of which somebody else wrote a part; the policy's condition
 *    GatesWritten names them.
 * 3. What is wrong with a policy is published before its gates are written. Gates that no pod of theirs could open are not.
 * 4. What the apiserver refuses of one policy hinders no other, and is tried again, later each time.
 */
export async function runReadinessPoliciesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { nodes, daemonSets, readinesses, readinessPolicies } = deps.cluster;
  const writing = new WorkQueue();
  const judging = new WorkQueue();
  const writer = new GateWriter(deps, (policy) => judging.addAfter(policy, lookAfter));
  const judge = new PolicyJudge(deps, writer);
  const judgeIf = (concerns: (policy: NodeReadinessPolicy) => boolean) => {
    for (const policy of readinessPolicies.list())
      if (concerns(policy)) judging.addAfter(policy.metadata.name, lookAfter);
  };
  const judgeThoseOf = (seen: SeenReadiness) => {
    const owners = policiesIn(seen, rules.manager);
    const node = nodes.get(seen.metadata.name);
    judgeIf(
      ({ metadata, spec }) =>
        owners.includes(metadata.name) || (node !== undefined && selectsNode(spec.nodeSelector, node)),
    );
  };
  const unsubscribe = [
    nodes.subscribe((change) => {
      if (change.type === 'Updated' && hasSameLabels(change.previous, change.object)) return;
      writing.add(change.object.metadata.name);
      judgeIf(() => true);
    }),
    readinesses.subscribe((change) => {
      if (change.type === 'Updated' && !hasOtherGates(change.previous, change.object)) return;
      writing.add(change.object.metadata.name);
      judgeThoseOf(change.object);
      if (change.type === 'Updated') judgeThoseOf(change.previous);
    }),
    daemonSets.subscribe((change) => {
      const isSame = change.type === 'Updated' && isDeepStrictEqual(change.previous.spec, change.object.spec);
      const { namespace } = change.object.metadata;
      if (!isSame) judgeIf(({ spec }) => spec.readinessGates.some((gate) => gate.namespace === namespace));
    }),
    readinessPolicies.subscribe((change) => {
      const { type, object } = change;
      if (change.type === 'Updated' && asksTheSame(change.previous, object)) return;
      const isGoing = type === 'Deleted' || object.metadata.deletionTimestamp !== undefined;
      if (isGoing || isChecked(object)) for (const { metadata } of nodes.list()) writing.add(metadata.name);
      else judging.add(object.metadata.name);
    }),
  ];
  try {
    const { log } = deps;
    await Promise.all([
      writing.run({ workers: nodesAtOnce, reconcile: (name) => writer.write(name), signal, log }),
      judging.run({ workers: policiesAtOnce, reconcile: (name) => judge.look(name), signal, log }),
    ]);
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

function hasSameLabels(before: Node, after: Node): boolean {
  return isDeepStrictEqual(before.metadata.labels, after.metadata.labels);
}

function hasOtherGates(before: SeenReadiness, after: SeenReadiness): boolean {
  return !isDeepStrictEqual([before.spec, before.gateOwners], [after.spec, after.gateOwners]);
}

/** What became of a write: `Outdated` when another writer came before it, `Unchanged` when it made no new version. */
type Outcome = 'Written' | 'Unchanged' | 'Outdated' | { refusedBecause: string };

class GateWriter {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #onRefusal: (policy: string) => void;
  /** Node -> policy -> what the apiserver said to the last try to write its gates there. */
  readonly #failures = new Map<string, Map<string, string>>();

  constructor({ cluster, log }: Deps, onRefusal: (policy: string) => void) {
    this.#cluster = cluster;
    this.#log = log;
    this.#onRefusal = onRefusal;
  }

  /** Why a policy's gates could not be written into the NodeReadiness of a node. */
  failureOf(node: string, policy: string): string | undefined {
    return this.#failures.get(node)?.get(policy);
  }

  /** Into the NodeReadiness of one node, one policy after the other: each write makes a version, that the next one must see. */
  async write(name: string): Promise<Requeue | 'BackOff' | void> {
    const { nodes, readinesses, readinessPolicies } = this.#cluster;
    const node = nodes.get(name);
    const seen = readinesses.get(name);
    if (node === undefined || seen === undefined) {
      this.#failures.delete(name);
      return undefined;
    }
    const { orphans, applied } = gateWrites(node, readinessPolicies.list(), seen, rules);
    const failures = this.#failuresOf(name);
    for (const policy of failures.keys())
      if (applied.every((one) => one.policy !== policy)) failures.delete(policy);
    const removed = orphans.length === 0 ? 'Unchanged' : await this.#remove(seen, orphans);
    // The informer shows what was written, and so brings the next turn.
    if (removed === 'Written') return { requeueAfterMs: resyncEvery };
    if (removed === 'Outdated') return 'BackOff';
    const again = await this.#applyFirst(seen, applied);
    if (removed === 'Unchanged') return again;
    const { refusedBecause: error } = removed;
    this.#log.warn('Gates could not be removed', { node: name, gates: orphans, error });
    return 'BackOff';
  }

  #failuresOf(node: string): Map<string, string> {
    const failures = this.#failures.get(node) ?? new Map<string, string>();
    this.#failures.set(node, failures);
    return failures;
  }

  /** The first that the apiserver takes; those that it did not take before come last. */
  async #applyFirst(
    seen: SeenReadiness,
    applied: readonly { policy: string; gates: AppliedGate[] }[],
  ): Promise<Requeue | 'BackOff'> {
    const { name } = seen.metadata;
    const failures = this.#failuresOf(name);
    const [untried = [], tried = []] = [false, true].map((failed) =>
      applied.filter(({ policy }) => failures.has(policy) === failed),
    );
    for (const { policy, gates } of [...untried, ...tried]) {
      const outcome = await this.#apply(seen, policy, gates);
      if (outcome === 'Unchanged') continue;
      if (outcome === 'Written') return { requeueAfterMs: resyncEvery };
      if (outcome === 'Outdated') return 'BackOff';
      this.#note(name, policy, outcome.refusedBecause);
    }
    return failures.size > 0 ? 'BackOff' : { requeueAfterMs: resyncEvery };
  }

  #note(node: string, policy: string, message: string): void {
    const failures = this.#failuresOf(node);
    if (failures.get(policy) === message) return;
    failures.set(policy, message);
    this.#log.warn('Gates of a policy could not be written', { node, policy, error: message });
    this.#onRefusal(policy);
  }

  /** Of these a policy owns each part, and none asks for one: they go whole. */
  async #remove(seen: SeenReadiness, orphans: readonly string[]): Promise<Outcome> {
    const { name, uid, resourceVersion } = seen.metadata;
    const readinessGates = seen.spec.readinessGates.filter((gate) => !orphans.includes(gate.name));
    // This very version: a gate that another writer has made meanwhile, or a part of one, is not to be lost.
    const patch = { metadata: { uid, resourceVersion }, spec: { readinessGates } };
    const options = { fieldManager: FIELD_MANAGER };
    this.#log.debug('Gates that no policy asks for are removed', { node: name, gates: orphans });
    return this.#attempt(seen, (kube) =>
      kube.mergePatch(resources.nodeReadinesses, { name }, patch, options),
    );
  }

  async #apply(
    seen: SeenReadiness,
    policy: string,
    readinessGates: readonly AppliedGate[],
  ): Promise<Outcome> {
    const { name, uid, resourceVersion } = seen.metadata;
    // Only this version: a gate that another writer has made meanwhile is not to be taken over.
    const version = {
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    };
    const object = { metadata: { name, ...version }, spec: { readinessGates } };
    const options = { fieldManager: READINESS_POLICY_MANAGER + policy, force: true };
    this.#log.debug('Gates of a policy are written', { node: name, policy, gates: readinessGates.length });
    return this.#attempt(seen, (kube) => kube.apply(resources.nodeReadinesses, object, options));
  }

  async #attempt(seen: SeenReadiness, write: (kube: FencedKube) => Promise<KubeObject>): Promise<Outcome> {
    try {
      const written = await write(this.#cluster.kube);
      return written.metadata.resourceVersion === seen.metadata.resourceVersion ? 'Unchanged' : 'Written';
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return 'Outdated';
      if (isRefusal(error)) return { refusedBecause: error.apiMessage };
      throw error;
    }
  }
}

/** What a namespace has that matters to gates, and when that was seen. */
interface SeenNamespace {
  /** Milliseconds of `performance.now()`. */
  seenAt: number;
  exists: boolean;
  /** Deployments and StatefulSets. */
  workloads: Workload[];
}

class PolicyJudge {
  readonly #cluster: FencedCluster;
  readonly #log: Log;
  readonly #writer: GateWriter;
  readonly #namespaces = new Map<string, SeenNamespace>();
  /** Policy -> when it may be looked at again. Milliseconds of `performance.now()`. */
  readonly #restsUntil = new Map<string, number>();
  /** Policy -> why its status could not be written, so that it is logged once. */
  readonly #unwritable = new Map<string, string>();

  constructor({ cluster, log }: Deps, writer: GateWriter) {
    this.#cluster = cluster;
    this.#log = log;
    this.#writer = writer;
  }

  async look(name: string): Promise<Requeue | void> {
    const policy = this.#cluster.readinessPolicies.get(name);
    if (policy === undefined || policy.metadata.deletionTimestamp !== undefined) {
      for (const remembered of [this.#restsUntil, this.#unwritable]) remembered.delete(name);
      return undefined;
    }
    const began = performance.now();
    const rest = (this.#restsUntil.get(name) ?? 0) - began;
    // Its nodes wait for the first look at it.
    if (rest > 0 && isChecked(policy)) return { requeueAfterMs: rest };
    const isDecided = await this.#judge(policy);
    const ended = performance.now();
    this.#restsUntil.set(name, ended + Math.min((ended - began) * restPerLook, lookEvery));
    return { requeueAfterMs: isDecided ? lookEvery : lookAfter };
  }

  /** False when what counts of the policy has changed by it, so that its progress is to be looked at again. */
  async #judge(policy: NodeReadinessPolicy): Promise<boolean> {
    const { kube } = this.#cluster;
    const workloads = await this.#workloadsOf(policy);
    const facts = await this.#factsOf(policy);
    const status = policyStatus({ ...facts, ...workloads }, kube.now().toISOString());
    if (!isDeepStrictEqual(policy.status, status)) await this.#write(policy, status);
    return isChecked(policy) && isDeepStrictEqual(policy.status?.withheldGates, status.withheldGates);
  }

  async #write({ metadata: { name, uid } }: NodeReadinessPolicy, status: object): Promise<void> {
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ] as const;
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    try {
      await this.#cluster.kube.jsonPatch(resources.nodeReadinessPolicies, { name }, operations, options);
      this.#unwritable.delete(name);
    } catch (error) {
      // Another one of that name, or none: the informer will show it.
      if (!isKubeError(error, 'Invalid', 'NotFound', 'Conflict')) throw error;
      if (error.kind !== 'Invalid' || this.#unwritable.get(name) === error.apiMessage) return;
      this.#unwritable.set(name, error.apiMessage);
      this.#log.warn('Status of a policy could not be written', { policy: name, error: error.apiMessage });
    }
  }

  async #factsOf(policy: NodeReadinessPolicy): Promise<Omit<PolicyFacts, 'workloads' | 'missingNamespaces'>> {
    const { nodes, pods } = this.#cluster;
    const all = nodes.list();
    const { nodeSelector, readinessGates } = policy.spec;
    const chosen = all.filter((node) => selectsNode(nodeSelector, node));
    const selected = new Set(chosen.map(({ metadata }) => metadata.name));
    const namespaces = new Set(readinessGates.map(({ namespace }) => namespace));
    return {
      policy,
      selected,
      nodesInAll: all.length,
      pods: pods.list().filter(({ metadata }) => namespaces.has(metadata.namespace ?? '')),
      taint: READINESS_TAINT,
      ...(await this.#progressOf(policy, selected)),
    };
  }

  /** How far its gates have got. */
  async #progressOf(
    policy: NodeReadinessPolicy,
    selected: ReadonlySet<string>,
  ): Promise<Pick<PolicyFacts, 'unwritten' | 'inEffect' | 'former' | 'refusals' | 'failures'>> {
    const { nodes, readinesses, readinessPolicies } = this.#cluster;
    const { name } = policy.metadata;
    const manager = READINESS_POLICY_MANAGER + name;
    const policies = readinessPolicies.list();
    const inEffect = new Set<string>();
    const former = new Set<string>();
    const refusals: PolicyFacts['refusals'][number][] = [];
    const failures: PolicyFacts['failures'][number][] = [];
    let unwritten = 0;
    for (const [i, node] of nodes.list().entries()) {
      if ((i + 1) % nodesAtATime === 0) await othersHadTheirTurn();
      const seen = readinesses.get(node.metadata.name);
      const own = selected.has(node.metadata.name)
        ? gatesOfPolicies(node, policies, seen, rules).find((one) => one.policy === name)
        : undefined;
      const message = this.#writer.failureOf(node.metadata.name, name);
      if (message !== undefined) failures.push({ node: node.metadata.name, message });
      for (const refusal of refusalsOf(seen, own, manager))
        refusals.push({ ...refusal, node: node.metadata.name });
      if (own !== undefined && (seen === undefined || !isWritten(seen, own.gates, manager))) unwritten += 1;
      if (seen === undefined) continue;
      for (const gate of policy.spec.readinessGates) {
        if (hasGate(seen, gate, manager)) inEffect.add(gate.name);
        if (hasFormerGate(seen, gate, { policy: name, manager: rules.manager })) former.add(gate.name);
      }
    }
    const sorted = (a: { node: string }, b: { node: string }) => compareNames(a.node, b.node);
    return {
      unwritten,
      inEffect,
      former,
      refusals: refusals.toSorted(sorted),
      failures: failures.toSorted(sorted),
    };
  }

  /** In the namespaces of the policy's gates. */
  async #workloadsOf(
    policy: NodeReadinessPolicy,
  ): Promise<Pick<PolicyFacts, 'workloads' | 'missingNamespaces'>> {
    const namespaces = [...new Set(policy.spec.readinessGates.map(({ namespace }) => namespace))];
    const seenBefore = performance.now() - (isChecked(policy) ? freshFor : 0);
    const workloads = this.#cluster.daemonSets
      .list()
      .filter(({ metadata }) => namespaces.includes(metadata.namespace ?? ''))
      .map((one) => workloadOf('DaemonSet', one, one.spec.template ?? {}));
    const missingNamespaces: string[] = [];
    for (const namespace of namespaces) {
      const known = this.#namespaces.get(namespace);
      const seen =
        known !== undefined && known.seenAt > seenBefore ? known : await this.#namespaceNow(namespace);
      workloads.push(...seen.workloads);
      if (!seen.exists) missingNamespaces.push(namespace);
    }
    return { workloads, missingNamespaces };
  }

  async #namespaceNow(namespace: string): Promise<SeenNamespace> {
    const { kube } = this.#cluster;
    const exists = (await kube.get(resources.namespaces, { name: namespace })) !== undefined;
    const workloads = await workloadsIn(kube, namespace, [resources.deployments, resources.statefulSets]);
    const seen = { seenAt: performance.now(), exists, workloads };
    for (const [name, { seenAt }] of this.#namespaces)
      if (seenAt < seen.seenAt - freshFor) this.#namespaces.delete(name);
    this.#namespaces.set(namespace, seen);
    return seen;
  }
}
