import type { KubeObject, Lease, Node, NodeSelector, Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import {
  EVACUATION,
  INSTIGATOR_FINALIZER,
  KUBELET_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  NODE_MAINTENANCE,
  FIELD_MANAGER,
} from '../../api/names.ts';
import type {
  DrainPlanEntry,
  NodeMaintenance,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { evacuationName } from '../../domain/evacuation/evacuation.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { byNode, type Cluster, type FencedCluster, nodeLeaseOf, watchCluster } from '../../kube/cluster.ts';
import type { Informer } from '../../kube/informer.ts';
import { type Log, silentLog } from '../../kube/log.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { type Resource, resources, versionOf } from '../../kube/resources.ts';
import { newLease } from '../../node-lease/leaseObjects.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from './eventually.ts';
import { RequestLog } from './requests.ts';
import { remove } from './reset.ts';
import {
  clusterRoles,
  daemonSets,
  deployments,
  priorityClasses,
  roles,
  selectNodes,
  serviceAccounts,
} from './resources.ts';

export { silentLog } from '../../kube/log.ts';

/** Tests edit objects as a person does with kubectl. */
const fieldManager = 'kubectl-edit';

/** The kinds that `applied` and `deleted` take. */
const resourcesByKind: Record<string, Resource> = {
  NodeMaintenance: resources.nodeMaintenances,
  Evacuation: resources.evacuations,
  PodDisruptionBudget: resources.podDisruptionBudgets,
  Namespace: resources.namespaces,
  Node: resources.nodes as Resource,
  Pod: resources.pods,
  Deployment: deployments,
  DaemonSet: daemonSets,
};

export interface TestClusterOptions {
  /** Prefix of the names of all nodes, namespaces and maintenances of the test file. */
  prefix: string;
  log?: Log;
}

/** Connects a test file to the sandbox's Kubernetes. The file has names of its own; `close` deletes what it made. */
export async function testCluster(
  sandbox: Sandbox,
  { prefix, log = silentLog }: TestClusterOptions,
): Promise<TestCluster> {
  const requests = new RequestLog();
  const userAgent = 'node-maintenance-test';
  const admin = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent, log });
  const kubeconfig = sandbox.workerKubeconfig;
  const kube = connectKube({ kubeconfig, userAgent, log, onRequest: requests.note });
  const cluster = asLeader(watchCluster({ kube, log }));
  const watching = new AbortController();
  cluster.start(watching.signal);
  await cluster.synced(watching.signal);
  const name = `${prefix}-${crypto.randomUUID().slice(0, 5)}`;
  const asAdmission = connectKube({ kubeconfig: sandbox.admissionKubeconfig, userAgent, log });
  const admission = { ...cluster, kube: asAdmission.guardedBy(() => undefined) };
  const made = new TestCluster({ sandbox, admin, cluster, admission, requests, watching, name });
  await made.namespaceNamed(name);
  return made;
}

/** Wraps a cluster for code that only a leader runs; this leader never loses its Lease. */
export function asLeader(cluster: Cluster): FencedCluster {
  return { ...cluster, kube: cluster.kube.guardedBy(() => undefined) };
}

interface Parts {
  sandbox: Sandbox;
  admin: Kube;
  cluster: FencedCluster;
  admission: FencedCluster;
  requests: RequestLog;
  watching: AbortController;
  name: string;
}

export interface PodDiffers {
  namespace?: string;
  name?: string;
  /** At most 1,000,000,000; its PriorityClass is created. */
  priority?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  /** Seconds; 0 unless given: the pod is gone as soon as it is deleted. */
  grace?: number;
}

export interface MaintenanceDiffers {
  name?: string;
  /** Names of nodes, or the labels to select them by. */
  nodes: readonly string[] | Record<string, string>;
  stage?: NodeMaintenanceStage;
  drainPlan?: DrainPlanEntry[];
  reason?: string;
}

export class TestCluster {
  /** The cluster for the code under test: with the worker's identity and exactly the permissions of deploy/. */
  readonly cluster: FencedCluster;
  /** The same informers, with the identity of the admission server for requests. */
  readonly admission: FencedCluster;
  /** The requests of `cluster` to the apiserver. */
  readonly requests: RequestLog;
  /** The administrator's client, for the changes of people and other controllers. */
  readonly admin: Kube;
  /** The test file's own namespace; also the prefix of its nodes and maintenances. */
  readonly namespace: string;
  readonly #sandbox: Sandbox;
  readonly #watching: AbortController;
  readonly #namespaces = new Set<string>();
  readonly #nodes = new Set<string>();
  readonly #silent = new Set<string>();
  #serial = 0;

