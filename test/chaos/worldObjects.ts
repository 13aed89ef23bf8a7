import type { KubeObject } from '../../api/core.ts';
import { type NodeMaintenanceSpec } from '../../api/nodeMaintenance.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { ofPool, gate, readinessPolicy } from '../kit/readiness.ts';
import { daemonSets, deployments, selectNodes, serviceAccounts } from '../kit/resources.ts';
import { type Testbed, priorityClassOf } from './testbed.ts';
import { retryUntilAnswered } from './retryUntilAnswered.ts';
import type { PlannedMaintenance, Priority, Scenario, Workload } from './scenario.ts';

/** The names of a run in a cluster that others use, too. */
export class Names {
  /** Namespace of the pods, and prefix of everything else. */
  readonly prefix: string;

  constructor(seed: number) {
    this.prefix = `chaos-${seed}`;
  }

  of(relative: string): string {
    return `${this.prefix}-${relative}`;
  }

  all(relative: readonly string[]): string[] {
    return relative.map((name) => this.of(name));
  }
}

/** Value of the label `pool` of all nodes of a run, and of those of its window. */
const poolOf = ({ prefix }: Names) => prefix;
const windowPoolOf = (names: Names) => names.of('window');

/** Containers of pods with this label end late. */
const slowExit = { 'sandbox.nodemaintenance.k8s.io/slow-exit': 'true' };

const evacuators = {
  Deployment: { 'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io': '10000/controller' },
  StatefulSet: { 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io': '10000/controller' },
  DaemonSet: {},
  Pods: {},
};
const silentEvacuator = { 'evacuation.coordination.k8s.io/priority_silent.example.com': '20000/test' };

/** Creates the nodes and workloads of a scenario, and returns when all pods are Ready. */
export async function createWorld(
  { sandbox, kube }: Testbed,
  names: Names,
  scenario: Scenario,
): Promise<void> {
  const { nodes, window = [], workloads, isGated } = scenario;
  const inWindow = nodes.filter((node) => window.includes(node));
  const others = nodes.filter((node) => !window.includes(node));
  await sandbox.addNodes(names.all(others), { chaos: poolOf(names) });
  if (inWindow.length > 0)
    await sandbox.addNodes(names.all(inWindow), { chaos: poolOf(names), pool: windowPoolOf(names) });
  await kube.create(resources.namespaces, { metadata: { name: names.prefix } });
  await untilTrue(
    'the ServiceAccount of pods',
    async () => (await kube.get(serviceAccounts, { namespace: names.prefix, name: 'default' })) !== undefined,
  );
  for (const workload of workloads) await createWorkload({ kube }, names, workload);
  const expected = workloads.reduce(
    (sum, one) => sum + (one.kind === 'DaemonSet' ? nodes.length : one.replicas),
    0,
  );
  await untilTrue(`${expected} pods to be Ready`, async () => {
    const { items } = await kube.list(resources.pods, { namespace: names.prefix });
    return items.filter(isReady).length === expected;
  });
  const daemons = workloads.filter(({ kind }) => kind === 'DaemonSet');
  if (!isGated) return;
  const gates = daemons.map(({ name }) => gate({ name, namespace: names.prefix }));
  const nodeSelector = {
    nodeSelectorTerms: [
      { matchExpressions: [{ key: 'chaos', operator: 'In' as const, values: [poolOf(names)] }] },
    ],
  };
  const policy = readinessPolicy(names.prefix, nodeSelector, gates);
  await retryUntilAnswered('the readiness policy', () =>
    kube.apply(resources.nodeReadinessPolicies, policy, { fieldManager: 'chaos' }),
  );
}

function isReady({ status }: RawPod): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false;
}

/** kwok has ended a pod some seconds after its grace period, or has lost its deletion. */
const overdueMs = 10_000;

/**
 * Does what kubelets do after an outage, and kwok does not: reports pods as Ready again that the node lifecycle controller has marked while their nodes
 * were not, and ends pods whose deletion was requested while the apiserver was away. Their budgets would allow no eviction any more.
 */
