import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../api/core.ts';
import { FIELD_MANAGER, READINESS_POLICY_MANAGER, READINESS_TAINT } from '../api/names.ts';
import type { NodeReadinessGate, SeenReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { compareNames } from '../domain/names.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import {
  gatesOfPolicies,
  isChecked,
  isWritten,
  type PolicyFacts,
  policyStatus,
  type Workload,
} from '../domain/readinessPolicy.ts';
import { byNode, type FencedCluster } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { type RawWorkload, type Resource, resources } from '../kube/resources.ts';
import { slimTemplate } from '../kube/slim.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  log: Log;
}

const nodesAtOnce = 8;
const policiesAtOnce = 2;
/** What happens to nodes and workloads is looked at together. Milliseconds. */
const lookAfter = 1_000;
/** After a write that another one came before. Milliseconds. */
const conflictRest = 50;
/** Pods and pod templates of Deployments are not followed, but looked at. Milliseconds. */
const lookEvery = 60_000;

/**
 * Gives nodes the gates of the policies that select them. Contract:
 *
 * 1. Each policy owns its gates by a field manager of its own: what it no longer asks for, or for nodes that it no longer
 *    selects, goes, and nothing else does. That needs no finalizer, because the fields tell whose they are.
 * 2. A gate that somebody else wrote stays as it is; the policy's condition GatesWritten names them.
 * 3. What is wrong with a policy is published before its gates are written.
 */
