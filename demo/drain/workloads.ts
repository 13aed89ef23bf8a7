import { NODE_MAINTENANCE } from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import {
  agents,
  budget,
  daemonSet,
  deployment,
  namespace,
  podsOf,
  priorityClass,
  type Workload,
  yamlOf,
} from '../manifests.ts';

/** The workloads of the cluster, and the maintenance of two of its nodes. */

export const nodeCount = 6;
export const maintained: readonly string[] = ['node-1', 'node-2'];
export const rackLabel = { name: 'rack', value: '7' } as const;
export const maintenanceName = 'rack-7';

/** A Deployment with a PodDisruptionBudget. `replicas` is a multiple of the number of nodes, so that each node runs as many pods. */
export interface BudgetedWorkload extends Workload {
  minAvailable: number;
}

/** Pods that are evacuated together, because the same entry of the drain plan is the first to select them. */
export interface Tier {
  title: string;
  entry: DrainPlanEntry;
  workloads: readonly BudgetedWorkload[];
}

const batch: BudgetedWorkload = {
  namespace: 'shop',
  name: 'batch',
  replicas: 12,
  minAvailable: 10,
  priorityClassName: 'batch',
};
const web: BudgetedWorkload = {
  namespace: 'shop',
  name: 'web',
  replicas: 18,
  minAvailable: 16,
  exitsSlowly: true,
};
const postgres: BudgetedWorkload = {
  namespace: 'shop',
  name: 'postgres',
  replicas: 12,
  minAvailable: 11,
  priorityClassName: 'standard',
  exitsSlowly: true,
};
const api: BudgetedWorkload = {
  namespace: 'shop',
  name: 'api',
  replicas: 12,
  minAvailable: 10,
  priorityClassName: 'standard',
};
const payments: BudgetedWorkload = {
  namespace: 'shop',
  name: 'payments',
  replicas: 12,
  minAvailable: 11,
  priorityClassName: 'important',
  exitsSlowly: true,
};
const dns: BudgetedWorkload = {
  namespace: 'kube-system',
  name: 'dns',
  replicas: 6,
  minAvailable: 5,
  priorityClassName: 'system-cluster-critical',
};

/** The tiers in the order of the drain plan. The verification at the end uses this order. */
export const tiers: readonly Tier[] = [
  {
    title: 'priority up to 1000',
    entry: { podPriority: 1_000, podType: 'Default' },
    workloads: [batch, web],
  },
  {
    title: 'app=postgres, priority up to 5000',
    entry: { podSelector: { matchLabels: { app: 'postgres' } }, podPriority: 5_000, podType: 'Default' },
    workloads: [postgres],
  },
  {
    title: 'priority up to 5000',
    entry: { podPriority: 5_000, podType: 'Default' },
    workloads: [api],
  },
  {
    title: 'priority up to 15000',
    entry: { podPriority: 15_000, podType: 'Default' },
    workloads: [payments],
  },
  {
    title: 'system-cluster-critical',
    // Not in the YAML, because every drain plan is completed with this entry.
    entry: { podPriority: 2_000_000_000, podType: 'Default' },
    workloads: [dns],
  },
];

/** The last tier, which is not in the YAML either, contains the pods of the DaemonSet. */
export const tierCount = tiers.length + 1;

export const workloads: readonly BudgetedWorkload[] = tiers.flatMap((tier) => tier.workloads);

const priorities = { batch: -1_000, standard: 5_000, important: 15_000 } as const;

const maintenance: NodeMaintenance = {
  apiVersion: NODE_MAINTENANCE.apiVersion,
  kind: NODE_MAINTENANCE.kind,
  metadata: { name: maintenanceName },
  spec: {
    nodeSelector: {
      nodeSelectorTerms: [
        { matchExpressions: [{ key: rackLabel.name, operator: 'In', values: [rackLabel.value] }] },
      ],
    },
    stage: 'Drain',
    reason: 'New firmware for rack 7',
    drainPlan: tiers.slice(0, -1).map(({ entry }) => entry),
  },
};

/** Returns how many pods of a workload run on the nodes under maintenance. */
function leavingPods({ replicas }: Workload): number {
  return (replicas / nodeCount) * maintained.length;
}

export function leavingPodsOf(tier: Tier): number {
  return sum(tier.workloads.map(leavingPods));
}

/** Number of evacuated pods without those of the DaemonSet. */
export const allLeavingPods = sum(tiers.map(leavingPodsOf));
export const allReplicas = sum(workloads.map(({ replicas }) => replicas));

/** Returns the YAML of all workloads. */
export function workloadsYaml(): string {
  return yamlOf([
    namespace('shop'),
    ...Object.entries(priorities).map(([name, value]) => priorityClass(name, value)),
    ...workloads.flatMap((workload) => [
      deployment(workload, { topologySpreadConstraints: [evenly(workload)] }),
      budget(workload, { minAvailable: workload.minAvailable }),
    ]),
    agents(),
  ]);
}

export function maintenanceYaml(): string {
  return yamlOf([maintenance]);
}

/** Spreads pods evenly. Cordoned nodes must not count, because they have no pods and would block every replacement. */
function evenly(workload: Workload): object {
  return {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'DoNotSchedule',
    nodeTaintsPolicy: 'Honor',
    labelSelector: podsOf(workload),
  };
}

/** Returns one line per workload with its name, budget, priority class and tier. */
export function workloadLines(): string[] {
  const rows = tiers.flatMap(({ workloads: ofTier }, index) =>
    ofTier.map((workload) => [
      `${workload.namespace}/${workload.name}`,
      `${workload.replicas} pods`,
      `at least ${workload.minAvailable} available`,
      workload.priorityClassName ?? 'no priority class',
      `tier ${index + 1}`,
    ]),
  );
  rows.push([`${daemonSet.namespace}/${daemonSet.name}`, `${nodeCount} pods`, '', 'DaemonSet', 'last']);
  const widths = [0, 1, 2, 3].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
