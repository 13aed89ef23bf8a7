/**
 * Names that users, other controllers and stored objects depend on. Changing one breaks them. This file has no imports, so that workflow code
 * can use it.
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

export const NODE_DISRUPTION_BUDGET = {
  group: 'nodemaintenance.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'NodeDisruptionBudget',
  plural: 'nodedisruptionbudgets',
} as const;

/** The NodeDisruptionBudget that the worker creates, and that has the reservations of all windows. Others limit only. */
export const NODE_DISRUPTION_BUDGET_NAME = 'cluster';

/** Finalizer of a MaintenanceWindow: before the object is deleted, its Schedule is deleted and the maintenances in progress are ended. */
export const WINDOW_FINALIZER = 'nodemaintenance.k8s.io/schedule';

/**
 * Annotations of a MaintenanceWindow by which users override its spec, which a manifest in git may own (ADR 54). Unlike the requests to an open
 * window, they last until they are removed.
 */
export const WindowOverrideAnnotation = {
  /** The window is paused: it does not open, and starts no more nodes while it is open. The value is the reason. */
  Paused: 'nodemaintenance.k8s.io/paused',
  /** Local dates on which the window does not open, separated by commas, in addition to `.spec.schedule.exceptions`. */
  SkippedDates: 'nodemaintenance.k8s.io/skipped-dates',
} as const;

/**
 * Field manager of these annotations. Flux removes what managers have written whose names begin with `kubectl`, unless a manifest contains
 * it (fluxcd/pkg, ssa/patch.go).
 */
export const WINDOW_OVERRIDE_MANAGER = 'maintenance-window-override';

/** Maximum number of dates in the annotation: the cost of a policy in the apiserver is limited. */
export const MAX_SKIPPED_DATES = 100;

/** Label of every object of deploy/: the release of its manifest. Processes decide by it whether they work with the installation. */
export const VERSION_LABEL = 'app.kubernetes.io/version';

/** Labels of a NodeMaintenance that belongs to a window: the window, and the revision of its template. */
export const WINDOW_LABEL = 'nodemaintenance.k8s.io/window';
export const REVISION_LABEL = 'nodemaintenance.k8s.io/window-revision';

/** Annotations of a NodeMaintenance that belongs to a window. */
export const WindowAnnotation = {
  /** Name and UID of the node. A node that is recreated under the same name is maintained again. */
  Node: 'nodemaintenance.k8s.io/node',
  NodeUid: 'nodemaintenance.k8s.io/node-uid',
  /** `work.type` of the window when the maintenance was created. */
  WorkType: 'nodemaintenance.k8s.io/work-type',
  /** Boot ID of the node when the maintenance was created, if the work is a reboot: another boot ID shows that the work is done. */
  BootId: 'nodemaintenance.k8s.io/boot-id',
  /** The window, and not a user, has paused the maintenance, and resumes it. */
  PausedByWindow: 'nodemaintenance.k8s.io/paused-by-window',
  /** "true": a user has declared the work done or unnecessary. */
  WorkDone: 'nodemaintenance.k8s.io/work-done',
} as const;

/**
 * Annotations of a MaintenanceWindow by which users ask the open window for something. The value is `.status.active.runId`, so that a request
 * never applies to another opening; an approval of some nodes is `<runId>:<node>,<node>`. The controller removes them.
 */
export const WindowRequestAnnotation = {
  Approve: 'nodemaintenance.k8s.io/approve',
  Resume: 'nodemaintenance.k8s.io/resume',
  Cancel: 'nodemaintenance.k8s.io/cancel',
} as const;
export type WindowRequestAnnotation = (typeof WindowRequestAnnotation)[keyof typeof WindowRequestAnnotation];

/** Maximum number of nodes that are approved by name in one opening. */
export const MAX_APPROVED_NODES = 5000;

/** Namespace of the Jobs of windows. It is separate, so that these Jobs can use only its own ServiceAccounts. */
export const WORK_NAMESPACE = 'node-maintenance-work';
/** The ServiceAccount of the Jobs there, which has no permission. */
export const WORK_SERVICE_ACCOUNT = 'node-maintenance-work';

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

