import type { KubeObject, Pod } from '../../api/core.ts';
import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import {
  AGENT_LEASE_NAMESPACE,
  EVACUATION_NODE_LABEL,
  IdentityAnnotation,
  STATIC_POD_EVACUATOR,
} from '../../api/names.ts';
import { targetsPod } from '../../domain/drain/targets.ts';
import { sleep } from '../../kube/abort.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { TestCluster } from './cluster.ts';
import { eventually } from './eventually.ts';

const pollMs = 100;
const fieldManager = 'node-maintenance-agent';

/** The agent of a node without a kubelet, as far as the API shows it: an identity Lease, and an evacuator that removes mirror pods. */
export class PlayedAgent {
  readonly #c: Pick<TestCluster, 'admin'>;
  readonly #node: string;
  readonly #capabilities: string;
  /** Names of the pods that it has stopped, in order. */
  readonly stopped: string[] = [];

  constructor(c: Pick<TestCluster, 'admin'>, node: string, capabilities = 'reboot,static-pods') {
    this.#c = c;
    this.#node = node;
    this.#capabilities = capabilities;
  }

  /** Renews the Lease of the agent, for longer than a test takes. */
  async reports(): Promise<void> {
    await this.#renew(0);
  }

  /** Makes the Lease expire, as if the agent had stopped ten minutes ago; returns since when it is silent. */
  async dies(): Promise<string> {
    return this.#renew(-600_000);
  }

  /** Stops static pods as their Evacuations ask for it, until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      for (const evacuation of await this.#active()) await this.#stop(evacuation);
      await sleep(pollMs, signal);
    }
  }

  async #renew(fromNowMs: number): Promise<string> {
    const { admin } = this.#c;
    const time = new Date(admin.now().getTime() + fromNowMs);
    const lease = {
      metadata: {
        name: this.#node,
        namespace: AGENT_LEASE_NAMESPACE,
        annotations: {
          [IdentityAnnotation.Version]: '1.2.3',
          [IdentityAnnotation.Capabilities]: this.#capabilities,
        },
      },
      spec: { holderIdentity: this.#node, leaseDurationSeconds: 300, renewTime: microTime(time) },
    };
    await admin.apply(resources.leases, lease, { fieldManager, force: true });
    return time.toISOString();
  }

  async #active(): Promise<Evacuation[]> {
    const labelSelector = `${EVACUATION_NODE_LABEL}=${this.#node}`;
    const { items } = await this.#c.admin.list(resources.evacuations, { labelSelector });
    return items.filter(
      ({ metadata, status }) =>
        metadata.deletionTimestamp === undefined && status?.activeEvacuatorClass === STATIC_POD_EVACUATOR,
    );
  }

  async #stop({ metadata, spec }: Evacuation): Promise<void> {
    const { admin } = this.#c;
    const { namespace = '' } = metadata;
    const raw = await admin.get(resources.pods, { namespace, name: spec.podRef.name });
    if (raw === undefined || raw.metadata.uid !== spec.podRef.uid) return;
    if (!(await this.#isTargeted(trimPod(raw)))) return;
    const status: Partial<EvacuationStatus> = {
      evacuationProgressTimestamp: admin.now().toISOString(),
      expectedEvacuationFinishTime: new Date(admin.now().getTime() + 30_000).toISOString(),
      message: `${spec.podRef.name} is terminating the pod due to node maintenance.`,
    };
    await admin.mergePatch(
      resources.evacuations,
      { namespace, name: metadata.name },
      { metadata: { uid: metadata.uid }, status },
      { subresource: 'status', fieldManager },
    );
    // As the kubelet does, when the processes have ended.
    const key = { namespace, name: spec.podRef.name };
    await admin.delete(resources.pods, key, { uid: spec.podRef.uid, gracePeriodSeconds: 0 });
    this.stopped.push(spec.podRef.name);
  }

  /** "The kubelet should not react to Evacuations" of pods that the drain targets do not select (KEP-4212 > kubelet: Static Pods). */
  async #isTargeted(pod: Pod): Promise<boolean> {
    const { items } = await this.#c.admin.list(resources.nodeMaintenances);
    const statuses = items.flatMap(({ status }) => status?.nodeStatuses ?? []);
    return statuses.some(
      ({ nodeRef, drainTargets }) => nodeRef.name === this.#node && targetsPod(drainTargets, pod),
    );
  }
}

/** Creates a mirror pod, as the kubelet does for a manifest, and waits until it is Ready. */
export async function mirrorPodOn(
  c: TestCluster,
  node: string,
  {
    labels = {},
    annotations = {},
    priorityClassName,
    name = c.named('mirror'),
  }: {
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    priorityClassName?: string;
    name?: string;
  } = {},
): Promise<Pod> {
  const { uid = '' } = (await c.node(node)).metadata;
  const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name: node, uid, controller: true }];
  const source = { 'kubernetes.io/config.source': 'file', 'kubernetes.io/config.mirror': 'hash' };
  const pod = {
    metadata: {
      name,
      namespace: c.namespace,
      labels,
      annotations: { ...source, ...annotations },
      ownerReferences,
    },
    spec: {
      nodeName: node,
      containers: [{ name: 'main', image: 'fake' }],
      automountServiceAccountToken: false,
      tolerations: [{ operator: 'Exists' }],
      ...(priorityClassName !== undefined && { priorityClassName }),
    },
  };
  await c.admin.create<KubeObject>(resources.pods as never, pod as KubeObject);
  return eventually(`mirror pod ${name}`, () => {
    const found = c.cluster.pods.get(`${c.namespace}/${name}`);
    expect(found?.status).toMatchObject({ phase: 'Running', ready: true });
    return found as Pod;
  });
}
