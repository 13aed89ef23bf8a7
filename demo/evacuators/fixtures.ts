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

/** Four applications that are evacuated in different ways. */

export const node = 'node-1';
/** These nodes join when all pods run, so that all pods start on the node under maintenance. */
export const spareNodes: readonly string[] = ['node-2', 'node-3'];

/** A single replica that must always be available. The Deployment evacuator replaces it. */
export const shop: Workload = {
  namespace: 'web',
  name: 'shop',
  replicas: 1,
  annotations: { [annotationOf('deployment.apps.k8s.io')]: '10000/controller' },
};

/** A pod whose data must be copied before it is evicted. An evacuator of its team copies them. */
export const ledger: Workload = {
  namespace: 'bank',
  name: 'ledger',
  replicas: 1,
  annotations: { [annotationOf(evacuatorClass)]: '9000/data-owner' },
};
export const ledgerPod = `${ledger.name}-0`;

/** An application with a budget that never allows a disruption. */
export const queue: Workload = { namespace: 'jobs', name: 'queue', replicas: 3 };
export const queueRelaxed = queue.replicas - 1;

/** A DaemonSet, whose pods tolerate a cordon. */
export const nodeAgent = { namespace: 'kube-system', name: 'node-agent', exitsSlowly: true } as const;

export const workloads: readonly Workload[] = [shop, ledger, queue];
/** All applications, in the order of the dashboard. */
export const applications: readonly { name: string; namespace: string }[] = [...workloads, nodeAgent];
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
/** The maintenance in Event messages. */
export const instigators = 'node maintenance firmware (firmware 2.4)';

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

/** Returns the YAML of all applications. */
export function applicationsYaml(): string {
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

export function applicationLines(): string[] {
  return [
    'web/shop                Deployment, 1 replica, budget minAvailable 1; its evacuator: deployment.apps.k8s.io',
    `bank/ledger             StatefulSet, 1 replica, ${records} records on its disk; its evacuator: ${evacuatorClass}`,
    `jobs/queue              Deployment, 3 replicas, budget minAvailable 3; no evacuator`,
    'kube-system/node-agent  DaemonSet; its evacuator: daemonset.apps.k8s.io',
  ];
}

/** ServiceAccount of the data migration. */
export const evacuatorAccount = { namespace: ledger.namespace, name: 'ledger-evacuator' } as const;

/** Returns the permissions of every evacuator (evacuator-kit/rbac.yaml) in one namespace, and those of the data migration. */
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
