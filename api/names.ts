/**
 * Names that users, other controllers and stored objects rely on: changing one breaks them. No imports, so
 * that workflow code may use it.
 */

export const NODE_MAINTENANCE = {
  group: 'nodemaintenance.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeMaintenance',
  plural: 'nodemaintenances',
} as const;

export const EVACUATION = {
  group: 'evacuation.coordination.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'evacuation.coordination.k8s.io/v1alpha1',
  kind: 'Evacuation',
  plural: 'evacuations',
} as const;

export const MAINTENANCE_WINDOW = {
  group: 'nodemaintenance.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'MaintenanceWindow',
  plural: 'maintenancewindows',
} as const;

export const NODE_BUDGET = {
  group: 'nodemaintenance.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeBudget',
  plural: 'nodebudgets',
} as const;

/** The only name that a NodeBudget may have. */
export const NODE_BUDGET_NAME = 'cluster';

/** On a MaintenanceWindow: its Schedule is deleted before it goes, and the turns that it began are over. */
export const WINDOW_FINALIZER = 'nodemaintenance.k8s.io/schedule';

/** On a MaintenanceWindow: `kubectl maintenance window pause` has suspended it, and resume may take that back. */
export const SUSPENDED_BY_PAUSE_ANNOTATION = 'nodemaintenance.k8s.io/suspended-by-pause';

/** On the NodeMaintenance that is a node's turn in a window: the window, and the revision of its template. */
export const WINDOW_LABEL = 'nodemaintenance.k8s.io/window';
export const REVISION_LABEL = 'nodemaintenance.k8s.io/window-revision';

/** On the same. */
export const TurnAnnotation = {
  /** The node, by name and UID: one that was made anew under its old name has not had its turn. */
  Node: 'nodemaintenance.k8s.io/turn-node',
  NodeUid: 'nodemaintenance.k8s.io/turn-node-uid',
  /** `work.type` of the window when the turn began. */
  Work: 'nodemaintenance.k8s.io/turn-work',
  /** Paused by its window, which resumes it; not by a person. */
  Resting: 'nodemaintenance.k8s.io/turn-resting',
  /** "true": somebody says that the work is done, or need not be done. */
  Advance: 'nodemaintenance.k8s.io/turn-advance',
} as const;

/** Where the Jobs of windows run: a namespace of their own, so that they can use no ServiceAccount but its. */
export const WORK_NAMESPACE = 'node-maintenance-work';

export const NODE_READINESS = {
  group: 'nodemaintenance.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeReadiness',
  plural: 'nodereadinesses',
} as const;

export const NODE_READINESS_POLICY = {
  group: 'nodemaintenance.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeReadinessPolicy',
  plural: 'nodereadinesspolicies',
} as const;

/** On a NodeMaintenance beyond Idle: "to ensure uncordon and removal of Evacuations upon deletion" (KEP-4212). */
export const MAINTENANCE_FINALIZER = 'nodemaintenance.k8s.io/maintenance-completion';

/** On every Evacuation that node maintenance asked for (KEP-4212 › Drain). */
export const INSTIGATOR_FINALIZER = 'evacuation.coordination.k8s.io/instigator_nodemaintenance.k8s.io';

/** Of the evacuator of DaemonSet pods (KEP-4212 › DaemonSet Controller). */
export const DAEMONSET_EVACUATOR = 'daemonset.apps.k8s.io';

/** On every pod of a DaemonSet, given by the policy `daemonset-evacuator.nodemaintenance.k8s.io` or by the worker. */
export const DAEMONSET_EVACUATOR_ANNOTATION = `evacuation.coordination.k8s.io/priority_${DAEMONSET_EVACUATOR}`;
export const DAEMONSET_EVACUATOR_PRIORITY = '10000/controller';

/**
 * The scheduling gate of a DaemonSet pod that must not come back to its node until the maintenance is complete. Set inside the
 * apiserver by the policy `daemonset-gate.nodemaintenance.k8s.io`, lifted by the worker.
 */
export const MAINTENANCE_GATE = 'nodemaintenance.k8s.io/maintenance';

/**
 * On a Node that somebody uncordoned: who it was, by user and field manager. Written inside the apiserver by the policy
 * `uncordoned-by.nodemaintenance.k8s.io`, because an uncordon leaves no trace in managedFields.
 */
export const UNCORDONED_BY_ANNOTATION = 'nodemaintenance.k8s.io/uncordoned-by';

/**
 * On a NodeMaintenance: who changed its spec last. Written inside the apiserver by the policy `ordered-by.nodemaintenance.k8s.io`,
 * and by the worker for those who give orders through Temporal.
 */
export const ORDERED_BY_ANNOTATION = 'nodemaintenance.k8s.io/ordered-by';