export async function runReadinessPoliciesController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { nodes, daemonSets, readinesses, readinessPolicies } = deps.cluster;
  const writing = new WorkQueue();
  const judging = new WorkQueue();
  const writer = new GateWriter(deps);
  const judge = new PolicyJudge(deps);
  const judgeAll = () => {
    for (const { metadata } of readinessPolicies.list()) judging.addAfter(metadata.name, lookAfter);
  };
  const unsubscribe = [
    nodes.subscribe((change) => {
      if (change.type === 'Updated' && hasSameLabels(change.previous, change.object)) return;
      writing.add(change.object.metadata.name);
      judgeAll();
    }),
    readinesses.subscribe((change) => {
      if (change.type === 'Updated' && !hasOtherGates(change.previous, change.object)) return;
      writing.add(change.object.metadata.name);
      judgeAll();
    }),
    daemonSets.subscribe((change) => {
      const isSame = change.type === 'Updated' && isDeepStrictEqual(change.previous.spec, change.object.spec);
      if (!isSame) judgeAll();
    }),
    readinessPolicies.subscribe(({ object }) => {
      if (isChecked(object)) for (const { metadata } of nodes.list()) writing.add(metadata.name);
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

class GateWriter {
  readonly #cluster: FencedCluster;
  readonly #log: Log;

  constructor({ cluster, log }: Deps) {
    this.#cluster = cluster;
    this.#log = log;
  }

  /** Into the NodeReadiness of one node, one policy after the other: each write makes a version, that the next one must see. */
  async write(name: string): Promise<Requeue | void> {
    const { nodes, readinesses, readinessPolicies } = this.#cluster;
    const node = nodes.get(name);
    const seen = readinesses.get(name);
    if (node === undefined || seen === undefined) return undefined;
    const policies = readinessPolicies.list();
    const wanted = gatesOfPolicies(node, policies, seen, READINESS_POLICY_MANAGER);
    const unchecked = new Set(policies.filter((one) => !isChecked(one)).map(({ metadata }) => metadata.name));
    const former = policiesIn(seen).filter((policy) => wanted.every((one) => one.policy !== policy));
    const all = [...former.map((policy) => ({ policy, gates: [] })), ...wanted];
    const next = all.find(
      ({ policy, gates }) =>
        !unchecked.has(policy) && !isWritten(seen, gates, READINESS_POLICY_MANAGER + policy),
    );
    if (next === undefined) return undefined;
    const isDone = await this.#apply(seen, next.policy, next.gates);
    // The informer shows what was written, and so brings the next turn.
    return isDone ? undefined : { requeueAfterMs: conflictRest };
  }

  async #apply(
    { metadata: { name, uid, resourceVersion } }: SeenReadiness,
    policy: string,
    readinessGates: readonly NodeReadinessGate[],
  ): Promise<boolean> {
    // Only this version: a gate that another writer has made meanwhile is not to be taken over.
    const version = {
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    };
    const object = { metadata: { name, ...version }, spec: { readinessGates } };
    const options = { fieldManager: READINESS_POLICY_MANAGER + policy, force: true };
    try {
      await this.#cluster.kube.apply(resources.nodeReadinesses, object, options);
      this.#log.debug('Gates of a policy were written', { node: name, policy, gates: readinessGates.length });
      return true;
    } catch (error) {
      if (!isKubeError(error, 'Conflict', 'NotFound')) throw error;
      return false;
    }
  }
}

/** The policies that own gates of it. */
function policiesIn({ gateOwners }: SeenReadiness): string[] {
  const owners = Object.values(gateOwners)
    .flat()
    .filter((owner) => owner.startsWith(READINESS_POLICY_MANAGER));
  return [...new Set(owners)]
    .map((owner) => owner.slice(READINESS_POLICY_MANAGER.length))
    .toSorted(compareNames);
}

class PolicyJudge {
  readonly #cluster: FencedCluster;

  constructor({ cluster }: Deps) {
    this.#cluster = cluster;
  }

  async look(name: string): Promise<Requeue | void> {
    const { kube, readinessPolicies } = this.#cluster;
    const policy = readinessPolicies.get(name);
    if (policy === undefined || policy.metadata.deletionTimestamp !== undefined) return undefined;
    const workloads = await this.#workloadsOf(policy);
    const status = policyStatus({ ...this.#factsOf(policy), workloads }, kube.now().toISOString());
    if (!isDeepStrictEqual(policy.status, status)) await this.#write(policy, status);
    return { requeueAfterMs: lookEvery };
  }

  async #write({ metadata: { name, uid } }: NodeReadinessPolicy, status: object): Promise<void> {
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ] as const;
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    await this.#cluster.kube
      .jsonPatch(resources.nodeReadinessPolicies, { name }, operations, options)
      .catch((error: unknown) => {
        // Another one of that name, or none: the informer will show it.
        if (!isKubeError(error, 'Invalid', 'NotFound', 'Conflict')) throw error;
      });
  }

  #factsOf(policy: NodeReadinessPolicy): Omit<PolicyFacts, 'workloads'> {
    const { nodes, pods, readinesses, readinessPolicies } = this.#cluster;
    const all = nodes.list();
    const selected = all.filter((node) => selectsNode(policy.spec.nodeSelector, node));
    const manager = READINESS_POLICY_MANAGER + policy.metadata.name;
    const policies = readinessPolicies.list();
    const refusals: { node: string; gate: string; by: string }[] = [];
    let unwritten = 0;
    for (const node of selected) {
      const seen = readinesses.get(node.metadata.name);
      const wanted = gatesOfPolicies(node, policies, seen, READINESS_POLICY_MANAGER);
      const own = wanted.find((one) => one.policy === policy.metadata.name);
      for (const [gate, by] of Object.entries(own?.refused ?? {}))
        refusals.push({ node: node.metadata.name, gate, by });
      if (seen === undefined || !isWritten(seen, own?.gates ?? [], manager)) unwritten += 1;
    }
    return {
      policy,
      nodes: selected,
      nodesInAll: all.length,
      pods: selected.flatMap(({ metadata }) => pods.byIndex(byNode, metadata.name)),
      taint: READINESS_TAINT,
      unwritten,
      refusals: refusals.toSorted((a, b) => compareNames(a.node, b.node) || compareNames(a.gate, b.gate)),
    };
  }

  /** In the namespaces of the policy's gates. */
  async #workloadsOf({ spec }: NodeReadinessPolicy): Promise<Workload[]> {
    const { kube, daemonSets } = this.#cluster;
    const namespaces = [...new Set(spec.readinessGates.map(({ namespace }) => namespace))];
    const workloads = daemonSets
      .list()
      .filter(({ metadata }) => namespaces.includes(metadata.namespace ?? ''))
      .map(({ metadata, spec: { template = {} } }) => workloadOf('DaemonSet', metadata, template));
    for (const namespace of namespaces) {
      for (const resource of [resources.deployments, resources.statefulSets] as Resource[]) {
        const { items } = await kube.list(resource as Resource<RawWorkload>, { namespace });
        workloads.push(...items.map((item) => workloadOf(resource.kind, item.metadata, slimTemplate(item))));
      }
    }
    return workloads;
  }
}

function workloadOf(
  kind: string,
  { namespace = '', name }: { namespace?: string; name: string },
  template: Workload['template'],
): Workload {
  return { kind, namespace, name, template };
}
