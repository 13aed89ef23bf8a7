import { NODE_MAINTENANCE } from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance, PodType } from '../../api/nodeMaintenance.ts';
import { agents, budget, daemonSet, deployment, namespace, priorityClass, yamlOf } from '../manifests.ts';
import type { Workload } from '../manifests.ts';

/** The nodes and maintenances of KEP-4212 > Pod Selection and DrainTargets Example, and as many pods as it counts. */

export const nodes = ['one', 'two', 'three', 'four'] as const;
type NodeName = (typeof nodes)[number];

/** Where the replacements go. These nodes join when all pods run, so that each begins on the node of the KEP. */
export const spareNodes: readonly string[] = ['five', 'six'];

/** A Deployment whose pods begin on one node. */
export interface Resident extends Workload {
  node: NodeName;
  priority: number;
  /** Whether a PodDisruptionBudget holds its pods until the story opens it. */
  guarded: boolean;
}

const shop = 'shop';
const guarded = true;

/**
 * KEP-4212 counts 10 pods up to 5000 on node one, 30 more up to 10000, and 70 above; and so on. Where a part of a node's
 * pods has gone in the next snapshot, they are two Deployments, to be opened one after the other. One of the pods that it
 * counts above is the DaemonSet's.
 */
export const residents: readonly Resident[] = [
  resident('one', 4_000, 5, guarded),
  resident('one', 4_500, 5, guarded),
  resident('one', 9_000, 30, guarded),
  resident('one', 14_000, 69),
  resident('two', 4_000, 5, guarded),
  resident('two', 4_500, 2, guarded),
  resident('two', 14_500, 9, guarded),
  resident('two', 20_000, 20),
  resident('three', 9_500, 25, guarded),
  resident('three', 14_700, 44),
  resident('four', 1_000, 5, guarded),
  resident('four', 14_000, 19),
];

/** Those of the DaemonSet aside. */
export const allPods = residents.reduce((total, { replicas }) => total + replicas, 0);

function resident(node: NodeName, priority: number, replicas: number, isGuarded = false): Resident {
  return {
    namespace: shop,
    name: `${node}-${priority}`,
    node,
    priority,
    replicas,
    priorityClassName: classOf(priority),
    guarded: isGuarded,
  };
}

function classOf(priority: number): string {
  return `priority-${priority}`;
}

/** One of the KEP's maintenances. */
export interface Actor {
  name: string;
  nodes: readonly NodeName[];
  drainPlan: readonly DrainPlanEntry[];
}

export const maintenanceA: Actor = {
  name: 'maintenance-a',
  nodes: ['one', 'two'],
  drainPlan: [entry('Default', 5_000), entry('Default', 15_000), entry('DaemonSet', 3_000)],
};
export const maintenanceB: Actor = {
  name: 'maintenance-b',
  nodes: ['one', 'three'],
  drainPlan: [entry('Default', 10_000), entry('Default', 15_000), entry('DaemonSet', 4_000)],
};
export const maintenanceC: Actor = {
  name: 'maintenance-c',
  nodes: ['one', 'four'],
  drainPlan: [entry('Default', 2_000), entry('Default', 15_000)],
};
export const actors: readonly Actor[] = [maintenanceA, maintenanceB, maintenanceC];

function entry(podType: PodType, podPriority: number): DrainPlanEntry {
  return { podPriority, podType };
}

/** `Default 5000, Default 15000, DaemonSet 3000`; drain targets read the same. */
export function entriesText(entries: readonly DrainPlanEntry[]): string {
  return entries
    .map(({ podType, podPriority, podSelector }) =>
      [podType, podPriority, ...(podSelector === undefined ? [] : [JSON.stringify(podSelector)])].join(' '),
    )
    .join(', ');
}

export function maintenanceYaml(all: readonly Actor[]): string {
  return yamlOf(all.map(maintenanceOf));
}

function maintenanceOf({ name, nodes: selected, drainPlan }: Actor): NodeMaintenance {
  return {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name },
    spec: {
      nodeSelector: { nodeSelectorTerms: [hostIn(selected)] },
      stage: 'Drain',
      drainPlan: [...drainPlan],
    },
  };
}

function hostIn(names: readonly string[]) {
  return {
    matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In' as const, values: [...names] }],
  };
}

/** The YAML of everything that runs on the cluster before the maintenances. */
export function residentsYaml(): string {
  const priorities = [...new Set(residents.map(({ priority }) => priority))];
  return yamlOf([
    namespace(shop),
    ...priorities.map((priority) => priorityClass(classOf(priority), priority)),
    ...residents.map((one) => deployment(one, placement(one))),
    ...residents.filter((one) => one.guarded).map((one) => budget(one, { maxUnavailable: 0 })),
    agents(),
  ]);
}

function placement({ node }: Resident): object {
  const required = { nodeSelectorTerms: [hostIn([node, ...spareNodes])] };
  return { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } } };
}

/** One line for each node: how many pods it has of which priority. */
export function residentLines(): string[] {
  const lines = nodes.map((node) => {
    const groups = residents
      .filter((one) => one.node === node)
      .map(({ replicas, priority, guarded: isHeld }) => `${replicas} x ${priority}${isHeld ? '*' : ''}`);
    return `${node.padEnd('three'.length)}  ${groups.join(', ')}`;
  });
  return [
    'node   pods x priority; * a PodDisruptionBudget, NODE-PRIORITY, lets none of them go',
    ...lines,
    `each   1 of DaemonSet ${daemonSet.name}`,
  ];
}