/** Finalizer of a NodeMaintenance beyond Idle: "to ensure uncordon and removal of Evacuations upon deletion" (KEP-4212). */
export const MAINTENANCE_FINALIZER = 'nodemaintenance.k8s.io/maintenance-completion';

/**
 * Label of a NodeMaintenance that is complete, with the value "true". The apiserver does not evaluate these in its policies about pods and nodes: it
 * would do so for each of them, and they are kept for as long as users like.
 */
export const COMPLETED_LABEL = 'nodemaintenance.k8s.io/completed';

/** Label of a NodeReadiness whose Node exists, with the value "true". The apiserver evaluates only the others when a Node is created. */
export const NODE_EXISTS_LABEL = 'nodemaintenance.k8s.io/node-exists';

/** Finalizer of every Evacuation that node maintenance requests (KEP-4212 › Drain). */
export const INSTIGATOR_FINALIZER = 'evacuation.coordination.k8s.io/instigator_nodemaintenance.k8s.io';

/** Class of the evacuator of DaemonSet pods (KEP-4212 › DaemonSet Controller). */
export const DAEMONSET_EVACUATOR = 'daemonset.apps.k8s.io';

/** Class of the evacuator of Deployment pods (KEP-4212 › Drain). */
export const DEPLOYMENT_EVACUATOR = 'deployment.apps.k8s.io';

/** Class of the evacuator of StatefulSet pods. Only their owner registers it: the annotation consents to disruptions that a budget never allows. */
export const STATEFULSET_EVACUATOR = 'statefulset.apps.k8s.io';

/** Class of the evacuator of static pods: the node agent, which does what KEP-4212 asks of the kubelet (KEP-4212 › kubelet: Static Pods). */
export const STATIC_POD_EVACUATOR = 'kubelet.k8s.io';

/**
 * Label of the Evacuation of a static pod: the name of the node, whose agent watches these Evacuations alone. Absent where the name of the node
 * is longer than a label.
 */
export const EVACUATION_NODE_LABEL = 'nodemaintenance.k8s.io/node';

/**
 * Annotation of a static pod of the control plane, in its manifest: with the value "true" a drain stops this pod, too. Without it the pod keeps
 * running, because a cluster with one control plane node cannot bring it back.
 */
export const EVACUATE_CONTROL_PLANE_ANNOTATION = 'nodemaintenance.k8s.io/evacuate-control-plane';

/** Namespace of the identity Leases of the node agents. Each has the name of its node, as in `kube-node-lease`. */
export const AGENT_LEASE_NAMESPACE = 'kube-node-maintenance-agent';

/** The ServiceAccount of the node agents, in the namespace of the installation. Their tokens are bound to their nodes. */
export const AGENT_SERVICE_ACCOUNT = 'node-maintenance-agent';

/** Returns the user name of the node agents of the installation in the namespace. */
export function agentUser(namespace: string): string {
  return `system:serviceaccount:${namespace}:${AGENT_SERVICE_ACCOUNT}`;
}

/** Key of a user's `extra` in which the apiserver names the node to which a token is bound. */
export const NODE_NAME_EXTRA = 'authentication.kubernetes.io/node-name';

/** Annotations of a Node about reboots. */
export const RebootAnnotation = {
  /** The node needs a reboot, which the next window with `work.type: Reboot` performs. The value is the reason. Written by the agent and by users. */
  Required: 'nodemaintenance.k8s.io/reboot-required',
  /**
   * The boot ID that the agent of the node is to end with a reboot. The worker writes it when the node is drained. Another boot ID fulfils the request,
   * so that no node is rebooted twice for it.
   */
  Requested: 'nodemaintenance.k8s.io/reboot-requested',
  /**
   * The boot ID that the agent is about to end. The agent writes it before it reboots the node, only if the request still exists. From then on the
   * request is not withdrawn, so that no node is uncordoned that is about to reboot.
   */
  Started: 'nodemaintenance.k8s.io/reboot-started',
} as const;

/** Default of `spec.work.reboot.timeoutSeconds` of a window. */
export const DEFAULT_REBOOT_TIMEOUT_SECONDS = 1800;