/** On a pod that was released from its ReplicaSet: from which, so that it can be given back (domain/release.ts). */
export const RELEASED_ANNOTATION = 'nodemaintenance.k8s.io/released-from';

/** KEP-4212 sets 30 minutes, so that an evacuator has time "to recover from a disruption". Seconds. */
export const DEFAULT_PROGRESS_DEADLINE_SECONDS = 1800;

/** Server-side apply owner of what this project writes. */
export const FIELD_MANAGER = 'node-maintenance';

/** Server-side apply owner of the maintenance conditions of a Node: what it no longer applies goes. */
export const NODE_CONDITIONS_MANAGER = 'node-maintenance-conditions';

/**
 * "A readiness taint will be used to track the overall readiness of a node" (Node Readiness Gates > Design Details). On new nodes by
 * the policy `readiness-taint.nodemaintenance.k8s.io`, inside the apiserver; otherwise put and taken away by the worker.
 */
export const READINESS_TAINT = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' } as const;

/** The condition of a Node that says the same, for autoscalers and people. */
export const READINESS_CONDITION = 'readiness.k8s.io/GatesReady';

/** Server-side apply owner of that condition. */
export const READINESS_CONDITION_MANAGER = 'node-readiness-condition';

/** Begins the server-side apply owners of gates that policies write; the policy's name follows. */
export const READINESS_POLICY_MANAGER = 'node-readiness-policy/';

/** So many gates may a node have, and so many a policy. */
export const MAX_READINESS_GATES = 32;

/** Where the worker, its ServiceAccount and its leader election Leases live. */
export const SYSTEM_NAMESPACE = 'node-maintenance';

/** Where the maintenance Lease of each node lives, named as the node (KEP-1411 > Proposal). */
export const NODE_LEASE_NAMESPACE = 'kube-node-maintenance';

/** Where the kubelet of each node says by a Lease, named as the node, that it lives. */
export const KUBELET_LEASE_NAMESPACE = 'kube-node-lease';

/**
 * Who holds the Leases of nodes under maintenance: all workers of an installation, which has one namespace, as one, so that
 * overlapping maintenances share them.
 */
export function leaseHolderOf(namespace: string): string {
  return `nodemaintenance.k8s.io/${namespace}`;
}

/** The user name of the worker's ServiceAccount in this namespace. */
export function workerUser(namespace: string): string {
  return `system:serviceaccount:${namespace}:node-maintenance-worker`;
}
export const WORKER_SERVICE = 'node-maintenance-worker';

/** Processes of ours, as their identity Leases and the label on these name them. */
export const Component = {
  /** With its control loops and its admission server. */
  Worker: 'node-maintenance-worker',
  /** Of `--admission-only`. */
  Admission: 'node-maintenance-admission',
} as const;
export type Component = (typeof Component)[keyof typeof Component];

/** Labels of an identity Lease (KEP-1965 > Proposal). */
export const COMPONENT_LABEL = 'k8s.io/component';
export const HOSTNAME_LABEL = 'kubernetes.io/hostname';

/** Annotations of an identity Lease. */
export const IdentityAnnotation = {
  /** Only if the label cannot hold it whole. */
  Hostname: 'nodemaintenance.k8s.io/hostname',
  Version: 'nodemaintenance.k8s.io/version',
  /** By which Temporal knows the worker, as a poller of this task queue in this namespace: `<pid>@<hostname>`. */
  TemporalIdentity: 'nodemaintenance.k8s.io/temporal-identity',
  TemporalNamespace: 'nodemaintenance.k8s.io/temporal-namespace',
  TaskQueue: 'nodemaintenance.k8s.io/task-queue',
} as const;

/** On whose behalf maintenances are started from Temporal: no account, only a name to give rights to. */
export const TEMPORAL_USER = 'nodemaintenance.k8s.io:temporal';

/** On a NodeMaintenance that was started from Temporal: who started it, in the words of their client. */
export const STARTED_BY = 'nodemaintenance.k8s.io/started-by';

export const TASK_QUEUE = 'node-maintenance';

/** Beside all other work: a receiver that keeps senders waiting keeps nobody else. */
export const NOTICE_TASK_QUEUE = 'node-maintenance-notices';

/** Temporal's workflow id of the NodeMaintenance called `name`. */
export function workflowIdOf(name: string): string {
  return `node-maintenance-${name}`;
}

/** Temporal's workflow id of what sends a notice. */
export function noticeWorkflowIdOf(id: string): string {
  return `notify-${id}`;
}

/** Temporal's workflow id of a window's runs; a Schedule appends the time. Also the id of its Schedule. */
export function windowWorkflowIdOf(name: string): string {
  return `maintenance-window-${name}`;
}