  constructor({ sandbox, admin, cluster, admission, requests, watching, name }: Parts) {
    this.#sandbox = sandbox;
    this.#watching = watching;
    this.admin = admin;
    this.cluster = cluster;
    this.admission = admission;
    this.requests = requests;
    this.namespace = name;
  }

  /** `<the file's name>-<what>-<n>` */
  named(what: string): string {
    this.#serial += 1;
    return `${this.namespace}-${what}-${this.#serial}`;
  }

  /** Overwrites the Lease of a node; `renewed` is in seconds from now. */
  async leaseWritten(
    node: string,
    { renewed, ...spec }: Omit<Lease['spec'], 'renewTime'> & { renewed?: number },
  ): Promise<Lease> {
    const at = new Date(this.cluster.kube.now().getTime() + (renewed ?? 0) * 1_000);
    const time = renewed === undefined ? null : microTime(at);
    const { metadata } = newLease(await this.node(node));
    const whole = {
      holderIdentity: '',
      leaseDurationSeconds: null,
      ...spec,
      renewTime: time,
      acquireTime: time,
    };
    if ((await this.nodeLeaseOf(node)) === undefined)
      await this.admin.create(resources.leases, { metadata, spec: {} });
    const written = await this.admin.mergePatch(resources.leases, metadata, { spec: whole });
    await eventually(`the Lease of ${node} in the informer`, () => {
      const observed = nodeLeaseOf(this.cluster, node);
      expect(versionOf(observed ?? { metadata: { name: node } })).toBeGreaterThanOrEqual(versionOf(written));
    });
    return written;
  }

  async nodeLeaseOf(node: string): Promise<Lease | undefined> {
    return this.admin.get(resources.leases, { namespace: NODE_LEASE_NAMESPACE, name: node });
  }

  // --- given ---------------------------------------------------------------------------------------------------------

  /** Adds a node, Ready and schedulable, and resolves with its unique name. */
  async nodeNamed(what: string, labels: Record<string, string> = {}): Promise<string> {
    const name = this.named(what);
    this.#nodes.add(name);
    await this.#sandbox.addNodes([name], labels);
    await eventually(`node ${name} in the informer`, () =>
      expect(this.cluster.nodes.get(name)).toBeDefined(),
    );
    return name;
  }

  /** Adds a node without a kubelet: its pods are marked as running and never end by themselves. */
  async silentNodeNamed(what: string): Promise<string> {
    const name = this.named(what);
    this.#nodes.add(name);
    this.#silent.add(name);
    await this.caughtUpWith({
      ...(await this.admin.create<KubeObject>(resources.nodes as Resource, { metadata: { name } })),
      kind: 'Node',
    });
    return name;
  }

  /** Adds a node whose kubelet reported NotReady and then fell silent; it has no Lease. */
  async unreadyNodeNamed(what: string): Promise<string> {
    const name = await this.silentNodeNamed(what);
    const isTainted = (): boolean =>
      this.cluster.nodes.get(name)?.spec.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready') ??
      false;
    // A new node has the taint, and loses it as long as its kubelet reports nothing.
    await eventually(`node ${name} not to be tainted`, () => expect(isTainted()).toBe(false));
    await this.saidToBeReady(name, 'False');
    await eventually(`node ${name} to be tainted`, () => expect(isTainted()).toBe(true));
    return name;
  }

  /** Reports condition Ready in place of a missing kubelet. */
  async saidToBeReady(name: string, status: 'True' | 'False'): Promise<void> {
    const lastTransitionTime = new Date().toISOString();
    const conditions = [{ type: 'Ready', status, reason: 'Test', message: '', lastTransitionTime }];
    const options = { subresource: 'status' };
    await this.admin.mergePatch(resources.nodes, { name }, { status: { conditions } }, options);
  }

