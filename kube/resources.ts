import type {
  DaemonSet,
  Deployment,
  EndpointSlice,
  Job,
  KubeObject,
  Lease,
  Node,
  NodeSelector,
  PersistentVolume,
  PersistentVolumeClaim,
  PodAffinityTerm,
  PodDisruptionBudget,
  Service,
  ReplicaSet,
  ResourceQuantities,
  StatefulSet,
  Toleration,
  TopologySpreadConstraint,
  VolumeAttachment,
} from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type { EvictionRequest, EvictionResponder, LifecycleEviction } from '../api/lifecycle.ts';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import {
  EVACUATION,
  EVICTION_REQUEST,
  LIFECYCLE_EVICTION,
  MAINTENANCE_WINDOW,
  NODE_DISRUPTION_BUDGET,
  NODE_MAINTENANCE,
  NODE_READINESS,
  NODE_READINESS_POLICY,
} from '../api/names.ts';
import type { NodeDisruptionBudget } from '../api/nodeDisruptionBudget.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';

/**
 * The location of a kind in the Kubernetes API. `T` is the shape of its JSON, as far as this project reads it; it exists
 * for the type checker only.
 */
export interface Resource<T extends KubeObject = KubeObject> {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never present: carries the type `T` so that `get(resources.leases, ...)` returns a Lease. */
  readonly object?: T;
}

/** Identifies one object of a known resource; `namespace` is undefined if it is cluster-scoped. */
export interface ObjectKey {
  readonly namespace?: string | undefined;
  readonly name: string;
}

/** A pod as the apiserver returns it. Informers store the smaller `Pod` of api/core.ts: see trimPod. */
export interface RawPod extends KubeObject {
  spec: {
    nodeName?: string;
    priority?: number;
    terminationGracePeriodSeconds?: number;
    schedulingGates?: { name: string }[];
    evictionResponders?: EvictionResponder[];
    schedulingGroup?: object;
    serviceAccountName?: string;
    tolerations?: Toleration[];
    volumes?: PodVolume[];
    affinity?: {
      nodeAffinity?: { requiredDuringSchedulingIgnoredDuringExecution?: NodeSelector };
      podAffinity?: { requiredDuringSchedulingIgnoredDuringExecution?: PodAffinityTerm[] };
      podAntiAffinity?: { requiredDuringSchedulingIgnoredDuringExecution?: PodAffinityTerm[] };
    };
    schedulerName?: string;
    containers?: RawContainer[];
    initContainers?: RawContainer[];
    resources?: { requests?: ResourceQuantities };
    overhead?: ResourceQuantities;
    nodeSelector?: Record<string, string>;
    topologySpreadConstraints?: TopologySpreadConstraint[];
  };
  status?: {
    phase?: string;
    conditions?: { type: string; status: string; lastTransitionTime?: string; message?: string }[];
    containerStatuses?: { containerID?: string; state?: { running?: { startedAt?: string } } }[];
  };
}

/** A volume of a pod. In-tree volumes, which the attach-detach controller attaches without a PersistentVolume, are other fields. */
export interface PodVolume {
  name: string;
  emptyDir?: { medium?: string };
  persistentVolumeClaim?: { claimName: string };
  ephemeral?: object;
}

/** A container of a pod, reduced to what the scheduler reads. */
export interface RawContainer {
  name?: string;
  image?: string;
  resources?: { requests?: ResourceQuantities };
  restartPolicy?: string;
  ports?: { hostPort?: number; protocol?: string; hostIP?: string }[];
}

/** A DaemonSet, Deployment or StatefulSet as the apiserver returns it, reduced to its pod template. */
export interface RawWorkload extends KubeObject {
  spec: {
    template?: { metadata?: { labels?: Record<string, string> }; spec?: { tolerations?: Toleration[] } };
  };
}

export type RawDaemonSet = RawWorkload & {
  spec: Pick<DaemonSet['spec'], 'updateStrategy'>;
  status?: Required<DaemonSet>['status'];
};

export interface ObjectReference {
  apiVersion: string;
  kind: string;
  name: string;
  namespace?: string | undefined;
  uid?: string | undefined;
}

/** A core/v1 Event; times are RFC 3339 strings in whole seconds. */
export interface KubeEvent extends KubeObject {
  involvedObject: ObjectReference;
  related?: ObjectReference;
  type: 'Normal' | 'Warning';
  reason: string;
  message: string;
  count: number;
  firstTimestamp: string;
  lastTimestamp: string;
  /** `host` is the node that the Event is about. */
  source: { component: string; host?: string };
  reportingComponent: string;
  reportingInstance: string;
}

export interface CustomResourceDefinition extends KubeObject {
  spec: { group: string; names: { plural: string; kind: string } };
  status?: { conditions?: { type: string; status: string }[] };
}

const core = (plural: string, kind: string, namespaced: boolean) => ({
  group: '',
  version: 'v1',
  plural,
  kind,
  namespaced,
});

