import type { KubeObject, Pod } from '../../api/core.ts';
import { MAINTENANCE_GATE } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import { eventuallyHolds } from './eventually.ts';
import type { World } from './world.ts';

export const isHeld = ({ spec }: Pod) => spec.schedulingGates?.includes(MAINTENANCE_GATE) === true;

/** A DaemonSet with pods on all nodes, which need some time to end. */
export class TestDaemonSet {
  readonly name = 'critical-ds';
  readonly namespace = 'critical-workloads';
  readonly labels = { app: this.name, 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' };
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  async create(): Promise<void> {
    const { name, namespace, labels } = this;
    await this.#world.kube.create(resources.namespaces, { metadata: { name: namespace } });
    await this.#world.kube.create(resources.daemonSets, {
      metadata: { name, namespace },
      spec: {
        selector: { matchLabels: { app: name } },
        template: {
          metadata: { labels },
          spec: {
            containers: [{ name: 'main', image: 'none' }],
            // Node agents do the same.
            tolerations: [{ operator: 'Exists' }],
            terminationGracePeriodSeconds: 60,
          },
        },
      },
    } as KubeObject);
  }

  /** Its pods that are not terminating. */
  async pods(): Promise<Pod[]> {
    const { name, namespace } = this;
    const { items } = await this.#world.kube.list(resources.pods, {
      namespace,
      labelSelector: `app=${name}`,
    });
    return items.map(trimPod).filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  }

  /** Waits until each of these nodes has one ready pod of this generation of the DaemonSet, and no other node has any. */
  async eventuallyOn(nodes: string[], generation: string): Promise<Pod[]> {
    return eventuallyHolds(
      `generation ${generation} to run on ${nodes.join(', ')}`,
      async () => (await this.pods()).filter(({ spec }) => spec.nodeName !== undefined),
      (pods) =>
        pods.length === nodes.length &&
        nodes.every((node) => pods.some(({ spec }) => spec.nodeName === node)) &&
        pods.every((pod) => pod.status.ready && generationOf(pod) === generation),
    );
  }

  /** Waits until exactly one pod is held back, made for this node. */
  async eventuallyHeld(fact: string, node: string, holds: (pod: Pod) => boolean = () => true): Promise<Pod> {
    const [held] = await eventuallyHolds(
      fact,
      async () => (await this.pods()).filter(isHeld),
      ([pod, ...others]) =>
        pod !== undefined && others.length === 0 && pod.spec.madeForNode === node && holds(pod),
    );
    return held as Pod;
  }
}

export function generationOf({ metadata }: Pod): string {
  return metadata.labels?.['pod-template-generation'] ?? '';
}