export async function actAsKubelets({ kube }: Pick<Testbed, 'kube'>, { prefix }: Names): Promise<void> {
  const { items } = await kube.list(resources.pods, { namespace: prefix });
  for (const pod of items) {
    const { name, namespace, uid = '', resourceVersion, deletionTimestamp } = pod.metadata;
    if (deletionTimestamp !== undefined) {
      if (kube.now().getTime() > Date.parse(deletionTimestamp) + overdueMs)
        await kube.delete(resources.pods, { namespace, name }, { uid, gracePeriodSeconds: 0 });
      continue;
    }
    if (pod.status?.phase !== 'Running' || isReady(pod)) continue;
    const conditions = pod.status.conditions?.map((one) =>
      /^(Ready|ContainersReady)$/.test(one.type) ? { ...one, status: 'True' } : one,
    );
    await kube
      .mergePatch(
        resources.pods,
        { namespace, name },
        { metadata: { uid, resourceVersion }, status: { conditions } },
        { subresource: 'status' },
      )
      .catch(() => undefined);
  }
}

/** Describes the pods and budgets of a run, for a violation whose cause they may be. */
export async function describeWorld({ kube }: Pick<Testbed, 'kube'>, { prefix }: Names): Promise<string> {
  const [pods, budgets] = await Promise.all([
    kube.list(resources.pods, { namespace: prefix }),
    kube.list(resources.podDisruptionBudgets, { namespace: prefix }),
  ]);
  const ofPods = pods.items.map((pod) => {
    const { name, deletionTimestamp } = pod.metadata;
    const state = deletionTimestamp === undefined ? (isReady(pod) ? 'Ready' : 'not Ready') : 'terminating';
    return `${name} on ${pod.spec.nodeName ?? 'no node'}: ${pod.status?.phase}, ${state}`;
  });
  const ofBudgets = budgets.items.map(
    ({ metadata, status }) => `budget ${metadata.name}: ${JSON.stringify(status)}`,
  );
  return [...ofPods, ...ofBudgets].join('; ');
}

/** Reports whether kube-controller-manager has counted the Ready pods of all budgets: after faults its watches may be interrupted for a minute. */
export async function budgetsAreCurrent(
  { kube }: Pick<Testbed, 'kube'>,
  { prefix }: Names,
): Promise<boolean> {
  const [budgets, pods] = await Promise.all([
    kube.list(resources.podDisruptionBudgets, { namespace: prefix }),
    kube.list(resources.pods, { namespace: prefix }),
  ]);
  return budgets.items.every(({ metadata: { name }, status }) => {
    const own = pods.items.filter(
      ({ metadata }) => metadata.labels?.['app'] === name && metadata.deletionTimestamp === undefined,
    );
    return status?.currentHealthy === own.filter(isReady).length;
  });
}

export async function untilTrue(
  fact: string,
  check: () => Promise<boolean>,
  timeoutMs = 60_000,
): Promise<void> {
  const failure = new Error('not yet');
  await retryUntilAnswered(
    fact,
    async () => {
      if (!(await check())) throw failure;
    },
    timeoutMs,
  );
}

async function createWorkload(
  { kube }: Pick<Testbed, 'kube'>,
  names: Names,
  workload: Workload,
): Promise<void> {
  const { kind, name, replicas, node, budget } = workload;
  const metadata = { name, namespace: names.prefix };
  const template = podTemplateOf(workload, names);
  const selector = { matchLabels: { app: name } };
  const create = (resource: Resource, object: object) => kube.create(resource, object as KubeObject);
  if (budget !== undefined)
    await create(resources.podDisruptionBudgets as Resource, { metadata, spec: { selector, ...budget } });
  if (kind === 'Deployment') await create(deployments, { metadata, spec: { replicas, selector, template } });
  if (kind === 'DaemonSet') await create(daemonSets, { metadata, spec: { selector, template } });
  if (kind === 'StatefulSet')
    await create(resources.statefulSets as Resource, {
      metadata,
      spec: { replicas, serviceName: name, podManagementPolicy: 'Parallel', selector, template },
    });
  if (kind === 'Pods')
    for (let index = 1; index <= replicas; index++)
      await create(resources.pods as Resource, {
        metadata: { ...template.metadata, name: `${name}-${index}`, namespace: names.prefix },
        spec: { ...template.spec, nodeName: names.of(node ?? '') },
      });
}

