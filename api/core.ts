/**
 * The fields of Kubernetes objects that this project reads, in their JSON form (times are RFC 3339 strings). Informers keep only these fields,
 * so that a large cluster fits into a small process.
 */

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  generateName?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
}

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

export interface LabelSelectorRequirement {
  key: string;
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
  values?: string[] | undefined;
}

/** meta/v1 LabelSelector: all of matchLabels and matchExpressions must hold; an empty selector matches everything. */
export interface LabelSelector {
  matchLabels?: Record<string, string> | undefined;
  matchExpressions?: LabelSelectorRequirement[] | undefined;
}

export interface NodeSelectorRequirement {
  key: string;
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist' | 'Gt' | 'Lt';
  values?: string[] | undefined;
}

export interface NodeSelectorTerm {
  matchExpressions?: NodeSelectorRequirement[] | undefined;
  matchFields?: NodeSelectorRequirement[] | undefined;
}

/** core/v1 NodeSelector: the terms are ORed; a term's requirements are ANDed; an empty term matches no node. */
export interface NodeSelector {
  nodeSelectorTerms: NodeSelectorTerm[];
}

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  observedGeneration?: number;
  lastTransitionTime: string;
  reason: string;
  message: string;
}

export interface Taint {
  key: string;
  value?: string;
  effect: 'NoSchedule' | 'PreferNoSchedule' | 'NoExecute';
  timeAdded?: string;
}

/** A toleration without a key tolerates every taint; without an effect, every effect. */
export interface Toleration {
  key?: string;
  operator?: 'Equal' | 'Exists' | 'Lt' | 'Gt';
  value?: string;
  effect?: Taint['effect'];
  tolerationSeconds?: number;
}

/** A required term of podAffinity or podAntiAffinity. The apiserver has merged matchLabelKeys into its selector. */
export interface PodAffinityTerm {
  labelSelector?: LabelSelector;
  topologyKey: string;
  namespaces?: string[];
  namespaceSelector?: LabelSelector;
}

export interface TopologySpreadConstraint {
  maxSkew: number;
  topologyKey: string;
  whenUnsatisfiable: 'DoNotSchedule' | 'ScheduleAnyway';
  labelSelector?: LabelSelector;
  minDomains?: number;
  nodeAffinityPolicy?: 'Honor' | 'Ignore';
  nodeTaintsPolicy?: 'Honor' | 'Ignore';
  matchLabelKeys?: string[];
}

/** Quantities by resource, as Kubernetes writes them: `{ cpu: '500m', memory: '1Gi' }`. */
export type ResourceQuantities = Record<string, string>;

/** Requirements of a pod that a node must meet for the scheduler. Pods of one workload share one object. */
export interface PodScheduling {
  /** Absent for the default scheduler. */
  schedulerName?: string;
  /** The pod has more rules about nodes than are compared with nodes: they are absent, and its requests are not. */
  hasTooManyRules?: true;
  /** The requests of each container; absent entries are empty. */
  containers?: ResourceQuantities[];
  /** Init containers in order. A sidecar runs beside the containers. */
  initContainers?: { requests: ResourceQuantities; isSidecar: boolean }[];
  /** The requests of the whole pod, which replace those of its containers. */
  podRequests?: ResourceQuantities;
  overhead?: ResourceQuantities;
  hostPorts?: { port: number; protocol: string; ip: string }[];
  nodeSelector?: Record<string, string>;
  nodeAffinity?: NodeSelector;
  podAffinity?: PodAffinityTerm[];
  podAntiAffinity?: PodAffinityTerm[];
  tolerations?: Toleration[];
  /** Only those that must be met. */
  topologySpread?: TopologySpreadConstraint[];
}

/** The pod template of a workload. */
export interface PodTemplate {
  labels?: Record<string, string>;
  /** Only tolerations of the readiness taint. */
  tolerations?: Toleration[];
}

export interface Node extends KubeObject {
  spec: { unschedulable?: boolean; taints?: Taint[] };
  status?: {
    /** Only Ready and the conditions of maintenance and of readiness gates. */
    conditions?: Condition[];
    /** The boot ID is empty or absent until the kubelet has reported it. */
    nodeInfo?: { bootID?: string };
    /** Amount of each resource that pods can use, as Kubernetes writes quantities. */
    allocatable?: ResourceQuantities;
  };
}

