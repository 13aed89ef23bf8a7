import type { KubeObject } from '../../api/core.ts';
import type { Operator } from './operator.ts';

interface NodeMaintenancePlan extends KubeObject {
  spec: {
    nodes: string[];
    reason: string;
    cordon: { enabled: boolean };
    drain: {
      enabled: boolean;
      options: {
        maxParallel: number;
        ignoreDaemonSets: boolean;
        deleteEmptyDirData: boolean;
        force: boolean;
        respectPodDisruptionBudgets: boolean;
      };
    };
  };
  status?: { nodes?: { name: string; readyForMaintenance?: boolean }[] };
}

/** github.com/Nils-Svensson/node-maintenance-orchestrator: a NodeMaintenancePlan has several nodes. */
export const nodeMaintenanceOrchestrator: Operator<NodeMaintenancePlan> = {
  name: 'node-maintenance-orchestrator',
  resource: {
    group: 'maintenance.nmoo.io',
    version: 'v1alpha1',
    plural: 'nodemaintenanceplans',
    kind: 'NodeMaintenancePlan',
    namespaced: false,
  },
  changes: [
    'no leader election, which it only supports in a cluster',
    'no webhook and no metrics, both off by default',
    'maxParallel is the number of nodes (by default it drains one after the other)',
    'a node that two plans name belongs to the first one',
  ],
  prepare: async ({ healthPort }) => [
    `--health-probe-bind-address=127.0.0.1:${healthPort}`,
    '--metrics-secure=false',
  ],
  objectsOf: ({ maintenances }, prefix) =>
    maintenances.map((nodes, index) => ({
      metadata: { name: `${prefix}-${index + 1}` },
      spec: {
        nodes: [...nodes],
        reason: 'benchmark',
        cordon: { enabled: true },
        drain: {
          enabled: true,
          options: {
            maxParallel: nodes.length,
            ignoreDaemonSets: true,
            deleteEmptyDirData: true,
            force: true,
            respectPodDisruptionBudgets: true,
          },
        },
      },
    })),
  isDone(objects, nodes) {
    const statuses = objects.flatMap(({ status }) => status?.nodes ?? []);
    const done = new Set(
      statuses.flatMap(({ name, readyForMaintenance }) => (readyForMaintenance === true ? [name] : [])),
    );
    return nodes.every((node) => done.has(node));
  },
};