/** Maximum number of nodes that the status of a window names as waiting for a reboot. */
export const MAX_NAMED_REBOOTS = 20;

/** Field manager of `RebootAnnotation.Required` where the agent has written it. The agent leaves a value of any other manager as it is. */
export const REBOOT_REQUIRED_MANAGER = 'node-maintenance-agent-reboot';

/** Prefix of the name of the NodeMaintenance that the agent of a node creates when the node shuts down; the name of the node follows. */
export const SHUTDOWN_MAINTENANCE_PREFIX = 'shutdown-';

/** Annotation of that NodeMaintenance: the boot ID that ends with the shutdown. It is completed when the node is Ready with another one. */
export const SHUTDOWN_BOOT_ID_ANNOTATION = 'nodemaintenance.k8s.io/shutdown-boot-id';

/** Annotation of every DaemonSet pod, added by the policy `daemonset-evacuator.nodemaintenance.k8s.io` or by the worker. */
export const DAEMONSET_EVACUATOR_ANNOTATION = `evacuation.coordination.k8s.io/priority_${DAEMONSET_EVACUATOR}`;
export const DAEMONSET_EVACUATOR_PRIORITY = '10000/controller';

/**
 * Scheduling gate of a DaemonSet pod that must not return to its node until the maintenance is complete. The policy
 * `daemonset-gate.nodemaintenance.k8s.io` adds it in the apiserver; the worker removes it.
 */
export const MAINTENANCE_GATE = 'nodemaintenance.k8s.io/maintenance';

/**
 * Annotation of a Node: the user and field manager of the last uncordon. The policy `uncordoned-by.nodemaintenance.k8s.io` writes it in the
 * apiserver, because an uncordon removes its owner from managedFields.
 */
export const UNCORDONED_BY_ANNOTATION = 'nodemaintenance.k8s.io/uncordoned-by';

/**
 * Annotations of a Node, with value `"true"`, that keep Cluster Autoscaler and Karpenter from removing it. The worker sets them while a
 * maintenance holds the node.
 */
export const AUTOSCALER_ANNOTATIONS: readonly string[] = [
  'cluster-autoscaler.kubernetes.io/scale-down-disabled',
  'karpenter.sh/do-not-disrupt',
];

/**
 * Annotation of a NodeMaintenance: who changed its spec last. The policy `requested-by.nodemaintenance.k8s.io` writes it in the apiserver; the
 * worker writes it for requests through Temporal.
 */
export const REQUESTED_BY_ANNOTATION = 'nodemaintenance.k8s.io/requested-by';

/**
 * Annotation of a NodeMaintenance and of a NodeReadinessPolicy: the user whose permission decides which nodes it may change (ADR 27). The
 * policies `requester.nodemaintenance.k8s.io` write and protect it in the apiserver.
 */
export const REQUESTER_ANNOTATION = 'nodemaintenance.k8s.io/requester';

/**
 * Annotation of a NodeMaintenance: when it was completed. Backups keep it and often not the status, without which a completed maintenance could
 * not be distinguished from one that is to uncordon its nodes.
 */
export const COMPLETED_ANNOTATION = 'nodemaintenance.k8s.io/completed';

/**
 * Annotation of a pod: whom a drain deadline names in its notifications, such as `team-shop@example.com`. Anybody who may write the pod may
 * write it.
 */
export const OWNER_ANNOTATION = 'nodemaintenance.k8s.io/owner';

/** Annotation of a pod that was released from its ReplicaSet: the ReplicaSet, so that it can adopt the pod again (domain/evacuation/podRelease.ts). */
export const RELEASED_ANNOTATION = 'nodemaintenance.k8s.io/released-from';

/** KEP-4212 sets 30 minutes, so that an evacuator has time "to recover from a disruption". */
export const DEFAULT_PROGRESS_DEADLINE_SECONDS = 1800;

/** Extension to KEP-4212: an instigator may not let a pod wait longer than a day for each evacuator. */
export const MAX_PROGRESS_DEADLINE_SECONDS = 86_400;

/** Extension to KEP-4212: maximum number of evacuators of a pod, as in its successor (KEP-4563). */
export const MAX_EVACUATORS = 10;