function podTemplateOf(
  { kind, name, priority, tier, evacuator, isSlow }: Workload,
  names: Names,
): { metadata: object; spec: object } {
  const annotations = {
    ...(evacuator === 'Builtin' && evacuators[kind]),
    ...(evacuator === 'Silent' && silentEvacuator),
  };
  return {
    metadata: { labels: { app: name, tier, ...(isSlow && slowExit) }, annotations },
    spec: podSpec(priority, names, { isSlow, isDaemon: kind === 'DaemonSet' }),
  };
}

function podSpec(priority: Priority, names: Names, { isSlow = false, isDaemon = false }): object {
  return {
    nodeSelector: { chaos: poolOf(names) },
    containers: [{ name: 'main', image: 'none' }],
    tolerations: [isDaemon ? { operator: 'Exists' } : { operator: 'Exists', effect: 'NoExecute' }],
    terminationGracePeriodSeconds: isSlow ? 3 : 1,
    ...(priority > 0 && { priorityClassName: priorityClassOf(priority) }),
  };
}

/** Returns a pod without a controller, which runs on a node even if it is cordoned. */
export function latePod(
  name: string,
  { node, priority }: { node: string; priority: Priority },
  names: Names,
): KubeObject {
  const spec = { ...podSpec(priority, names, {}), nodeName: names.of(node) };
  return {
    metadata: { name, namespace: names.prefix, labels: { app: name, tier: 'a' } },
    spec,
  } as KubeObject;
}

export function maintenanceSpecOf(
  { nodes, stage, drainPlan, deleteAfterSeconds }: PlannedMaintenance,
  names: Names,
): NodeMaintenanceSpec {
  return {
    nodeSelector: selectNodes(names.all(nodes)),
    stage,
    reason: 'chaos',
    ...(drainPlan !== undefined && { drainPlan: [...drainPlan] }),
    ...(deleteAfterSeconds !== undefined && {
      drainDeadline: { after: `${deleteAfterSeconds}s`, onDeadline: 'Delete' as const, steps: [] },
    }),
  };
}

/** A window that is opened by hand alone. */
export function windowOf(names: Names): KubeObject {
  const calendar = [{ time: '02:00', years: [2099] }];
  const spec = {
    schedule: { timeZone: 'UTC', duration: '1h', calendar },
    nodeSelector: ofPool(windowPoolOf(names)),
    onWindowEnd: 'CancelCurrent',
  };
  return { metadata: { name: names.of('window') }, spec } as unknown as KubeObject;
}

/**
 * Deletes what a run leaves on purpose: its nodes and pods. It does not wait for the namespace to be gone, which would wait for kubelets if the pods were
 * not deleted here.
 */
export async function deleteWorld({ kube }: Testbed, names: Names, { nodes }: Scenario): Promise<void> {
  const namespace = await kube.get(resources.namespaces, { name: names.prefix });
  if (namespace !== undefined)
    await kube.delete(resources.namespaces, { name: names.prefix }, { uid: namespace.metadata.uid ?? '' });
  const { items: pods } = await kube.list(resources.pods, { namespace: names.prefix });
  for (const { metadata } of pods) {
    const options = { uid: metadata.uid ?? '', gracePeriodSeconds: 0 };
    await kube.delete(resources.pods, { namespace: names.prefix, name: metadata.name }, options);
  }
  for (const name of names.all(nodes)) {
    const node = await kube.get(resources.nodes, { name });
    if (node !== undefined) await kube.delete(resources.nodes, { name }, { uid: node.metadata.uid ?? '' });
  }
}

/** Resolves when the namespace of a run is gone. Controllers that are restarted for the next run before that would leave it. */
export async function worldDeleted({ kube }: Pick<Testbed, 'kube'>, { prefix: name }: Names): Promise<void> {
  const isGone = async () => (await kube.get(resources.namespaces, { name })) === undefined;
  await untilTrue(`namespace ${name} to be gone`, isGone, 120_000);
}
