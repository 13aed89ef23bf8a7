/**
 * The parts of Kubernetes' own objects that this project reads, as they stand in JSON (times are RFC 3339
 * strings). Informers keep just these fields, so that a large cluster fits in a small process.
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

/** Without a key: of every taint; without an effect: of every effect. */
export interface Toleration {
  key?: string;
  operator?: 'Equal' | 'Exists' | 'Lt' | 'Gt';
  value?: string;
  effect?: Taint['effect'];
  tolerationSeconds?: number;
}

/** What a workload's controller makes pods from. */
export interface PodTemplate {
  labels?: Record<string, string>;
  /** Of the readiness taint. */
  tolerations?: Toleration[];
}

export interface Node extends KubeObject {
  spec: { unschedulable?: boolean; taints?: Taint[] };
  /** Of the conditions only those of maintenance and of readiness gates. */
  status?: { conditions?: Condition[] };
}

export interface Pod extends KubeObject {
  spec: {
    nodeName?: string;
    priority?: number;
    /** Absent for 30, the default of Kubernetes. */
    terminationGracePeriodSeconds?: number;
    /** Names. */
    schedulingGates?: string[];
    /** Of a pod with scheduling gates: the node that its DaemonSet made it for. */
    madeForNode?: string;
    /** Of the readiness taint. */
    tolerations?: Toleration[];
  };
  status: { phase?: string; ready: boolean };
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
    /** Pod -> when its disruption was granted: evicted, and not seen to go yet. */
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
  };
  status?: { observedGeneration?: number; replicas?: number; updatedReplicas?: number };
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

export interface Service extends KubeObject {
  spec: { type?: string; selector?: Record<string, string> };
}

export interface EndpointSlice extends KubeObject {
  endpoints?: { conditions?: { ready?: boolean }; targetRef?: { uid?: string } }[] | null;
}
