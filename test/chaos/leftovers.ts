import { ScheduleNotFoundError, WorkflowNotFoundError } from '@temporalio/client';
import type { KubeObject, Node } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import {
  AUTOSCALER_ANNOTATIONS,
  MAINTENANCE_GATE,
  NODE_DISRUPTION_BUDGET_NAME,
  NODE_LEASE_NAMESPACE,
  READINESS_CONDITION,
  READINESS_TAINT,
} from '../../api/names.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { remove } from '../kit/reset.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import { maintenanceConditions, nodesOf, typeOf } from './invariants/cluster.ts';
import { servesEvictionRequests, type Testbed } from './testbed.ts';
import { webhookProblems } from './webhookCertificate.ts';
import type { Names } from './worldObjects.ts';

/** State of Kubernetes and Temporal at the end of a run, when all of its maintenances are gone. */
export interface FinalWorld {
  nodes: readonly Node[];
  /** The NodeReadinesses of these nodes, and of nodes that do not exist: a node has one as long as it exists. */
  readinesses: readonly NodeReadiness[];
  pods: readonly RawPod[];
  /** `evacuations chaos-1/x`, `nodemaintenances chaos-1-m1`. */
  objects: readonly string[];
  /** Node -> holder of its maintenance Lease. */
  leaseHolders: ReadonlyMap<string, string>;
  /** Nodes that windows have reserved. */
  reserved: readonly string[];
  openRuns: readonly string[];
  schedules: readonly string[];
  /** Problems that keep the apiserver from asking the webhooks. */
  webhookProblems: readonly string[];
}

/** Returns one line for everything that should not be left. */
export function leftoversOf(world: FinalWorld): string[] {
  return [
    ...world.nodes.flatMap(nodeProblems),
    ...world.readinesses.flatMap((readiness) => readinessProblems(readiness, world.nodes)),
    ...world.pods.flatMap(podProblems),
    ...world.objects.map((key) => `${key} exists`),
    ...[...world.leaseHolders].flatMap(([node, holder]) =>
      holder === '' ? [] : [`the maintenance Lease of ${node} is held by ${holder}`],
    ),
    ...world.reserved.map((node) => `${node} is reserved by a window`),
    ...world.openRuns.map((id) => `run ${id} is open`),
    ...world.schedules.map((id) => `Schedule ${id} exists`),
    ...world.webhookProblems,
  ];
}

/** The gates of a run come from its policy, which is deleted. */
function readinessProblems(
  { metadata: { name }, spec }: NodeReadiness,
  nodes: FinalWorld['nodes'],
): string[] {
  if (nodes.every((node) => node.metadata.name !== name))
    return [`the NodeReadiness of ${name} exists, and the node does not`];
  const gates = spec.readinessGates.map((gate) => gate.name);
  return gates.length === 0
    ? []
    : [`${name} has readiness gates of a policy that is gone: ${gates.join(', ')}`];
}

function nodeProblems({ metadata: { name, annotations = {} }, spec, status }: Node): string[] {
  const taint = spec.taints?.find(({ key }) => key === READINESS_TAINT.key);
  const condition = status?.conditions?.find(({ type }) =>
    [...maintenanceConditions, READINESS_CONDITION].includes(type),
  );
  const annotation = AUTOSCALER_ANNOTATIONS.find((key) => annotations[key] !== undefined);
  return [
    ...(spec.unschedulable === true ? [`${name} is cordoned`] : []),
    ...(taint === undefined ? [] : [`${name} has the taint ${taint.key}`]),
    ...(condition === undefined ? [] : [`${name} has the condition ${condition.type}`]),
    ...(annotation === undefined ? [] : [`${name} has the annotation ${annotation}`]),
  ];
}

/** Returns the pods that a maintenance drains and that are on its nodes: its plan selects all but static ones, and those that have ended do not matter. */
export function podsToDrain({ spec }: Pick<NodeMaintenance, 'spec'>, pods: readonly RawPod[]): RawPod[] {
  const nodes = nodesOf(spec.nodeSelector);
  return pods.filter(
    (pod) =>
      nodes.has(pod.spec.nodeName ?? '') &&
      typeOf(pod) !== 'Static' &&
      pod.status?.phase !== 'Succeeded' &&
      pod.status?.phase !== 'Failed',
  );
}

function podProblems({ metadata: { namespace, name }, spec }: RawPod): string[] {
  const isGated = spec.schedulingGates?.some((gate) => gate.name === MAINTENANCE_GATE) === true;
  return isGated ? [`pod ${namespace}/${name} is gated`] : [];
}