export const resources = {
  nodes: core('nodes', 'Node', false) as Resource<Node>,
  pods: core('pods', 'Pod', true) as Resource<RawPod>,
  namespaces: core('namespaces', 'Namespace', false) as Resource,
  events: core('events', 'Event', true) as Resource<KubeEvent>,
  persistentVolumes: core('persistentvolumes', 'PersistentVolume', false) as Resource<PersistentVolume>,
  persistentVolumeClaims: core(
    'persistentvolumeclaims',
    'PersistentVolumeClaim',
    true,
  ) as Resource<PersistentVolumeClaim>,
  serviceAccounts: core('serviceaccounts', 'ServiceAccount', true) as Resource,
  services: core('services', 'Service', true) as Resource<Service>,
  endpointSlices: {
    group: 'discovery.k8s.io',
    version: 'v1',
    plural: 'endpointslices',
    kind: 'EndpointSlice',
    namespaced: true,
  } as Resource<EndpointSlice>,
  deployments: {
    group: 'apps',
    version: 'v1',
    plural: 'deployments',
    kind: 'Deployment',
    namespaced: true,
  } as Resource<Deployment>,
  replicaSets: {
    group: 'apps',
    version: 'v1',
    plural: 'replicasets',
    kind: 'ReplicaSet',
    namespaced: true,
  } as Resource<ReplicaSet>,
  statefulSets: {
    group: 'apps',
    version: 'v1',
    plural: 'statefulsets',
    kind: 'StatefulSet',
    namespaced: true,
  } as Resource<StatefulSet>,
  podDisruptionBudgets: {
    group: 'policy',
    version: 'v1',
    plural: 'poddisruptionbudgets',
    kind: 'PodDisruptionBudget',
    namespaced: true,
  } as Resource<PodDisruptionBudget>,
  daemonSets: {
    group: 'apps',
    version: 'v1',
    plural: 'daemonsets',
    kind: 'DaemonSet',
    namespaced: true,
  } as Resource<RawDaemonSet>,
  leases: {
    group: 'coordination.k8s.io',
    version: 'v1',
    plural: 'leases',
    kind: 'Lease',
    namespaced: true,
  } as Resource<Lease>,
  nodeMaintenances: { ...resourceOf(NODE_MAINTENANCE), namespaced: false } as Resource<NodeMaintenance>,
  evacuations: { ...resourceOf(EVACUATION), namespaced: true } as Resource<Evacuation>,
  evictionRequests: { ...resourceOf(EVICTION_REQUEST), namespaced: true } as Resource<EvictionRequest>,
  /** Evictions of lifecycle.k8s.io, and not the eviction of a pod by policy/v1. */
  evictions: { ...resourceOf(LIFECYCLE_EVICTION), namespaced: true } as Resource<LifecycleEviction>,
  nodeReadinesses: { ...resourceOf(NODE_READINESS), namespaced: false } as Resource<NodeReadiness>,
  nodeReadinessPolicies: {
    ...resourceOf(NODE_READINESS_POLICY),
    namespaced: false,
  } as Resource<NodeReadinessPolicy>,
  maintenanceWindows: {
    ...resourceOf(MAINTENANCE_WINDOW),
    namespaced: false,
  } as Resource<MaintenanceWindow>,
  nodeDisruptionBudgets: {
    ...resourceOf(NODE_DISRUPTION_BUDGET),
    namespaced: false,
  } as Resource<NodeDisruptionBudget>,
  jobs: { group: 'batch', version: 'v1', plural: 'jobs', kind: 'Job', namespaced: true } as Resource<Job>,
  volumeAttachments: {
    group: 'storage.k8s.io',
    version: 'v1',
    plural: 'volumeattachments',
    kind: 'VolumeAttachment',
    namespaced: false,
  } as Resource<VolumeAttachment>,
  customResourceDefinitions: {
    group: 'apiextensions.k8s.io',
    version: 'v1',
    plural: 'customresourcedefinitions',
    kind: 'CustomResourceDefinition',
    namespaced: false,
  } as Resource<CustomResourceDefinition>,
} as const;

function resourceOf({ group, version, plural, kind }: Omit<Resource, 'namespaced' | 'object'>) {
  return { group, version, plural, kind };
}

/** Returns the resourceVersion as a number. Since Kubernetes 1.35 the versions of one kind are comparable (KEP-5504). */
export function versionOf({ metadata }: KubeObject): bigint {
  return BigInt(metadata.resourceVersion ?? '0');
}

/** Reports whether a resourceVersion is not earlier than another one of the same kind of object. */
export function isAtLeast(version: string | undefined, other: string | undefined): boolean {
  return BigInt(version ?? 0) >= BigInt(other ?? 0);
}

/** Returns the apiVersion of an object: `v1` or `policy/v1`. */
export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** Returns the plural with group, as kubectl writes it: `pods` or `leases.coordination.k8s.io`. */
export function fullNameOf(resource: Resource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}

/** Returns the path of a collection, an object or a subresource. Without a namespace: all namespaces. */
export function pathOf(resource: Resource, key: Partial<ObjectKey> = {}, subresource?: string): string {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${apiVersionOf(resource)}`;
  const segments = [root];
  if (resource.namespaced && key.namespace !== undefined)
    segments.push('namespaces', encodeURIComponent(key.namespace));
  segments.push(resource.plural);
  if (key.name !== undefined) segments.push(encodeURIComponent(key.name));
  if (subresource !== undefined) segments.push(subresource);
  return segments.join('/');
}
