import type { KubeObject } from '../../api/core.ts';
import { EVACUATION, NODE_MAINTENANCE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Resource } from '../../kube/resources.ts';
import {
  agents,
  budget,
  deployment,
  type Manifest,
  namespace,
  service,
  statefulSet,
  type Workload,
  yamlOf,
} from '../manifests.ts';
import { evacuatorClass, newDisk, oldDisk, records } from './migration.ts';

/** Four applications that each leave a node in a way of their own. */

export const node = 'node-1';
/** These join when all pods run, so that each begins on the node that is maintained. */
export const spareNodes: readonly string[] = ['node-2', 'node-3'];

/** One replica that has to be available at any time: moved by the evacuator of Deployments. */
export const shop: Workload = {
  namespace: 'web',
  name: 'shop',
  replicas: 1,
  annotations: { [annotationOf('deployment.apps.k8s.io')]: '10000/controller' },
};

/** Has data that must be elsewhere before it goes: an evacuator of its own team sees to that. */
export const ledger: Workload = {
  namespace: 'bank',
  name: 'ledger',
  replicas: 1,
  annotations: { [annotationOf(evacuatorClass)]: '9000/data-owner' },
};
export const ledgerPod = `${ledger.name}-0`;

/** Somebody gave it a budget that lets nothing go. */
export const queue: Workload = { namespace: 'jobs', name: 'queue', replicas: 3 };
export const queueRelaxed = queue.replicas - 1;

/** Of a DaemonSet: its pods tolerate every cordon. */
export const nodeAgent = { namespace: 'kube-system', name: 'node-agent', exitsSlowly: true } as const;

export const workloads: readonly Workload[] = [shop, ledger, queue];
/** In the order in which they are shown. */
export const tenants: readonly { name: string; namespace: string }[] = [...workloads, nodeAgent];
export const podsThatMove = workloads.reduce((total, { replicas }) => total + replicas, 0);

function annotationOf(of: string): string {
  return `evacuation.coordination.k8s.io/priority_${of}`;
}

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

export const configMaps: Resource<ConfigMap> = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};

export const maintenanceName = 'firmware';
/** How Events speak of it. */
export const account = 'node maintenance firmware (firmware 2.4)';

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
  },
};

export function maintenanceYaml(): string {
  return yamlOf([maintenance]);
}

/** The YAML of everything that runs on the cluster before the maintenance. */
export function tenantsYaml(): string {
  return yamlOf([
    ...workloads.map((workload) => namespace(workload.namespace)),
    deployment(shop, {}),
    service(shop),
    budget(shop, { minAvailable: 1 }),
    disk(
      oldDisk,
      Array.from({ length: records }, (_, index) => index + 1),
    ),
    disk(newDisk, []),
    statefulSet(ledger, {}),
    deployment(queue, {}),
    budget(queue, { minAvailable: queue.replicas }),
    agents(nodeAgent),
  ]);
}

function disk(name: string, entries: readonly number[]): Manifest {
  const data = entries.map((number) => [`record-${number}`, `booking ${number}`]);
  return {
    apiVersion: configMaps.version,
    kind: configMaps.kind,
    metadata: { name, namespace: ledger.namespace },
    data: Object.fromEntries(data) as Record<string, string>,
  };
}

export function tenantLines(): string[] {
  return [
    'web/shop                Deployment, 1 replica, budget minAvailable 1; its evacuator: deployment.apps.k8s.io',
    `bank/ledger             StatefulSet, 1 replica, ${records} records on its disk; its evacuator: ${evacuatorClass}`,
    `jobs/queue              Deployment, 3 replicas, budget minAvailable 3; no evacuator`,
    'kube-system/node-agent  DaemonSet; its evacuator: daemonset.apps.k8s.io',
  ];
}

/** What the data migration runs as. */
export const evacuatorAccount = { namespace: ledger.namespace, name: 'ledger-evacuator' } as const;

/** Its rights: those of every evacuator (evacuator-kit/rbac.yaml), in one namespace, and its own work's. */
export function evacuatorYaml(): string {
  const rules = [
    { apiGroups: [EVACUATION.group], resources: ['evacuations'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: [EVACUATION.group], resources: ['evacuations/status'], verbs: ['patch'] },
    { apiGroups: [''], resources: ['pods'], verbs: ['get', 'list', 'watch'] },
    {
      apiGroups: ['coordination.k8s.io'],
      resources: ['leases'],
      verbs: ['get', 'list', 'watch', 'create', 'patch'],
    },
    { apiGroups: [''], resources: ['configmaps'], resourceNames: [oldDisk], verbs: ['get'] },
    { apiGroups: [''], resources: ['configmaps'], resourceNames: [newDisk], verbs: ['get', 'patch'] },
  ];
  const group = 'rbac.authorization.k8s.io';
  const { name } = evacuatorAccount;
  const rbac = { apiVersion: `${group}/v1`, metadata: evacuatorAccount };
  return yamlOf([
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: evacuatorAccount },
    { ...rbac, kind: 'Role', rules },
    {
      ...rbac,
      kind: 'RoleBinding',
      roleRef: { apiGroup: group, kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', ...evacuatorAccount }],
    },
  ]);
}