/** Default time within which an evacuator must respond, unless its class is known. Longer than it takes to reschedule its pod. */
export const DEFAULT_EVACUATOR_RESPONSE_SECONDS = 300;

/** Field manager of the worker's writes. */
export const FIELD_MANAGER = 'node-maintenance';

/** Field manager of the maintenance conditions of a Node. A condition that it no longer applies is removed. */
export const NODE_CONDITIONS_MANAGER = 'node-maintenance-conditions';

/**
 * "A readiness taint will be used to track the overall readiness of a node" (Node Readiness Gates > Design Details). The policy
 * `readiness-taint.nodemaintenance.k8s.io` adds it to new nodes in the apiserver; otherwise the worker adds and removes it.
 */
export const READINESS_TAINT = { key: 'readiness.k8s.io/gates', effect: 'NoSchedule' } as const;

/** Node condition with the same meaning as the taint, for autoscalers and users. */
export const READINESS_CONDITION = 'readiness.k8s.io/GatesReady';

/** Field manager of that condition. */
export const READINESS_CONDITION_MANAGER = 'node-readiness-condition';

/** Verb for `nodereadinesses`: permits to gate the nodes of these names without the permission to delete them (ADR 28). */
export const GATE_VERB = 'gate';

/** Prefix of the field managers of gates that policies write. The name of the policy follows. */
export const READINESS_POLICY_MANAGER = 'node-readiness-policy/';

/** Maximum number of gates of a node, and of a policy. */
export const MAX_READINESS_GATES = 32;

/** Default namespace of an installation: of its processes, their ServiceAccounts and their leader election Leases. */
export const SYSTEM_NAMESPACE = 'node-maintenance';

/** Namespace of the maintenance Leases. Each has the name of its node (KEP-1411 > Proposal). */
export const NODE_LEASE_NAMESPACE = 'kube-node-maintenance';

/** Namespace of the heartbeat Leases of the kubelets. Each has the name of its node. */
export const KUBELET_LEASE_NAMESPACE = 'kube-node-lease';

/**
 * Returns the holder identity of maintenance Leases. All workers of an installation, which has one namespace, are one holder, so that overlapping
 * maintenances share the Leases.
 */
export function leaseHolderOf(namespace: string): string {
  return `nodemaintenance.k8s.io/${namespace}`;
}

/** Returns the user name of the worker's ServiceAccount in the namespace. */
export function workerUser(namespace: string): string {
  return `system:serviceaccount:${namespace}:node-maintenance-worker`;
}

/** Service of the admission server, in the namespace of the installation. */
export const ADMISSION_SERVICE = 'node-maintenance-admission';

/** Name of both webhook configurations. */
export const WEBHOOK_CONFIGURATION = 'nodemaintenance.k8s.io';

/**
 * Annotation of both webhook configurations: the hosts, separated by commas, at which the admission server may register itself by URL. The
 * policy `webhook-registrations.nodemaintenance.k8s.io` reads it; without it only the Service is allowed.
 */
export const WEBHOOK_HOSTS_ANNOTATION = 'nodemaintenance.k8s.io/webhook-hosts';

/** Names of the processes of this project in identity Leases and their label. */
export const Component = {
  /** A process with the controllers, and possibly the admission server (`--components`). */
  Worker: 'node-maintenance-worker',
  /** A process that only serves admission. */
  Admission: 'node-maintenance-admission',
} as const;
export type Component = (typeof Component)[keyof typeof Component];

/** Names of the Leases of leader election, in the namespace of the installation. */
export const ElectionLease = {
  /** Held by the worker that runs the control loops. */
  Controllers: 'node-maintenance-controllers',
  /** Held by the admission server that registers webhooks and renews their certificates. */
  Admission: 'node-maintenance-admission',
} as const;
/** Value of the label `k8s.io/component` of the identity Lease of a node agent. */
export const AGENT_COMPONENT = 'node-maintenance-agent';

/** Labels of an identity Lease (KEP-1965 > Proposal). */
export const COMPONENT_LABEL = 'k8s.io/component';
export const HOSTNAME_LABEL = 'kubernetes.io/hostname';

