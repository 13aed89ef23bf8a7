import { NODE_MAINTENANCE } from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { completeDrainPlan, entryKey } from '../../domain/drainPlan.ts';
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

/** What runs on the demo's cluster, and the maintenance of a part of it. */

export const nodeCount = 6;
export const maintained: readonly string[] = ['node-1', 'node-2'];
export const rackLabel = { name: 'rack', value: '7' } as const;
export const maintenanceName = 'rack-7';

/** A Deployment with a PodDisruptionBudget. `replicas` is a multiple of the number of nodes: as many run on each. */
export interface BudgetedWorkload extends Workload {
  minAvailable: number;
}

/** Pods that leave together, because one entry of the drain plan selects them first. */
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

/** In the order in which their pods have to leave. The plan below says so; the proof at the end compares with this. */
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
    // Not in the YAML: one of the entries that every plan is completed with.
    entry: { podPriority: 2_000_000_000, podType: 'Default' },
    workloads: [dns],
  },
];

/** After all of them, and without a line in the YAML either: the pods of the DaemonSet. */
export const daemonTier: Pick<Tier, 'entry'> = {
  entry: { podPriority: 1_000_000_000, podType: 'DaemonSet' },
};

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

const completePlan = completeDrainPlan(maintenance.spec.drainPlan).map(entryKey);

/** The index in the executed drain plan at which a tier is evacuated. */
export function positionOf({ entry }: Pick<Tier, 'entry'>): number {
  return completePlan.indexOf(entryKey(entry));
}

/** How many pods of a workload have to leave the maintained nodes. */
function leavingPods({ replicas }: Workload): number {
  return (replicas / nodeCount) * maintained.length;
}

export function leavingPodsOf(tier: Tier): number {
  return sum(tier.workloads.map(leavingPods));
}

/** Those of the DaemonSet aside. */
export const allLeavingPods = sum(tiers.map(leavingPodsOf));
export const allReplicas = sum(workloads.map(({ replicas }) => replicas));

/** The YAML of everything that runs on the cluster before the maintenance. */
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

/** Strictly even, but not counting cordoned nodes: those have no pods and would hold up every replacement. */
function evenly(workload: Workload): object {
  return {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'DoNotSchedule',
    nodeTaintsPolicy: 'Honor',
    labelSelector: podsOf(workload),
  };
}

/** One line for each workload: what it is called, how it is guarded, and when it will leave. */
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