  /** Returns a maintenance to apply; its name is unique unless given. */
  maintenance({ name, nodes, stage, drainPlan, reason }: MaintenanceDiffers): NodeMaintenance {
    return {
      apiVersion: NODE_MAINTENANCE.apiVersion,
      kind: NODE_MAINTENANCE.kind,
      metadata: { name: name ?? this.named('nm') },
      spec: {
        nodeSelector: selectorOf(nodes),
        stage: stage ?? 'Idle',
        ...(drainPlan && { drainPlan }),
        ...(reason !== undefined && { reason }),
      },
    };
  }

  /** Returns a budget for the pods with these labels in the test's namespace. */
  budget(
    matchLabels: Record<string, string>,
    spec: Omit<PodDisruptionBudget['spec'], 'selector'>,
    name = this.named('pdb'),
  ): PodDisruptionBudget {
    const metadata = { name, namespace: this.namespace };
    const kind = { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget' };
    return { ...kind, metadata, spec: { ...spec, selector: { matchLabels } } };
  }

  /** Returns the Evacuation that a maintenance would create for a pod. */
  evacuation(pod: Pod, finalizers: string[] = [INSTIGATOR_FINALIZER]): Evacuation {
    const { name, namespace = '', uid = '' } = pod.metadata;
    return {
      apiVersion: EVACUATION.apiVersion,
      kind: EVACUATION.kind,
      metadata: { name: evacuationName(pod.metadata), namespace, finalizers },
      spec: { podRef: { name, uid }, progressDeadlineSeconds: 1800 },
    };
  }

  /** Applies an object as a person does, and waits until the code under test can see it. */
  async applied<T extends KubeObject>(object: T): Promise<T> {
    const resource = resourceOf(object);
    const stored = await this.admin.apply<T>(resource as Resource<T>, object, { fieldManager, force: true });
    await this.caughtUpWith(stored);
    return stored;
  }

  /** `kubectl patch nodemaintenance NAME -p '{"spec":{"stage":STAGE}}'` */
  async staged(name: string, stage: NodeMaintenanceStage): Promise<NodeMaintenance> {
    return this.patched(resources.nodeMaintenances, { name }, { spec: { stage } });
  }

  /** Writes the status, or a part of it, as a controller does. */
  async withStatus<T extends KubeObject>(object: T, status: object): Promise<T> {
    const resource = resourceOf(object) as Resource<T>;
    const key = { namespace: object.metadata.namespace, name: object.metadata.name };
    const options = { subresource: 'status', fieldManager };
    const stored = await this.admin.mergePatch<T>(resource, key, { status }, options);
    await this.caughtUpWith(stored);
    return stored;
  }

  async patched<T extends KubeObject>(
    resource: Resource<T>,
    key: { namespace?: string; name: string },
    patch: Record<string, unknown>,
    manager = fieldManager,
  ): Promise<T> {
    const stored = await this.admin.mergePatch<T>(resource, key, patch, { fieldManager: manager });
    await this.caughtUpWith({ ...stored, kind: resource.kind });
    return stored;
  }

  /** Sets the nodes that users of Temporal may maintain; all nodes unless given. */
  async temporalMayDelete(resourceNames?: string[]): Promise<void> {
    const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames }];
    await this.admin.mergePatch(clusterRoles, { name: 'node-maintenance-temporal' }, { rules });
  }

  /** Grants or revokes the worker's right to read the Leases of kubelets. */
  async workerMayReadKubeletLeases(isAllowed = true): Promise<void> {
    const rules = [
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: [isAllowed ? 'get' : 'list'] },
    ];
    const key = { namespace: KUBELET_LEASE_NAMESPACE, name: 'node-maintenance-worker' };
    await this.admin.mergePatch(roles, key, { rules });
  }

  /** Sets labels; `null` removes one. */
  async labelled(name: string, labels: Record<string, string | null>): Promise<void> {
    await this.patched(resources.nodes, { name }, { metadata: { labels } });
  }

  /** `kubectl cordon NODE` */
  async cordoned(name: string): Promise<void> {
    await this.patched(resources.nodes, { name }, { spec: { unschedulable: true } });
  }

  /** Cordons a node as a maintenance does. */
  async cordonedByUs(name: string): Promise<void> {
    await this.patched(resources.nodes, { name }, { spec: { unschedulable: true } }, FIELD_MANAGER);
  }

  /** `kubectl uncordon NODE` */
  async uncordoned(name: string): Promise<void> {
    await this.patched(resources.nodes, { name }, { spec: { unschedulable: null } });
  }

  async namespaceNamed(name: string): Promise<string> {
    this.#namespaces.add(name);
    await this.admin.create(resources.namespaces, { metadata: { name } });
    await eventually(`the service account of namespace ${name}`, async () => {
      const account = await this.admin.get(serviceAccounts, { namespace: name, name: 'default' });
      expect(account).toBeDefined();
    });
    return name;
  }

  /** Creates a pod on the node, cordoned or not, and waits until the informer has it as Ready. */
  async podOn(node: string, differs: PodDiffers = {}): Promise<Pod> {
    const { namespace = this.namespace, name = this.named('pod'), labels, annotations, finalizers } = differs;
    const { priority, grace = 0 } = differs;
    if (priority !== undefined) await this.#priorityClassOf(priority);
    await this.#createPod({
      metadata: {
        name,
        namespace,
        ...(labels && { labels }),
        ...(annotations && { annotations }),
        ...(finalizers && { finalizers }),
      },
      spec: {
        nodeName: node,
        containers: [{ name: 'main', image: 'fake' }],
        terminationGracePeriodSeconds: grace,
        ...(priority !== undefined && { priorityClassName: priorityClassName(priority) }),
      },
    });
    if (this.#silent.has(node)) await this.#saidToRun({ namespace, name });
    return this.#readyPod(`${namespace}/${name}`);
  }

  /** Creates several pods at once. */
  async podsOn(node: string, count: number, differs: Omit<PodDiffers, 'name'> = {}): Promise<Pod[]> {
    return Promise.all(Array.from({ length: count }, () => this.podOn(node, differs)));
  }

  /** Creates a Deployment whose pods run on this node only, and returns its first pods. */
  async deploymentOn(node: string, replicas: number, labels: Record<string, string>): Promise<Pod[]> {
    await this.admin.create<KubeObject>(deployments, {
      metadata: { name: this.named('app'), namespace: this.namespace },
      spec: { replicas, selector: { matchLabels: labels }, template: pinnedPod(node, labels) },
    } as KubeObject);
    return eventually(`${replicas} pods on node ${node}`, () => {
      const ready = this.podsOf(node).filter((pod) => pod.status.ready);
      expect(ready).toHaveLength(replicas);
      return [...ready];
    });
  }

  /** Creates a DaemonSet for this node only, and returns its pod. */
  async daemonPodOn(node: string): Promise<Pod> {
    const name = this.named('daemon');
    const labels = { daemon: name };
    await this.admin.create<KubeObject>(daemonSets, {
      metadata: { name, namespace: this.namespace },
      spec: { selector: { matchLabels: labels }, template: pinnedPod(node, labels) },
    } as KubeObject);
    const pod = await eventually(`the pod of DaemonSet ${name}`, () => {
      const [found] = this.podsOf(node).filter((one) => one.metadata.labels?.['daemon'] === name);
      expect(found).toBeDefined();
      return found as Pod;
    });
    return this.#readyPod(`${this.namespace}/${pod.metadata.name}`);
  }

  /** Deletes exactly this object, by UID, as a person does; finalizers may hold it. */
  async deleted(object: KubeObject): Promise<void> {
    const { namespace, name, uid = '' } = object.metadata;
    const resource = object.kind === undefined ? (resources.pods as Resource) : resourceOf(object);
    await this.admin.delete(resource, { namespace, name }, { uid });
  }

  /** Deletes pods, and waits until the code under test sees that they are gone. */
  async podsDeleted(pods: readonly Pod[]): Promise<void> {
    await Promise.all(pods.map((pod) => this.deleted(pod)));
    for (const pod of pods) await this.eventuallyGone(pod);
  }

  // --- then ----------------------------------------------------------------------------------------------------------

  /** Waits until the code under test sees this version of the object, or a later one. */
  async caughtUpWith({ kind, metadata }: KubeObject): Promise<void> {
    const informer = this.#informerOf(kind);
    if (informer === undefined) return;
    const { namespace, name, resourceVersion } = metadata;
    const key = namespace === undefined ? name : `${namespace}/${name}`;
    await eventually(`${kind} ${key} in the informer`, () => {
      const observed = informer.get(key)?.metadata.resourceVersion ?? '0';
      expect(Number(observed)).toBeGreaterThanOrEqual(Number(resourceVersion));
    });
  }

  async node(name: string): Promise<Node> {
    return present(`node ${name}`, await this.admin.get(resources.nodes, { name }));
  }

  async maintenanceNow(name: string): Promise<NodeMaintenance> {
    return present(`NodeMaintenance ${name}`, await this.admin.get(resources.nodeMaintenances, { name }));
  }

  async statusOf(name: string): Promise<NodeMaintenanceStatus> {
    return present(`the status of NodeMaintenance ${name}`, (await this.maintenanceNow(name)).status);
  }

  async evacuationOf(pod: Pod): Promise<Evacuation | undefined> {
    const { namespace = '' } = pod.metadata;
    return this.admin.get(resources.evacuations, { namespace, name: evacuationName(pod.metadata) });
  }

  podsOf(node: string): readonly Pod[] {
    return this.cluster.pods.byIndex(byNode, node);
  }

  /** Returns `Reason: message` of the Events about an object, oldest first. */
  async eventsAbout({ metadata: { uid = '', namespace = 'default' } }: KubeObject): Promise<string[]> {
    const fieldSelector = `involvedObject.uid=${uid}`;
    const { items } = await this.admin.list(resources.events, { namespace, fieldSelector });
    return items.map(({ reason, message }) => `${reason}: ${message}`);
  }

  async eventuallyCordoned(name: string): Promise<void> {
    await eventually(`node ${name} to be unschedulable`, async () =>
      expect((await this.node(name)).spec.unschedulable).toBe(true),
    );
  }

  async eventuallySchedulable(name: string): Promise<void> {
    await eventually(`node ${name} to be schedulable`, async () =>
      expect((await this.node(name)).spec.unschedulable ?? false).toBe(false),
    );
  }

  /** Waits for the pod's Evacuation, in the informer too. */
  async eventuallyEvacuating(pod: Pod): Promise<Evacuation> {
    const made = await eventually(`an Evacuation of pod ${pod.metadata.name}`, async () =>
      present('an Evacuation', await this.evacuationOf(pod)),
    );
    await this.caughtUpWith(made);
    return made;
  }

  /** Waits until the pod with this UID is gone; another one may have its name. */
  async eventuallyGone(pod: Pod): Promise<void> {
    const key = `${pod.metadata.namespace}/${pod.metadata.name}`;
    await eventually(`pod ${key} to be gone`, () =>
      expect(this.cluster.pods.get(key)?.metadata.uid).not.toBe(pod.metadata.uid),
    );
  }

  /** Waits until the status of a maintenance passes `check`, which is written with `expect`. */
  async eventuallyStatus(
    name: string,
    fact: string,
    check: (status: NodeMaintenanceStatus) => void,
  ): Promise<NodeMaintenanceStatus> {
    return eventually(`NodeMaintenance ${name}: ${fact}`, async () => {
      const status = await this.statusOf(name);
      check(status);
      return status;
    });
  }

  async eventuallyDrained(name: string): Promise<NodeMaintenanceStatus> {
    return this.eventuallyStatus(name, 'Drained is True', ({ conditions, nodeStatuses }) => {
      const observed = { drained: isTrue(conditions, 'Drained'), conditions, nodeStatuses };
      expect(observed).toMatchObject({ drained: true });
    });
  }

  /** Waits until the maintenance is complete: stage Complete has started and no finalizer is left. */
  async eventuallyComplete(name: string): Promise<NodeMaintenance> {
    return eventually(`NodeMaintenance ${name} to be complete`, async () => {
      const observed = await this.maintenanceNow(name);
      expect(observed.status?.stageStatuses.map((stage) => stage.name)).toContain('Complete');
      expect(observed.metadata.finalizers ?? []).toEqual([]);
      return observed;
    });
  }

  // --- finally -------------------------------------------------------------------------------------------------------

  /** Deletes everything that the test file made, despite finalizers, and closes the connections. */
  async close(): Promise<void> {
    try {
      for (const { metadata } of [...this.#silent].flatMap((node) => this.podsOf(node))) {
        const { namespace = '', name, uid = '' } = metadata;
        await this.admin.delete(resources.pods, { namespace, name }, { uid, gracePeriodSeconds: 0 });
      }
      await this.maintenancesDropped();
      await Promise.all([...this.#namespaces].map((namespace) => this.#dropNamespace(namespace)));
      await eventually('the pods on the nodes to be gone', () => {
        const left = [...this.#nodes].flatMap((node) => this.podsOf(node));
        expect(left.map((pod) => pod.metadata)).toEqual([]);
      });
      await Promise.all(
        [...this.#nodes].map((name) => remove(this.admin, resources.nodes as Resource, { name })),
      );
    } finally {
      this.#watching.abort();
      await Promise.all(
        [this.cluster, this.admission].map(({ kube }) => kube.close()).concat(this.admin.close()),
      );
    }
  }

  /** Deletes the maintenances made so far, despite finalizers. */
  async maintenancesDropped(): Promise<void> {
    const { items } = await this.admin.list(resources.nodeMaintenances);
    for (const { metadata } of items.filter((one) => one.metadata.name.startsWith(this.namespace)))
      await remove(this.admin, resources.nodeMaintenances, { name: metadata.name });
  }

  /** Kubernetes starts to delete the objects of a namespace 5 s after the namespace, which takes no new ones from then on. */
  async #dropNamespace(namespace: string): Promise<void> {
    await remove(this.admin, resources.namespaces, { name: namespace });
    for (const resource of [resources.evacuations, resources.pods] as Resource[]) {
      const { items } = await this.admin.list(resource, { namespace });
      await Promise.all(
        items.map(({ metadata: { name } }) => remove(this.admin, resource, { namespace, name })),
      );
    }
  }

  async #readyPod(key: string): Promise<Pod> {
    return eventually(`pod ${key} to be Ready`, () => {
      const pod = this.cluster.pods.get(key);
      expect(pod?.status).toMatchObject({ phase: 'Running', ready: true });
      return pod as Pod;
    });
  }

  /** Retries, because the apiserver does not know a new PriorityClass at once. */
  async #createPod(pod: object): Promise<void> {
    await eventually('the pod to be created', async () => {
      await this.admin.create(resources.pods as Resource, pod as KubeObject);
    });
  }

  async #saidToRun(key: { namespace: string; name: string }): Promise<void> {
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
    await this.admin.mergePatch(resources.pods, key, { status }, { subresource: 'status' });
  }

  async #priorityClassOf(value: number): Promise<void> {
    const key = { name: priorityClassName(value) };
    if ((await this.admin.get(priorityClasses, key)) !== undefined) return;
    const object = { apiVersion: 'scheduling.k8s.io/v1', kind: 'PriorityClass', metadata: key, value };
    await this.admin.apply(priorityClasses, object as KubeObject, { fieldManager });
  }

  #informerOf(kind: string | undefined): Informer<KubeObject> | undefined {
    const { nodes, maintenances, evacuations, budgets } = this.cluster;
    const informers: Record<string, unknown> = {
      Node: nodes,
      NodeMaintenance: maintenances,
      Evacuation: evacuations,
      PodDisruptionBudget: budgets,
    };
    return informers[kind ?? ''] as Informer<KubeObject> | undefined;
  }
}

