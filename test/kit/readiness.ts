import type { KubeObject, NodeSelector } from '../../api/core.ts';
import { NODE_READINESS_POLICY, READINESS_TAINT } from '../../api/names.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventuallyHolds } from './holds.ts';

export interface GateDiffers {
  name: string;
  namespace: string;
  /** The name, unless given. */
  app?: string;
  blocksReadiness?: boolean;
}

/** A gate for the pods with label `app`. */
export function gate({ app, ...differs }: GateDiffers): object {
  return { selector: { matchLabels: { app: app ?? differs.name } }, ...differs };
}

/** Selects the nodes with label `pool: <pool>`. */
export function ofPool(pool: string): NodeSelector {
  return { nodeSelectorTerms: [{ matchExpressions: [{ key: 'pool', operator: 'In', values: [pool] }] }] };
}

export function readinessPolicy(
  name: string,
  nodeSelector: NodeSelector,
  gates: readonly object[],
): KubeObject {
  const { apiVersion, kind } = NODE_READINESS_POLICY;
  return {
    apiVersion,
    kind,
    metadata: { name },
    spec: { nodeSelector, readinessGates: gates },
  } as KubeObject;
}

/** NodeReadinessPolicies of one test file, and what the apiserver makes of nodes by them. */
export class ReadinessPolicies {
  readonly #admin: Kube;
  readonly #sandbox: Sandbox;
  readonly #names = new Set<string>();

  constructor(admin: Kube, sandbox: Sandbox) {
    this.#admin = admin;
    this.#sandbox = sandbox;
  }

  /** Resolves when it is stored. */
  stored(policy: KubeObject): Promise<NodeReadinessPolicy> {
    this.#names.add(policy.metadata.name);
    const options = { fieldManager: 'kubectl', force: true };
    return this.#admin.apply(resources.nodeReadinessPolicies, policy, options);
  }

  /** Resolves when the apiserver taints new nodes by it: `probe` is one that it selects. */
  async applied(policy: KubeObject, probe: Record<string, string>): Promise<NodeReadinessPolicy> {
    const stored = await this.stored(policy);
    await this.inEffect(probe);
    return stored;
  }

  /** Resolves when the apiserver taints new nodes with these labels. */
  async inEffect(labels: Record<string, string>): Promise<void> {
    const look = () => this.taintedOf([{ metadata: { name: 'probe', labels } }]);
    await eventuallyHolds('a new node to be tainted', look, ([isTainted]) => isTainted === true);
  }

  /** Which of these nodes would have the readiness taint, if they were made now. Nothing is stored. */
  async taintedOf(nodes: readonly KubeObject[]): Promise<boolean[]> {
    const taints = await this.taintsOf(nodes);
    return taints.map((keys) => keys.includes(READINESS_TAINT.key));
  }

  /** The keys of the taints that these nodes would have. */
  async taintsOf(nodes: readonly KubeObject[]): Promise<string[][]> {
    const items = nodes.map((node) => ({ apiVersion: 'v1', kind: 'Node', ...node }));
    const list = { apiVersion: 'v1', kind: 'List', items };
    const format = 'jsonpath={.spec.taints[*].key}{"\\n"}';
    const kubectl = kubectlOf(this.#sandbox);
    const created = await succeeds(kubectl(['create', '--dry-run=server', '-o', format, '-f', '-'], list));
    return created
      .split('\n')
      .slice(0, nodes.length)
      .map((line) => line.split(' ').filter((key) => key !== ''));
  }

  async dropped(name: string): Promise<void> {
    this.#names.delete(name);
    const found = await this.#admin.get(resources.nodeReadinessPolicies, { name });
    if (found === undefined) return;
    await this.#admin.delete(resources.nodeReadinessPolicies, { name }, { uid: found.metadata.uid ?? '' });
  }

  async allDropped(): Promise<void> {
    for (const name of this.#names) await this.dropped(name);
  }
}
