import type { KubeObject, Lease, Node, NodeSelector, Pod, PodDisruptionBudget } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import {
  EVACUATION,
  INSTIGATOR_FINALIZER,
  KUBELET_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  NODE_MAINTENANCE,
} from '../../api/names.ts';
import type {
  DrainPlanEntry,
  NodeMaintenance,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { isTrue } from '../../domain/conditions.ts';
import { evacuationName } from '../../domain/evacuation.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { byNode, type Cluster, type FencedCluster, leaseOf, watchCluster } from '../../kube/cluster.ts';
import type { Informer } from '../../kube/informer.ts';
import { type Log, silentLog } from '../../kube/log.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { type Resource, resources, versionOf } from '../../kube/resources.ts';
import { newLease } from '../../node-lease/leaseObjects.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventually } from './eventually.ts';
import { RequestLog } from './requests.ts';

export { silentLog } from '../../kube/log.ts';

/** Who edits objects in these tests: a person with kubectl. */
const fieldManager = 'kubectl-edit';

const priorityClasses: Resource = {
  group: 'scheduling.k8s.io',
  version: 'v1',
  plural: 'priorityclasses',
  kind: 'PriorityClass',
  namespaced: false,
};
const clusterRoles: Resource = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'clusterroles',
  kind: 'ClusterRole',
  namespaced: false,
};
const roles: Resource = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'roles',
  kind: 'Role',
  namespaced: true,
};
const serviceAccounts: Resource = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  kind: 'ServiceAccount',
  namespaced: true,
};
const workloads = (plural: string, kind: string): Resource => ({
  group: 'apps',
  version: 'v1',
  plural,
  kind,
  namespaced: true,
});
const daemonSets = workloads('daemonsets', 'DaemonSet');
const deployments = workloads('deployments', 'Deployment');

/** What `applied` and `deleted` can find the place of, by kind. */
const places: Record<string, Resource> = {
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
  /** Begins the names of all nodes, namespaces and maintenances of the test file. */
  prefix: string;
  log?: Log;
}

/** The sandbox's Kubernetes as one test file uses it: with names of its own, and taken back by `close`. */
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
  const made = new TestCluster({ sandbox, admin, cluster, requests, watching, name });
  await made.namespaceNamed(name);
  return made;
}

/** As a leader has it that stays one. */
export function asLeader(cluster: Cluster): FencedCluster {
  return { ...cluster, kube: cluster.kube.guardedBy(() => undefined) };
}

interface Parts {
  sandbox: Sandbox;
  admin: Kube;
  cluster: FencedCluster;
  requests: RequestLog;
  watching: AbortController;
  name: string;
}

export interface PodDiffers {
  namespace?: string;
  name?: string;
  /** At most 1,000,000,000; the PriorityClass for it is made. */
  priority?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  /** Seconds; 0 unless given, so that the pod goes at once when it is deleted. */
  grace?: number;
}

export interface MaintenanceDiffers {
  name?: string;
  /** Names, or labels that a node must have. */
  nodes: readonly string[] | Record<string, string>;
  stage?: NodeMaintenanceStage;
  drainPlan?: DrainPlanEntry[];
  reason?: string;
}

export class TestCluster {
  /** What the code under test acts on: the worker's identity, with the permissions that deploy/ gives and no more. */
  readonly cluster: FencedCluster;
  /** What `cluster` asked of the apiserver. */
  readonly requests: RequestLog;
  /** The administrator's client, for what people and other controllers do. */
  readonly admin: Kube;
  /** The test file's own namespace; its nodes and maintenances begin with the same name. */
  readonly namespace: string;
  readonly #sandbox: Sandbox;
  readonly #watching: AbortController;
  readonly #namespaces = new Set<string>();
  readonly #nodes = new Set<string>();
  readonly #silent = new Set<string>();
  #serial = 0;

  constructor({ sandbox, admin, cluster, requests, watching, name }: Parts) {
    this.#sandbox = sandbox;
    this.#watching = watching;
    this.admin = admin;
    this.cluster = cluster;
    this.requests = requests;
    this.namespace = name;
  }

  /** `<the file's name>-<what>-<n>` */
  named(what: string): string {
    this.#serial += 1;
    return `${this.namespace}-${what}-${this.#serial}`;
  }