export interface Pod extends KubeObject {
  spec: {
    nodeName?: string;
    priority?: number;
    /** Absent for the Kubernetes default of 30. */
    terminationGracePeriodSeconds?: number;
    /** Names of the gates. */
    schedulingGates?: string[];
    /** Node for which its DaemonSet created a pod with scheduling gates. */
    madeForNode?: string;
    /** Only tolerations of the readiness taint. */
    tolerations?: Toleration[];
    /** Only that of the node agent. */
    serviceAccountName?: string;
    /** Absent where nothing asks whether pods fit on other nodes. */
    scheduling?: PodScheduling;
    /** Responders to Evictions of the pod (KEP-4563). Absent if it has none. */
    evictionResponders?: { name: string; priority: number }[];
    /** The pod is part of a group, which Evictions do not support. */
    hasSchedulingGroup?: true;
    /** Names of its PersistentVolumeClaims. Absent like `scheduling`, or if it has none. */
    claims?: string[];
  };
  status: {
    phase?: string;
    ready: boolean;
    /** Hash of the containers of a Ready pod: another one after each start of a container. Absent if the pod reports no containers. */
    containers?: string;
  };
}

export interface DaemonSet extends KubeObject {
  spec: {
    updateStrategy?: {
      type?: 'RollingUpdate' | 'OnDelete';
      rollingUpdate?: { maxUnavailable?: number | string; maxSurge?: number | string };
    };
    template?: PodTemplate;
  };
  status?: {
    observedGeneration?: number;
    desiredNumberScheduled: number;
    currentNumberScheduled: number;
    updatedNumberScheduled?: number;
  };
}

export interface PodDisruptionBudget extends KubeObject {
  spec: {
    selector?: LabelSelector;
    minAvailable?: number | string;
    maxUnavailable?: number | string;
    unhealthyPodEvictionPolicy?: 'IfHealthyBudget' | 'AlwaysAllow';
  };
  status?: {
    observedGeneration?: number;
    disruptionsAllowed: number;
    currentHealthy: number;
    desiredHealthy: number;
    expectedPods: number;
    /** Pod -> when its eviction was granted, for pods that are not yet observed as deleted. */
    disruptedPods?: Record<string, string>;
  };
}

export interface Lease extends KubeObject {
  spec: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export interface Deployment extends KubeObject {
  spec: {
    replicas?: number;
    selector: LabelSelector;
    minReadySeconds?: number;
    strategy?: {
      type?: 'RollingUpdate' | 'Recreate';
      rollingUpdate?: { maxSurge?: number | string; maxUnavailable?: number | string };
    };
    template?: { spec?: { volumes?: { persistentVolumeClaim?: { claimName: string } }[] } };
  };
  status?: { observedGeneration?: number; replicas?: number; updatedReplicas?: number };
}

export interface StatefulSet extends KubeObject {
  spec: { replicas?: number; selector: LabelSelector; minReadySeconds?: number };
}

export interface ReplicaSet extends KubeObject {
  spec: { replicas?: number };
}

export interface Job extends KubeObject {
  spec: {
    activeDeadlineSeconds?: number;
    backoffLimit?: number;
    template: { spec?: { terminationGracePeriodSeconds?: number; [field: string]: unknown } };
  };
  status?: { startTime?: string; conditions?: Condition[] };
}

/** The attachment of a volume to a node. It exists until the volume is detached. */
export interface VolumeAttachment extends KubeObject {
  spec: {
    nodeName: string;
    /** Without a PersistentVolume, the volume is part of the spec of a pod. */
    source: { persistentVolumeName?: string };
  };
}

export interface PersistentVolumeClaim extends KubeObject {
  /** `volumeName` is absent until the claim is bound. */
  spec: { volumeName?: string };
}

export interface PersistentVolume extends KubeObject {
  spec: {
    claimRef?: { namespace?: string; name?: string };
    nodeAffinity?: { required?: NodeSelector };
  };
}

export interface Service extends KubeObject {
  spec: { type?: string; selector?: Record<string, string> };
}

export interface EndpointSlice extends KubeObject {
  endpoints?: { conditions?: { ready?: boolean }; targetRef?: { uid?: string } }[] | null;
}
