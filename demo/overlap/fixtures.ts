import { NODE_MAINTENANCE } from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance, PodType } from '../../api/nodeMaintenance.ts';
import { agents, budget, daemonSet, deployment, namespace, priorityClass, yamlOf } from '../manifests.ts';
import type { Workload } from '../manifests.ts';

/** The nodes, pods and maintenances of KEP-4212 > Pod Selection and DrainTargets Example. */

export const nodes = ['one', 'two', 'three', 'four'] as const;
type NodeName = (typeof nodes)[number];

/** Nodes for the replacements. They join when all pods run, so that each pod starts on its node in the KEP. */
export const spareNodes: readonly string[] = ['five', 'six'];

/** A Deployment whose pods start on one node. */
export interface NodeWorkload extends Workload {
  node: NodeName;
  priority: number;
  /** True when a PodDisruptionBudget blocks its pods until the scenario relaxes it. */
  guarded: boolean;
}

const shop = 'shop';
const guarded = true;

/**
 * In KEP-4212, node one has 10 pods with priorities up to 5000, 30 more up to 10000, and 70 above; and so on. Where a snapshot
 * shows only part of these pods gone, they are two Deployments whose budgets are relaxed one after the other. One of the pods with
 * a higher priority belongs to the DaemonSet.
 */
export const nodeWorkloads: readonly NodeWorkload[] = [
  nodeWorkload('one', 4_000, 5, guarded),
  nodeWorkload('one', 4_500, 5, guarded),
  nodeWorkload('one', 9_000, 30, guarded),
  nodeWorkload('one', 14_000, 69),
  nodeWorkload('two', 4_000, 5, guarded),
  nodeWorkload('two', 4_500, 2, guarded),
  nodeWorkload('two', 14_500, 9, guarded),
  nodeWorkload('two', 20_000, 20),
  nodeWorkload('three', 9_500, 25, guarded),
  nodeWorkload('three', 14_700, 44),
  nodeWorkload('four', 1_000, 5, guarded),
  nodeWorkload('four', 14_000, 19),
];

/** Number of pods without those of the DaemonSet. */
export const allPods = nodeWorkloads.reduce((total, { replicas }) => total + replicas, 0);

function nodeWorkload(node: NodeName, priority: number, replicas: number, isGuarded = false): NodeWorkload {
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

/** A maintenance of the KEP. */
export interface KepMaintenance {
  name: string;
  nodes: readonly NodeName[];
  drainPlan: readonly DrainPlanEntry[];
}

export const maintenanceA: KepMaintenance = {
  name: 'maintenance-a',
  nodes: ['one', 'two'],
  drainPlan: [entry('Default', 5_000), entry('Default', 15_000), entry('DaemonSet', 3_000)],
};
export const maintenanceB: KepMaintenance = {
  name: 'maintenance-b',
  nodes: ['one', 'three'],
  drainPlan: [entry('Default', 10_000), entry('Default', 15_000), entry('DaemonSet', 4_000)],
};
export const maintenanceC: KepMaintenance = {
  name: 'maintenance-c',
  nodes: ['one', 'four'],
  drainPlan: [entry('Default', 2_000), entry('Default', 15_000)],
};
export const kepMaintenances: readonly KepMaintenance[] = [maintenanceA, maintenanceB, maintenanceC];

function entry(podType: PodType, podPriority: number): DrainPlanEntry {
  return { podPriority, podType };
}

/** Formats a drain plan or drain targets: `Default 5000, Default 15000, DaemonSet 3000`. */
export function entriesText(entries: readonly DrainPlanEntry[]): string {
  return entries
    .map(({ podType, podPriority, podSelector }) =>
      [podType, podPriority, ...(podSelector === undefined ? [] : [JSON.stringify(podSelector)])].join(' '),
    )
    .join(', ');
}

export function maintenanceYaml(all: readonly KepMaintenance[]): string {
  return yamlOf(all.map(maintenanceOf));
}

function maintenanceOf({ name, nodes: selected, drainPlan }: KepMaintenance): NodeMaintenance {
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

/** Returns the YAML of all workloads. */
export function workloadsYaml(): string {
  const priorities = [...new Set(nodeWorkloads.map(({ priority }) => priority))];
  return yamlOf([
    namespace(shop),
    ...priorities.map((priority) => priorityClass(classOf(priority), priority)),
    ...nodeWorkloads.map((one) => deployment(one, placement(one))),
    ...nodeWorkloads.filter((one) => one.guarded).map((one) => budget(one, { maxUnavailable: 0 })),
    agents(),
  ]);
}

function placement({ node }: NodeWorkload): object {
  const required = { nodeSelectorTerms: [hostIn([node, ...spareNodes])] };
  return { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } } };
}

/** Returns one line per node with the number of its pods by priority. */
export function workloadLines(): string[] {
  const lines = nodes.map((node) => {
    const groups = nodeWorkloads
      .filter((one) => one.node === node)
      .map(
        ({ replicas, priority, guarded: hasBudget }) => `${replicas} x ${priority}${hasBudget ? '*' : ''}`,
      );
    return `${node.padEnd('three'.length)}  ${groups.join(', ')}`;
  });
  return [
    'node   pods x priority; * blocked by PodDisruptionBudget NODE-PRIORITY',
    ...lines,
    `each   1 pod of DaemonSet ${daemonSet.name}`,
  ];
}