/** Annotations of an identity Lease. */
export const IdentityAnnotation = {
  /** Set only if the hostname is too long for the label. */
  Hostname: 'nodemaintenance.k8s.io/hostname',
  Version: 'nodemaintenance.k8s.io/version',
  /** Identity of the worker in Temporal, where it polls this task queue in this namespace: `<pid>@<hostname>_<start>`. */
  TemporalIdentity: 'nodemaintenance.k8s.io/temporal-identity',
  TemporalNamespace: 'nodemaintenance.k8s.io/temporal-namespace',
  TaskQueue: 'nodemaintenance.k8s.io/task-queue',
  /** `annotated` or `automatic`, the setting --deployment-registration of the worker. */
  DeploymentRegistration: 'nodemaintenance.k8s.io/deployment-registration',
  /** Absent where Evacuations are used. */
  EvictionApi: 'nodemaintenance.k8s.io/eviction-api',
  /** Interval in which the process renews the Lease. */
  RenewIntervalSeconds: 'nodemaintenance.k8s.io/renew-interval-seconds',
  /** Number of manifests that a node agent holds. Missing: none. */
  HeldStaticPods: 'nodemaintenance.k8s.io/held-static-pods',
  /** Capabilities of a node agent: each `AgentCapability`, separated by commas. Missing: none. */
  Capabilities: 'nodemaintenance.k8s.io/capabilities',
} as const;

export const AgentCapability = {
  /** It reboots its node: it has a reboot command. */
  Reboot: 'reboot',
  /** It stops static pods and starts them: it has found their folder, and can move manifests to its hold directory. */
  StaticPods: 'static-pods',
} as const;
export type AgentCapability = (typeof AgentCapability)[keyof typeof AgentCapability];

/** User name for requests through Temporal. It has no account; RBAC grants permissions to the name. */
export const TEMPORAL_USER = 'nodemaintenance.k8s.io:temporal';

/** Annotation of a NodeMaintenance that was started from Temporal: the identity of the Temporal client. */
export const STARTED_BY = 'nodemaintenance.k8s.io/started-by';

/**
 * Kinds of the group lifecycle.k8s.io, alpha in Kubernetes 1.37 (KEP-4563). An EvictionRequest asks for the eviction of a pod; an Eviction is the
 * eviction of one pod for all who request it. Another kind named Eviction, of policy/v1, is the body of a request to evict a pod at once.
 */
export const EVICTION_REQUEST = {
  group: 'lifecycle.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'lifecycle.k8s.io/v1alpha1',
  kind: 'EvictionRequest',
  plural: 'evictionrequests',
} as const;

export const LIFECYCLE_EVICTION = {
  group: 'lifecycle.k8s.io',
  version: 'v1alpha1',
  apiVersion: 'lifecycle.k8s.io/v1alpha1',
  kind: 'Eviction',
  plural: 'evictions',
} as const;

/** `.spec.requester` of the EvictionRequests of node maintenance. The apiserver rejects names of *.k8s.io and *.kubernetes.io. */
export const MAINTENANCE_REQUESTER = 'node-maintenance.dev/nodemaintenance';

/** The responder that evicts pods through the eviction API when no other one has moved them, and its priority (KEP-4563). */
export const IMPERATIVE_RESPONDER = 'imperative-eviction.k8s.io/evictor';
export const IMPERATIVE_RESPONDER_PRIORITY = 100;

/** Names under which the evacuators of this project respond to Evictions, of pods whose `.spec.evictionResponders` name them. */
export const DEPLOYMENT_RESPONDER = 'node-maintenance.dev/deployment';
export const DAEMONSET_RESPONDER = 'node-maintenance.dev/daemonset';

/** "The managing controller of the pod should set the value of this field to 10000" (lifecycle/v1alpha1 > TargetResponder). */
export const CONTROLLER_RESPONDER_PRIORITY = 10_000;

/**
 * Annotation of an Evacuation that the imperative responder has created, for a pod that has evacuators: `<name>/<uid>` of the Eviction. It is deleted
 * when the Eviction is cancelled.
 */
export const EVICTION_ANNOTATION = 'nodemaintenance.k8s.io/eviction';

/** Maximum number of responders in the spec of a pod, without the imperative one. */
export const MAX_POD_RESPONDERS = 10;

