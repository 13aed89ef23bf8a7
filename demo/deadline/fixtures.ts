import { NODE_MAINTENANCE, OWNER_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { budget, deployment, namespace, statefulSet, type Workload, yamlOf } from '../manifests.ts';

/** Two applications whose budgets never allow a disruption. One has a volume. */

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

/** Grace periods of the pods. The volume of the ledger is detached between the deletion of the shop and the deadline. */
export const shopGraceSeconds = 15;
export const ledgerGraceSeconds = 25;

/** Name of the PersistentVolume and of its claim. */
const ledgerVolume = 'ledger-data';
const sizeAndClass = { accessModes: ['ReadWriteOnce'], storageClassName: '' };

const volume = {
  apiVersion: 'v1',
  kind: 'PersistentVolume',
  metadata: { name: ledgerVolume },
  spec: {
    ...sizeAndClass,
    capacity: { storage: '1Gi' },
    csi: { driver: 'csi.example.com', volumeHandle: ledgerVolume },
    claimRef: { namespace: ledger.namespace, name: ledgerVolume },
  },
};

const claim = {
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name: ledgerVolume, namespace: ledger.namespace },
  spec: { ...sizeAndClass, resources: { requests: { storage: '1Gi' } } },
};

export function applicationsYaml(): string {
  return yamlOf([
    ...workloads.map((workload) => namespace(workload.namespace)),
    volume,
    claim,
    deployment(shop, { terminationGracePeriodSeconds: shopGraceSeconds }),
    statefulSet(ledger, {
      terminationGracePeriodSeconds: ledgerGraceSeconds,
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: ledgerVolume } }],
    }),
    ...workloads.map((workload) => budget(workload, { minAvailable: workload.replicas })),
  ]);
}

export function applicationLines(): string[] {
  return [
    `web/shop     Deployment, 2 replicas, budget minAvailable 2, grace period ${shopGraceSeconds} s; owner team-shop@example.com`,
    `bank/ledger  StatefulSet, 1 replica, budget minAvailable 1, grace period ${ledgerGraceSeconds} s, volume ${ledgerVolume}; owner team-ledger@example.com`,
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
        { before: '40s', action: 'Notify' },
      ],
    },
  },
};

export function maintenanceYaml(): string {
  return yamlOf([maintenance]);
}
