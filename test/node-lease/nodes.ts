import type { Lease, Node } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import { type NodeLeaseClient, type NodeLeaseOptions, nodeLeases } from '../../node-lease/index.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog } from '../kit/cluster.ts';

export type LeaseSpec = Lease['spec'];

/** Creates and changes the nodes and maintenance Leases of one test file; `close` deletes them. */
export class LeaseFixture {
  readonly admin: Kube;
  readonly #sandbox: Sandbox;
  readonly #prefix: string;
  readonly #nodes: Node[] = [];
  readonly #clients: NodeLeaseClient[] = [];
  #serial = 0;

  constructor(sandbox: Sandbox, prefix: string) {
    this.#sandbox = sandbox;
    this.#prefix = `${prefix}-${crypto.randomUUID().slice(0, 5)}`;
    this.admin = connectKube({
      kubeconfig: sandbox.kubeconfig,
      userAgent: 'node-maintenance-test',
      log: silentLog,
    });
  }

  /** Creates a node without a kubelet, and its Lease if a spec is given. */
  async node(spec?: LeaseSpec): Promise<string> {
    this.#serial += 1;
    const name = `${this.#prefix}-${this.#serial}`;
    const node = await this.admin.create(resources.nodes, { metadata: { name }, spec: {} });
    this.#nodes.push(node);
    if (spec !== undefined) {
      const uid = node.metadata.uid ?? '';
      const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid }];
      await this.admin.create(resources.leases, { metadata: { ...keyOf(name), ownerReferences }, spec });
    }
    return name;
  }

  /** Creates a client whose Leases do not expire during a pause of a busy machine. */
  client(holder: string, overrides: Partial<NodeLeaseOptions> = {}): NodeLeaseClient {
    const kubeconfig = this.#sandbox.kubeconfig;
    const client = nodeLeases({ holder, leaseDurationSeconds: 6, kubeconfig, ...overrides });
    this.#clients.push(client);
    return client;
  }

  /** Returns a Lease that its holder renewed the given time ago. */
  heldBy(holderIdentity: string, renewedSecondsAgo: number, leaseDurationSeconds: number): LeaseSpec {
    const time = microTime(new Date(this.admin.now().getTime() - renewedSecondsAgo * 1_000));
    return {
      holderIdentity,
      leaseDurationSeconds,
      acquireTime: time,
      renewTime: time,
      leaseTransitions: 4,
    };
  }

  lease(node: string): Promise<Lease | undefined> {
    return this.admin.get(resources.leases, keyOf(node));
  }

  async specOf(node: string): Promise<LeaseSpec | undefined> {
    return (await this.lease(node))?.spec;
  }

  /** Changes the spec, as `kubectl edit` does. */
  async edited(node: string, spec: Record<string, unknown>): Promise<void> {
    await this.admin.mergePatch(resources.leases, keyOf(node), { spec });
  }

  async leaseDeleted(node: string): Promise<void> {
    const uid = (await this.lease(node))?.metadata.uid ?? '';
    await this.admin.delete(resources.leases, keyOf(node), { uid });
  }

  async nodeDeleted(name: string): Promise<void> {
    const uid = this.#nodes.find(({ metadata }) => metadata.name === name)?.metadata.uid ?? '';
    await this.admin.delete(resources.nodes, { name }, { uid });
  }

  async close(): Promise<void> {
    for (const { metadata } of this.#nodes) await this.nodeDeleted(metadata.name);
    await Promise.all([this.admin.close(), ...this.#clients.map((client) => client.close())]);
  }
}

export function keyOf(name: string): { namespace: string; name: string } {
  return { namespace: NODE_LEASE_NAMESPACE, name };
}