export async function readFinalWorld(
  { kube, temporal, evictionApi }: Pick<Testbed, 'kube' | 'temporal' | 'evictionApi'>,
  names: Names,
): Promise<FinalWorld> {
  const { prefix } = names;
  const isOurs = (name: string) => name.startsWith(`${prefix}-`);
  const [allNodes, allReadinesses, pods, leases, budget] = await Promise.all([
    kube.list(resources.nodes),
    kube.list(resources.nodeReadinesses),
    kube.list(resources.pods, { namespace: prefix }),
    kube.list(resources.leases, { namespace: NODE_LEASE_NAMESPACE }),
    kube.get(resources.nodeDisruptionBudgets, { name: NODE_DISRUPTION_BUDGET_NAME }),
  ]);
  const [maintenances, windows] = await Promise.all([
    kube.list(resources.nodeMaintenances),
    kube.list(resources.maintenanceWindows),
  ]);
  const objects = [
    ...(await listRequests({ kube, evictionApi }, names)).map(
      ({ resource, metadata }) => `${resource.plural} ${prefix}/${metadata.name}`,
    ),
    ...maintenances.items
      .filter(({ metadata }) => isOurs(metadata.name))
      .map(({ metadata }) => `nodemaintenances ${metadata.name}`),
    ...windows.items
      .filter(({ metadata }) => isOurs(metadata.name))
      .map(({ metadata }) => `maintenancewindows ${metadata.name}`),
  ];
  const held = leases.items
    .filter(({ metadata }) => isOurs(metadata.name))
    .map(({ metadata, spec }) => [metadata.name, spec.holderIdentity ?? ''] as const);
  const ids = [workflowIdOf(`${prefix}-`), windowWorkflowIdOf(`${prefix}-`)];
  const openRuns: string[] = [];
  for await (const { workflowId } of temporal.workflow.list({ query: 'ExecutionStatus = "Running"' }))
    if (ids.some((id) => workflowId.startsWith(id))) openRuns.push(workflowId);
  const schedules: string[] = [];
  for await (const { scheduleId } of temporal.schedule.list())
    if (ids.some((id) => scheduleId.startsWith(id))) schedules.push(scheduleId);
  const nodes = allNodes.items.filter(({ metadata }) => metadata.labels?.['chaos'] === prefix);
  const others = new Set(
    allNodes.items.filter((node) => !nodes.includes(node)).map(({ metadata }) => metadata.name),
  );
  const reserved = (budget?.status?.reservations ?? []).map(({ node }) => node).filter(isOurs);
  return {
    nodes,
    readinesses: allReadinesses.items.filter(({ metadata }) => !others.has(metadata.name)),
    pods: pods.items,
    objects,
    leaseHolders: new Map(held),
    reserved,
    openRuns,
    schedules,
    webhookProblems: await webhookProblems(kube),
  };
}

/** Lists everything by which the pods of a run are asked to leave. */
async function listRequests(
  { kube, evictionApi }: Pick<Testbed, 'kube' | 'evictionApi'>,
  { prefix }: Names,
): Promise<{ resource: Resource; metadata: KubeObject['metadata'] }[]> {
  const { evacuations, evictionRequests, evictions } = resources;
  const served = servesEvictionRequests(evictionApi)
    ? [evacuations, evictionRequests, evictions]
    : [evacuations];
  const lists = await Promise.all(
    (served as Resource[]).map(async (resource) => {
      const { items } = await kube.list(resource, { namespace: prefix });
      return items.map(({ metadata }) => ({ resource, metadata }));
    }),
  );
  return lists.flat();
}

/** Removes what a run has left against its promises, so that the next one is not disturbed. */
export async function removeLeftovers({ kube, temporal, evictionApi }: Testbed, names: Names): Promise<void> {
  const isOurs = ({ metadata: { name } }: KubeObject) => name.startsWith(`${names.prefix}-`);
  for (const resource of [resources.maintenanceWindows, resources.nodeMaintenances] as Resource[])
    for (const { metadata } of (await kube.list(resource)).items.filter(isOurs))
      await remove(kube, resource, metadata);
  for (const { resource, metadata } of await listRequests({ kube, evictionApi }, names))
    await remove(kube, resource, metadata);
  const policies = resources.nodeReadinessPolicies as Resource;
  await remove(kube, policies, { name: names.prefix });
  const { nodes, readinesses, openRuns, schedules } = await readFinalWorld(
    { kube, temporal, evictionApi },
    names,
  );
  for (const { metadata } of readinesses)
    if (nodes.every((node) => node.metadata.name !== metadata.name))
      await remove(kube, resources.nodeReadinesses as Resource, metadata);
  for (const id of openRuns)
    await temporal.workflow.getHandle(id).terminate('the run is over').catch(unlessGone);
  for (const id of schedules) await temporal.schedule.getHandle(id).delete().catch(unlessGone);
}

/** Ignores that a run or Schedule does not exist: it was listed a moment ago, and may have ended by itself. */
function unlessGone(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError) && !(error instanceof ScheduleNotFoundError)) throw error;
}
