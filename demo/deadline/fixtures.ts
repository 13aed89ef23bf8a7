import { NODE_MAINTENANCE, OWNER_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { budget, deployment, namespace, statefulSet, type Workload, yamlOf } from '../manifests.ts';

/** Two applications whose budgets never allow a disruption. */

export const node = 'node-1';
/** These nodes join when all pods run, so that all pods start on the node under maintenance. */
export const spareNodes: readonly string[] = ['node-2', 'node-3'];

export const shop: Workload = {
  namespace: 'web',
  name: 'shop',
  replicas: 2,
  annotations: { [OWNER_ANNOTATION]: 'team-shop@example.com' },
};

/** Its pod needs longer to terminate. */
export const ledger: Workload = {
  namespace: 'bank',
  name: 'ledger',
  replicas: 1,
  annotations: { [OWNER_ANNOTATION]: 'team-ledger@example.com' },
};

export const workloads: readonly Workload[] = [shop, ledger];
export const podsThatMove = workloads.reduce((total, { replicas }) => total + replicas, 0);

export const shopGraceSeconds = 5;
export const ledgerGraceSeconds = 20;

export function applicationsYaml(): string {
  return yamlOf([
    ...workloads.map((workload) => namespace(workload.namespace)),
    deployment(shop, { terminationGracePeriodSeconds: shopGraceSeconds }),
    statefulSet(ledger, { terminationGracePeriodSeconds: ledgerGraceSeconds }),
    ...workloads.map((workload) => budget(workload, { minAvailable: workload.replicas })),
  ]);
}

export function applicationLines(): string[] {
  return [
    `web/shop     Deployment, 2 replicas, budget minAvailable 2, grace period ${shopGraceSeconds} s; owner team-shop@example.com`,
    `bank/ledger  StatefulSet, 1 replica, budget minAvailable 1, grace period ${ledgerGraceSeconds} s; owner team-ledger@example.com`,
  ];
}

export const maintenanceName = 'firmware';

/** Short, so that the scenario is. The worker is killed between the two notifications. */
const maintenance: NodeMaintenance = {
  apiVersion: NODE_MAINTENANCE.apiVersion,
  kind: NODE_MAINTENANCE.kind,
  metadata: { name: maintenanceName },
  spec: {
    nodeSelector: {
      nodeSelectorTerms: [
        { matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }] },
      ],
    },
    stage: 'Drain',
    reason: 'firmware 2.4',
    drainDeadline: {
      after: '75s',
      onDeadline: 'Delete',
      steps: [
        { before: '65s', action: 'Notify' },
        { before: '30s', action: 'Notify' },
      ],
    },
  },
};

export function maintenanceYaml(): string {
  return yamlOf([maintenance]);
}