/** PriorityClasses stay in the sandbox: they are the same for every test file. */
function priorityClassName(value: number): string {
  return `priority-${value}`.replace('--', '-minus-');
}

/** Returns the template of pods that run on one node and are gone as soon as they are deleted. */
function pinnedPod(node: string, labels: Record<string, string>): object {
  return {
    metadata: { labels },
    spec: {
      nodeSelector: { 'kubernetes.io/hostname': node },
      tolerations: [{ operator: 'Exists' }],
      terminationGracePeriodSeconds: 0,
      containers: [{ name: 'main', image: 'fake' }],
    },
  };
}

function selectorOf(nodes: readonly string[] | Record<string, string>): NodeSelector {
  if (isList(nodes)) return selectNodes(nodes);
  const matchExpressions = Object.entries(nodes).map(([key, value]) => ({
    key,
    operator: 'In' as const,
    values: [value],
  }));
  return { nodeSelectorTerms: [{ matchExpressions }] };
}

function isList(nodes: readonly string[] | Record<string, string>): nodes is readonly string[] {
  return Array.isArray(nodes);
}

function resourceOf({ kind }: KubeObject): Resource {
  const resource = resourcesByKind[kind ?? ''];
  if (resource === undefined)
    throw new Error(`kind ${kind}: add it to resourcesByKind in test/kit/cluster.ts`);
  return resource;
}

function present<T>(what: string, found: T | undefined): T {
  if (found === undefined) throw new Error(`there is no ${what}`);
  return found;
}