  /** The Lease of a node as somebody writes it, whatever it was before; times are seconds from now. */
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
    if ((await this.leaseOf(node)) === undefined)
      await this.admin.create(resources.leases, { metadata, spec: {} });
    const written = await this.admin.mergePatch(resources.leases, metadata, { spec: whole });
    await eventually(`the Lease of ${node} in the informer`, () => {
      const seen = leaseOf(this.cluster, node);
      expect(versionOf(seen ?? { metadata: { name: node } })).toBeGreaterThanOrEqual(versionOf(written));
    });
    return written;
  }

  async leaseOf(node: string): Promise<Lease | undefined> {
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

  /** Adds a node that nobody runs: its pods are said to run, and never end by themselves. */
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

  /** Adds a node whose kubelet has said that it is not ready, and says no more; it has no Lease. */
  async unreadyNodeNamed(what: string): Promise<string> {
    const name = await this.silentNodeNamed(what);
    const isTainted = (): boolean =>
      this.cluster.nodes.get(name)?.spec.taints?.some(({ key }) => key === 'node.kubernetes.io/not-ready') ??
      false;
    // It is born with the taint, which is taken from it while it says nothing.
    await eventually(`node ${name} not to be tainted`, () => expect(isTainted()).toBe(false));
    await this.saidToBeReady(name, 'False');
    await eventually(`node ${name} to be tainted`, () => expect(isTainted()).toBe(true));
    return name;
  }

  /** As the kubelet of a node that nobody runs would say it. */
  async saidToBeReady(name: string, status: 'True' | 'False'): Promise<void> {
    const lastTransitionTime = new Date().toISOString();
    const conditions = [{ type: 'Ready', status, reason: 'Test', message: '', lastTransitionTime }];
    const options = { subresource: 'status' };
    await this.admin.mergePatch(resources.nodes, { name }, { status: { conditions } }, options);
  }

  /** A maintenance to apply; its name is unique unless given. */
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

  /** A budget for the pods of the test's namespace with these labels. */
  budget(
    matchLabels: Record<string, string>,
    spec: Omit<PodDisruptionBudget['spec'], 'selector'>,
    name = this.named('pdb'),
  ): PodDisruptionBudget {
    const metadata = { name, namespace: this.namespace };
    const kind = { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget' };
    return { ...kind, metadata, spec: { ...spec, selector: { matchLabels } } };
  }

  /** The Evacuation that a maintenance would make for a pod. */
  evacuation(pod: Pod, finalizers: string[] = [INSTIGATOR_FINALIZER]): Evacuation {
    const { name, namespace = '', uid = '' } = pod.metadata;
    return {
      apiVersion: EVACUATION.apiVersion,
      kind: EVACUATION.kind,
      metadata: { name: evacuationName(pod.metadata), namespace, finalizers },
      spec: { podRef: { name, uid }, progressDeadlineSeconds: 1800 },
    };
  }

  /** Applies an object as a person does, and resolves when the code under test can see it. */
  async applied<T extends KubeObject>(object: T): Promise<T> {
    const resource = placeOf(object);
    const stored = await this.admin.apply<T>(resource as Resource<T>, object, { fieldManager, force: true });
    await this.caughtUpWith(stored);
    return stored;
  }

  /** `kubectl patch nodemaintenance NAME -p '{"spec":{"stage":STAGE}}'` */
  async staged(name: string, stage: NodeMaintenanceStage): Promise<NodeMaintenance> {
    return this.patched(resources.nodeMaintenances, { name }, { spec: { stage } });
  }

  /** Writes the status, or a part of it, as its controller would. */
  async withStatus<T extends KubeObject>(object: T, status: object): Promise<T> {
    const resource = placeOf(object) as Resource<T>;
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
  ): Promise<T> {
    const stored = await this.admin.mergePatch<T>(resource, key, patch, { fieldManager });
    await this.caughtUpWith({ ...stored, kind: resource.kind });
    return stored;
  }

  /** Which nodes those may maintain who give orders through Temporal; all of them unless told. */
  async temporalMayDelete(resourceNames?: string[]): Promise<void> {
    const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames }];
    await this.admin.mergePatch(clusterRoles, { name: 'node-maintenance-temporal' }, { rules });
  }

  /** Whether the worker may read the Leases of kubelets; it may unless told. */
  async workerMayReadKubeletLeases(isAllowed = true): Promise<void> {
    const rules = [
      { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: [isAllowed ? 'get' : 'list'] },
    ];
    const key = { namespace: KUBELET_LEASE_NAMESPACE, name: 'node-maintenance-worker' };
    await this.admin.mergePatch(roles, key, { rules });
  }

  /** `null` takes a label away. */
  async labelled(name: string, labels: Record<string, string | null>): Promise<void> {
    await this.patched(resources.nodes, { name }, { metadata: { labels } });
  }

  /** `kubectl cordon NODE` */
  async cordoned(name: string): Promise<void> {
    await this.patched(resources.nodes, { name }, { spec: { unschedulable: true } });
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

  /** A pod that runs on the node and is Ready, as the informer has it; a cordon does not keep it away. */
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

  /** Several of them, made together. */
  async podsOn(node: string, count: number, differs: Omit<PodDiffers, 'name'> = {}): Promise<Pod[]> {
    return Promise.all(Array.from({ length: count }, () => this.podOn(node, differs)));
  }

  /** A Deployment whose pods run on this node alone, one in place of each that goes. Resolves with the first of them. */
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

  /** A DaemonSet for this node alone, and its pod. */
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

  /** Deletes an object, this very one, as a person does; finalizers may hold it. */
  async deleted(object: KubeObject): Promise<void> {
    const { namespace, name, uid = '' } = object.metadata;
    const resource = object.kind === undefined ? (resources.pods as Resource) : placeOf(object);
    await this.admin.delete(resource, { namespace, name }, { uid });
  }

  /** Deletes pods and resolves when the code under test sees that they are gone. */
  async podsDeleted(pods: readonly Pod[]): Promise<void> {
    await Promise.all(pods.map((pod) => this.deleted(pod)));
    for (const pod of pods) await this.eventuallyGone(pod);
  }

  // --- then ----------------------------------------------------------------------------------------------------------

  /** Resolves when the code under test sees the object at least as new as it is here. */
  async caughtUpWith({ kind, metadata }: KubeObject): Promise<void> {
    const informer = this.#informerOf(kind);
    if (informer === undefined) return;
    const { namespace, name, resourceVersion } = metadata;
    const key = namespace === undefined ? name : `${namespace}/${name}`;
    await eventually(`${kind} ${key} in the informer`, () => {
      const seen = informer.get(key)?.metadata.resourceVersion ?? '0';
      expect(Number(seen)).toBeGreaterThanOrEqual(Number(resourceVersion));
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

  /** `Reason: message` of the Events about an object, oldest first. */
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

  /** Resolves with the pod's Evacuation once there is one, in the informer too. */
  async eventuallyEvacuating(pod: Pod): Promise<Evacuation> {
    const made = await eventually(`an Evacuation of pod ${pod.metadata.name}`, async () =>
      present('an Evacuation', await this.evacuationOf(pod)),
    );
    await this.caughtUpWith(made);
    return made;
  }

  /** Resolves when this very pod is no more; a namesake may have come. */
  async eventuallyGone(pod: Pod): Promise<void> {
    const key = `${pod.metadata.namespace}/${pod.metadata.name}`;
    await eventually(`pod ${key} to be gone`, () =>
      expect(this.cluster.pods.get(key)?.metadata.uid).not.toBe(pod.metadata.uid),
    );
  }

  /** Resolves when the status of a maintenance satisfies `judge`, which is written with `expect`. */
  async eventuallyStatus(
    name: string,
    fact: string,
    judge: (status: NodeMaintenanceStatus) => void,
  ): Promise<NodeMaintenanceStatus> {
    return eventually(`NodeMaintenance ${name}: ${fact}`, async () => {
      const status = await this.statusOf(name);
      judge(status);
      return status;
    });
  }

  async eventuallyDrained(name: string): Promise<NodeMaintenanceStatus> {
    return this.eventuallyStatus(name, 'Drained is True', ({ conditions, nodeStatuses }) => {
      const seen = { drained: isTrue(conditions, 'Drained'), conditions, nodeStatuses };
      expect(seen).toMatchObject({ drained: true });
    });
  }

  /** Resolves when the maintenance has given its nodes back: Complete has begun and no finalizer of ours is left. */
  async eventuallyComplete(name: string): Promise<NodeMaintenance> {
    return eventually(`NodeMaintenance ${name} to be complete`, async () => {
      const seen = await this.maintenanceNow(name);
      expect(seen.status?.stageStatuses.map((stage) => stage.name)).toContain('Complete');
      expect(seen.metadata.finalizers ?? []).toEqual([]);
      return seen;
    });
  }

  // --- finally -------------------------------------------------------------------------------------------------------

  /** Takes back everything that was made here, whatever holds it, and ends the connections. */
  async close(): Promise<void> {
    try {
      for (const { metadata } of [...this.#silent].flatMap((node) => this.podsOf(node))) {
        const { namespace = '', name, uid = '' } = metadata;
        await this.admin.delete(resources.pods, { namespace, name }, { uid, gracePeriodSeconds: 0 });
      }
      await this.maintenancesDropped();
      for (const namespace of this.#namespaces) await this.#dropNamespace(namespace);
      await eventually('the pods on the nodes to be gone', () => {
        const left = [...this.#nodes].flatMap((node) => this.podsOf(node));
        expect(left.map((pod) => pod.metadata)).toEqual([]);
      });
      for (const name of this.#nodes) await this.#drop(resources.nodes as Resource, { name });
    } finally {
      this.#watching.abort();
      await Promise.all([this.cluster.kube.close(), this.admin.close()]);
    }
  }

  /** Removes the maintenances that were made so far, whatever holds them. */
  async maintenancesDropped(): Promise<void> {
    const { items } = await this.admin.list(resources.nodeMaintenances);
    for (const { metadata } of items.filter((one) => one.metadata.name.startsWith(this.namespace)))
      await this.#drop(resources.nodeMaintenances, { name: metadata.name });
  }

  async #dropNamespace(namespace: string): Promise<void> {
    for (const resource of [resources.evacuations, resources.pods] as Resource[]) {
      const { items } = await this.admin.list(resource, { namespace });
      const held = items.filter(({ metadata }) => (metadata.finalizers ?? []).length > 0);
      for (const { metadata } of held) await this.#drop(resource, { namespace, name: metadata.name });
    }
    await this.#drop(resources.namespaces, { name: namespace });
  }

  async #drop(resource: Resource, key: { namespace?: string; name: string }): Promise<void> {
    const found = await this.admin.get(resource, key);
    if (found === undefined) return;
    if ((found as Evacuation).status?.evacuationCancellationPolicy === 'Forbid')
      await this.#allowCancellation(resource, key);
    if ((found.metadata.finalizers ?? []).length > 0)
      await this.admin.mergePatch(resource, key, { metadata: { finalizers: [] } }).catch(() => undefined);
    await this.admin.delete(resource, key, { uid: found.metadata.uid ?? '' });
  }

  async #allowCancellation(resource: Resource, key: { namespace?: string; name: string }): Promise<void> {
    const status = { evacuationCancellationPolicy: 'Allow' };
    await this.admin.mergePatch(resource, key, { status }, { subresource: 'status' });
  }

  async #readyPod(key: string): Promise<Pod> {
    return eventually(`pod ${key} to be Ready`, () => {
      const pod = this.cluster.pods.get(key);
      expect(pod?.status).toEqual({ phase: 'Running', ready: true });
      return pod as Pod;
    });
  }

  /** The apiserver knows a new PriorityClass only a moment after it was made. */
  async #createPod(pod: object): Promise<void> {
    await eventually('the pod to be taken', async () => {
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

/** Kept in the sandbox: they are the same for every test. */
function priorityClassName(value: number): string {
  return `priority-${value}`.replace('--', '-minus-');
}

/** The template of pods that run on one node and go at once when they are deleted. */
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
  if (isList(nodes)) {
    return {
      nodeSelectorTerms: nodes.map((node) => ({
        matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }],
      })),
    };
  }
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

function placeOf({ kind }: KubeObject): Resource {
  const resource = places[kind ?? ''];
  if (resource === undefined) throw new Error(`kind ${kind}: add it to the places of test/kit/cluster.ts`);
  return resource;
}

function present<T>(what: string, found: T | undefined): T {
  if (found === undefined) throw new Error(`there is no ${what}`);
  return found;
}