/** Maximum number of requesters in the status of an Eviction. */
export const MAX_REQUESTERS = 100;

/** Maximum length of the message of a responder. */
export const MAX_RESPONDER_MESSAGE_LENGTH = 4000;

/** A responder that has not reported for this time is interrupted. */
export const RESPONDER_HEARTBEAT_DEADLINE_SECONDS = 1200;

/** "Responders should avoid heartbeats more frequent than 20 seconds" (lifecycle/v1alpha1 > ResponderStatus). */
export const MIN_RESPONDER_HEARTBEAT_SECONDS = 20;

/** The apiserver accepts times of a responder only within this distance from its own clock. */
export const RESPONDER_CLOCK_SKEW_SECONDS = 30;

/** Value of the label of an Eviction whose key is the name of a requester or responder. */
export const EvictionRole = {
  Requester: 'requester',
  Responder: 'responder',
  RequesterResponder: 'requester-responder',
} as const;
export type EvictionRole = (typeof EvictionRole)[keyof typeof EvictionRole];

/** Types of the conditions of an EvictionRequest and of an Eviction. Of an Eviction, neither is reverted once it is True. */
export const EvictionCondition = {
  /** No responder processes the eviction any more, and the pod was not evicted. */
  Failed: 'Failed',
  /** The pod was deleted, or has terminated. */
  TargetEvicted: 'TargetEvicted',
} as const;
export type EvictionCondition = (typeof EvictionCondition)[keyof typeof EvictionCondition];

/** Reasons of these conditions. Each is for status True of the named condition unless it says otherwise. */
export const EvictionReason = {
  /** Both conditions, False: the eviction is in progress. */
  AwaitingEviction: 'AwaitingEviction',
  /** Failed: the pod cannot be evicted in this way, for example because it is part of a group. */
  EvictionInvalid: 'EvictionInvalid',
  /** Failed: nobody requests the eviction any more. */
  CanceledDueToNoRequesters: 'CanceledDueToNoRequesters',
  /** Failed, False: the pod was evicted. */
  Succeeded: 'Succeeded',
  /** Failed: no responder has evicted the pod. */
  NoFurtherResponder: 'NoFurtherResponder',
  /** TargetEvicted: the pod was deleted. */
  PodDeleted: 'PodDeleted',
  /** TargetEvicted: the pod has terminated. */
  PodTerminal: 'PodTerminal',
  /** TargetEvicted, False: the eviction has failed. */
  EvictionFailed: 'EvictionFailed',
} as const;
export type EvictionReason = (typeof EvictionReason)[keyof typeof EvictionReason];

/** The names of an installation in Temporal, where other clusters may share the namespace. */
export interface TemporalNames {
  /** Task queue of the workers. Also the id of the workflow with which the cluster claims these names. */
  readonly taskQueue: string;
  /** Task queue of the long-running activities. It is separate, so that they take no slot of the short ones. */
  readonly longRunningTaskQueue: string;
  /** Task queue of notifications. It is separate, so that a slow endpoint delays no other work. */
  readonly notificationTaskQueue: string;
  /** Returns the workflow id of the NodeMaintenance. */
  readonly maintenanceId: (name: string) => string;
  /** Returns the workflow id of the MaintenanceWindow, to which a Schedule appends the time. The Schedule has the same id. */
  readonly windowId: (name: string) => string;
  /** Returns the workflow id of the notification. */
  readonly notificationId: (id: string) => string;
}

const maintenancePrefix = 'node-maintenance-';
const windowPrefix = 'maintenance-window-';
const notificationPrefix = 'notify-';

/** Returns the names for the value of `--cluster`; those without a prefix if it is undefined. */
export function temporalNames(cluster: string | undefined): TemporalNames {
  const prefix = cluster === undefined ? '' : `${cluster}.`;
  const suffix = cluster === undefined ? '' : `.${cluster}`;
  const taskQueue = `node-maintenance${suffix}`;
  return {
    taskQueue,
    longRunningTaskQueue: longRunningTaskQueueOf(taskQueue),
    notificationTaskQueue: notificationTaskQueueOf(taskQueue),
    maintenanceId: (name) => `${prefix}${maintenancePrefix}${name}`,
    windowId: (name) => `${prefix}${windowPrefix}${name}`,
    notificationId: (id) => `${prefix}${notificationPrefix}${id}`,
  };
}

