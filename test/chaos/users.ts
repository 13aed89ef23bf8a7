import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject } from '../../api/core.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { NodeLeases } from '../../node-lease/nodeLeases.ts';
import { selectNodes } from '../kit/resources.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import { servesEvictionRequests, type Testbed } from './testbed.ts';
import { retryUntilAnswered } from './retryUntilAnswered.ts';
import type { Scenario, UserAction } from './scenario.ts';
import { latePod, maintenanceSpecOf, type Names } from './worldObjects.ts';

const stages: readonly NodeMaintenanceStage[] = ['Idle', 'Cordon', 'Drain', 'Complete'];

type ActionOf<Kind extends UserAction['kind']> = Extract<UserAction, { kind: Kind }>;

/** The people who maintain nodes, and someone who locks them for other work. They use the apiserver and Temporal directly. */
export class Users {
  readonly #testbed: Testbed;
  readonly #names: Names;
  readonly #scenario: Scenario;
  readonly #technician: NodeLeases;
  readonly #locked = new Set<string>();
  #serial = 0;

  constructor(testbed: Testbed, names: Names, scenario: Scenario) {
    this.#scenario = scenario;
    this.#testbed = testbed;
    this.#names = names;
    this.#technician = new NodeLeases({
      kube: testbed.kube,
      holder: 'technician',
      leaseDurationSeconds: 600,
    });
  }

  /** Throws if the request is refused, which users must expect. */
  async perform(action: UserAction): Promise<void> {
    switch (action.kind) {
      case 'Create':
        return this.#create(action);
      case 'Advance':
      case 'Cancel':
        return this.#move(action);
      case 'Pause':
      case 'Resume':
        return this.signal(action.maintenance, action.kind === 'Pause' ? 'pause' : 'resume');
      case 'Delete':
        return this.delete(this.#names.of(action.maintenance));
      case 'Select':
        return this.#select(action);
      case 'Uncordon':
        return this.#uncordon(action);
      case 'Lock':
        return this.#lock(action);
      case 'AddPod':
        return this.#addPod(action);
      case 'DeleteEvacuation':
        return this.#deleteEvacuation(action);
      case 'OpenWindow':
        return this.#openWindow();
      case 'Rollout':
        throw new Error('a rollout is done by operators');
    }
  }

  /** Releases everything that is still locked. */
  async releaseAll(): Promise<void> {
    for (const node of this.#locked)
      await retryUntilAnswered(`the release of ${node}`, () => this.#technician.release(node));
    this.#locked.clear();
  }

  maintenance(name: string): Promise<NodeMaintenance | undefined> {
    return retryUntilAnswered(`maintenance ${name}`, () =>
      this.#testbed.kube.get(resources.nodeMaintenances, { name }),
    );
  }

  async moveTo(name: string, stage: NodeMaintenanceStage): Promise<void> {
    await retryUntilAnswered(`${name} to ${stage}`, () =>
      this.#testbed.kube.mergePatch(
        resources.nodeMaintenances,
        { name },
        { spec: { stage } },
        { fieldManager: 'kubectl' },
      ),
    );
  }

  async delete(name: string): Promise<void> {
    await retryUntilAnswered(`the deletion of ${name}`, async () => {
      const found = await this.#testbed.kube.get(resources.nodeMaintenances, { name });
      if (found === undefined || found.metadata.deletionTimestamp !== undefined) return;
      await this.#testbed.kube.delete(
        resources.nodeMaintenances,
        { name },
        { uid: found.metadata.uid ?? '' },
      );
    });
  }

  async signal(maintenance: string, signal: 'advance' | 'cancel' | 'pause' | 'resume'): Promise<void> {
    const handle = this.#testbed.temporal.workflow.getHandle(workflowIdOf(this.#names.of(maintenance)));
    await handle.signal(signal);
  }

  async #create({ maintenance }: ActionOf<'Create'>): Promise<void> {
    const planned = this.#scenario.maintenances.find(({ name }) => name === maintenance);
    if (planned === undefined) throw new Error(`There is no maintenance ${maintenance}`);
    const object = {
      metadata: { name: this.#names.of(maintenance) },
      spec: maintenanceSpecOf(planned, this.#names),
    };
    await retryUntilAnswered(maintenance, () =>
      this.#testbed.kube.create(resources.nodeMaintenances, object),
    );
  }

  async #move({ kind, maintenance, by }: ActionOf<'Advance' | 'Cancel'>): Promise<void> {
    if (by === 'Signal') return this.signal(maintenance, kind === 'Advance' ? 'advance' : 'cancel');
    const name = this.#names.of(maintenance);
    const found = await this.maintenance(name);
    const next = stages[stages.indexOf(found?.spec.stage ?? 'Idle') + 1] ?? 'Complete';
    return this.moveTo(name, kind === 'Advance' ? next : 'Complete');
  }

  async #select({ maintenance, nodes }: ActionOf<'Select'>): Promise<void> {
    const key = { name: this.#names.of(maintenance) };
    const nodeSelector = selectNodes(this.#names.all(nodes));
    await retryUntilAnswered(`the nodes of ${maintenance}`, () =>
      this.#testbed.kube.mergePatch(resources.nodeMaintenances, key, { spec: { nodeSelector } }),
    );
  }

  async #uncordon({ node }: ActionOf<'Uncordon'>): Promise<void> {
    const options = { fieldManager: 'kubectl-uncordon' };
    await retryUntilAnswered(`the uncordon of ${node}`, () =>
      this.#testbed.kube.mergePatch(
        resources.nodes,
        { name: this.#names.of(node) },
        { spec: { unschedulable: false } },
        options,
      ),
    );
  }

  /** Locks a node as soon as nobody else has it, if that is within the time for which it is to be locked. */
  async #lock({ node, forMs }: ActionOf<'Lock'>): Promise<void> {
    const name = this.#names.of(node);
    const startedAt = performance.now();
    const acquire = async () => {
      const acquisition = await this.#technician.acquire(name);
      if (acquisition.kind !== 'Held') throw new Error('held by the worker');
    };
    this.#locked.add(name);
    await retryUntilAnswered(`the Lease of ${name}`, acquire, forMs);
    await sleep(Math.max(0, forMs - (performance.now() - startedAt)));
    await retryUntilAnswered(`the release of ${name}`, () => this.#technician.release(name));
  }

  async #addPod({ node, priority }: ActionOf<'AddPod'>): Promise<void> {
    const name = `late-${(this.#serial += 1)}`;
    const pod = latePod(name, { node, priority }, this.#names);
    await retryUntilAnswered(`pod ${name}`, () => this.#testbed.kube.create(resources.pods, pod as never));
  }

  /** Deletes an Evacuation, and an EvictionRequest, of the pods on the node. */
  async #deleteEvacuation({ node }: ActionOf<'DeleteEvacuation'>): Promise<void> {
    const { kube, evictionApi } = this.#testbed;
    const namespace = this.#names.prefix;
    const fieldSelector = `spec.nodeName=${this.#names.of(node)}`;
    await retryUntilAnswered('the deletion of an Evacuation', async () => {
      const pods = await kube.list(resources.pods, { namespace, fieldSelector });
      const uids = new Set(pods.items.map(({ metadata }) => metadata.uid));
      const evacuations = await kube.list(resources.evacuations, { namespace });
      const evacuation = evacuations.items.find(({ spec }) => uids.has(spec.podRef.uid));
      if (evacuation !== undefined) await this.#deleteRequest(resources.evacuations, evacuation);
      if (!servesEvictionRequests(evictionApi)) return;
      const requests = await kube.list(resources.evictionRequests, { namespace });
      const request = requests.items.find(({ spec }) => uids.has(spec.target.pod.uid));
      if (request !== undefined) await this.#deleteRequest(resources.evictionRequests, request);
    });
  }

  async #deleteRequest(
    resource: Resource,
    { metadata: { namespace, name, uid = '' } }: KubeObject,
  ): Promise<void> {
    await this.#testbed.kube.delete(resource, { namespace, name }, { uid });
  }

  async #openWindow(): Promise<void> {
    const name = this.#names.of('window');
    await this.#testbed.temporal.workflow.start('maintenanceWindow', {
      workflowId: windowWorkflowIdOf(name),
      taskQueue: 'node-maintenance',
      args: [{ name }],
    });
  }
}