/** Returns the object that a run works for, by its workflow id; undefined for a workflow of another kind or cluster. */
export function subjectOf(
  names: TemporalNames,
  workflowId: string,
): { maintenance: string } | { window: string } | undefined {
  const after = (prefix: string) => (workflowId.startsWith(prefix) ? workflowId.slice(prefix.length) : '');
  const maintenance = after(names.maintenanceId(''));
  if (maintenance !== '') return { maintenance };
  // A Schedule appends the time of the opening.
  const window = after(names.windowId('')).replace(/-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, '');
  return window === '' ? undefined : { window };
}

/** Reports whether a workflow is one of the window's. One of another value of `--cluster` is not. */
export function isOfWindow({ windowId }: TemporalNames, window: string, workflowId: string): boolean {
  const own = windowId(window);
  return workflowId === own || workflowId.startsWith(`${own}-`);
}

/** Returns the field that names an object in log lines; none for other kinds. */
export function logFieldOf({ kind, name }: { kind: string; name: string }): Record<string, string> {
  if (kind === NODE_MAINTENANCE.kind) return { maintenance: name };
  return kind === MAINTENANCE_WINDOW.kind ? { window: name } : {};
}

/** Returns the task queue of the long-running activities of the workflows that run on a task queue. */
export function longRunningTaskQueueOf(taskQueue: string): string {
  return derivedTaskQueue(taskQueue, 'long-running');
}

/** Returns the task queue of the notifications of the workers of a task queue. */
export function notificationTaskQueueOf(taskQueue: string): string {
  return derivedTaskQueue(taskQueue, 'notifications');
}

function derivedTaskQueue(taskQueue: string, purpose: string): string {
  const [name, ...cluster] = taskQueue.split('.');
  return [`${name}-${purpose}`, ...cluster].join('.');
}

/** Returns the cluster in a task queue of `temporalNames`, which is also the id of the cluster's claim. */
export function clusterInTaskQueue(taskQueue: string): string | undefined {
  const [, cluster] = taskQueue.split('.', 2);
  return cluster;
}

/** Returns the cluster in a workflow id of `temporalNames`. Object names contain dots, too, but never come first. */
export function clusterInWorkflowId(workflowId: string): string | undefined {
  const [first = ''] = workflowId.split('.', 1);
  return isReservedPrefix(first) || first === workflowId ? undefined : first;
}

/** Reports whether a text is no cluster name, because a workflow id without a cluster could begin with it. */
export function isReservedPrefix(text: string): boolean {
  return [maintenancePrefix, windowPrefix, notificationPrefix].some((prefix) => text.startsWith(prefix));
}

/** A cluster name: a DNS label, so that it contains no dot. */
export const CLUSTER_NAME_PATTERN = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** Memo of a workflow, and of the action of a Schedule: the UID of the cluster to which it belongs. */
export const CLUSTER_UID_MEMO = 'clusterUid';

/** Memo of the workflow by which a cluster claims its names: the name of the cluster. */
export const CLUSTER_NAME_MEMO = 'cluster';

/** Type of the failure of a task whose payloads cannot be decrypted. */
export const DECRYPTION_ERROR = 'DecryptionError';

/** A cluster, as other clusters in the same Temporal namespace know it. */
export interface ClusterScope {
  /** Value of `--cluster`, or the beginning of the UID. */
  readonly name: string;
  /** UID of the namespace `kube-system`. */
  readonly uid: string;
  readonly names: TemporalNames;
}

/** The name of a cluster-scoped object, a node or a pod: a DNS subdomain of at most MAX_OBJECT_NAME_LENGTH characters. */
export const OBJECT_NAME_PATTERN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
export const MAX_OBJECT_NAME_LENGTH = 253;
/** Ends the message about a name that does not match. */
export const EXPECTED_OBJECT_NAME =
  'expected lower case letters, digits, "-" and ".", starting and ending with a letter or digit, at most 253 characters';
