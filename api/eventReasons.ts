/** Documents an Event reason for docs/reference/events-and-conditions.md. */
interface EventReasonFacts {
  readonly type: 'Normal' | 'Warning' | 'Normal or Warning';
  /** Kinds of the objects that the Event regards. */
  readonly on: readonly string[];
  readonly meaning: string;
}

/** The reasons of all Events that this project records. The EventRecorder accepts no other reason. */
export const eventReasons = {
  AdmissionWarning: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'A NodeMaintenance that was started by a workflow received an admission warning.',
  },
  AdvanceRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'The annotation work-done was removed because the node of the window cannot be marked as done.',
  },
  ApprovalNeeded: {
    type: 'Normal',
    on: ['MaintenanceWindow'],
    meaning: 'The open window waits for approval before it starts nodes.',
  },
  CapacityDeadlock: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'Pods are Pending because of cordoned nodes, and the budget that blocks the drains waits for these pods; the message names the maintenance whose completion resolves it.',
  },
  CapacityUnavailable: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'Pods of the maintenance fit on no other node, or wait because free capacity is allocated to another maintenance first; the condition CapacityAvailable has the current pods.',
  },
  Completed: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning:
      'The maintenance is complete: its nodes are back in service, except those that stay cordoned for others.',
  },
  CordonRace: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'Another client repeatedly uncordons a node of the maintenance.',
  },
  CordonRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'The apiserver rejects the cordon of a node, for example because of a policy. It is requested again every 10 s.',
  },
  CordonRestored: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'Another client uncordoned a node of the maintenance, and the node was cordoned again.',
  },
  DeletedAtDeadline: {
    type: 'Warning',
    on: ['NodeMaintenance', 'Pod'],
    meaning: 'Pods are deleted, with a grace period, so that they are gone at the deadline of the drain.',
  },
  DeletedByEvacuator: {
    type: 'Normal',
    on: ['Pod'],
    meaning:
      'The evacuator of StatefulSets deleted the pod, as an annotation by its owner permits: its PodDisruptionBudget can never allow a disruption.',
  },
  DeletionRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'The apiserver or an admission webhook rejects the deletion of a DaemonSet pod, or of any pod at the drain deadline.',
  },
  DisruptionBudget: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning:
      'A PodDisruptionBudget does not allow the eviction of a pod now; the eviction waits until it does.',
  },
  DisruptionBudgetNeverAllows: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'A PodDisruptionBudget can never allow the eviction of a pod; add a replica or relax the budget.',
  },
  DrainDeadline: {
    type: 'Normal',
    on: ['NodeMaintenance', 'Pod'],
    meaning: 'Pods are left some time before the deadline of the drain.',
  },
  DrainDeadlineExceeded: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'Pods are left at the deadline of the drain.',
  },
  DrainPlansConflict: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'Drain plans of several maintenances select or order the same pods differently; the oldest takes precedence.',
  },
  Drained: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'All pods that can be evacuated have left the nodes.',
  },
  EvacuationDeleted: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'An Evacuation was deleted, but finalizers of others keep it; another Evacuation of the pod replaces it.',
  },
  EvacuationRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'The apiserver or an admission webhook rejects the Evacuation of a pod.',
  },
  EvacuatorActivated: {
    type: 'Normal',
    on: ['Pod', 'Evacuation'],
    meaning: 'An evacuator became the active evacuator of the pod.',
  },
  EvacuatorCompleted: {
    type: 'Normal',
    on: ['Pod', 'Evacuation'],
    meaning:
      'The active evacuator reported completion, but the pod still exists; the next evacuator follows.',
  },
  EvacuatorNotApplicable: {
    type: 'Warning',
    on: ['Pod', 'Evacuation'],
    meaning:
      'A built-in evacuator cannot serve the pod, for example that of DaemonSets a pod that its DaemonSet has orphaned; the next evacuator follows at once.',
  },
  EvacuatorNotResponding: {
    type: 'Warning',
    on: ['Pod', 'Evacuation', 'NodeMaintenance'],
    meaning:
      'No evacuator responded for a class that is not known to have one; the next evacuator follows. On a NodeMaintenance: an evacuator, or the node agent of a static pod, has not responded for 10 s.',
  },
  EvacuatorRegistered: {
    type: 'Normal',
    on: ['Pod', 'Evacuation'],
    meaning:
      'The evacuator of Deployments was registered for a pod without evacuators (`--deployment-registration automatic`).',
  },
  Evicted: {
    type: 'Normal',
    on: ['Pod'],
    meaning:
      'The pod, which has evacuators, was evicted through the eviction API. Without evacuators its condition `DisruptionTarget` says so.',
  },
  EvictionControllerYielded: {
    type: 'Warning',
    on: ['Eviction'],
    meaning:
      'Another controller acts on EvictionRequests, or evicts pods as the imperative responder; node maintenance leaves that to it.',
  },
  EvictionFailed: {
    type: 'Warning',
    on: ['Pod', 'Eviction', 'NodeMaintenance'],
    meaning:
      'No responder of an Eviction of lifecycle.k8s.io has evicted the pod. A drain requests its eviction again.',
  },
  EvictionInvalid: {
    type: 'Warning',
    on: ['EvictionRequest'],
    meaning: 'The pod of an EvictionRequest does not exist, or is part of a group.',
  },
  EvictionRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'The apiserver or an admission webhook rejects the eviction of a pod.',
  },
  EvictionRequestDeleted: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'The EvictionRequest of a pod was deleted, but finalizers of others keep it; another request of the pod replaces it.',
  },
  EvictionRequestRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'The apiserver or an admission webhook rejects the EvictionRequest of a pod.',
  },
  EvictionRequestUnanswered: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'No controller has answered the EvictionRequest of a pod in time, or the apiserver does not serve lifecycle.k8s.io with `--eviction-api lifecycle`.',
  },
  EvictionRequestsNotServed: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'No controller serves EvictionRequests, or the apiserver does not serve the API; the condition EvictionRequestsServed has the same message.',
  },
  FastForwarded: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'Another maintenance of the node evacuates pods before the drain plan of this one targets them.',
  },
  JobCreationFailed: {
    type: 'Warning',
    on: ['MaintenanceWindow'],
    meaning: 'The Job of a node could not be created; the creation is retried.',
  },
  JobsNotEnabled: {
    type: 'Warning',
    on: ['MaintenanceWindow'],
    meaning:
      'The window runs a Job, and starts no node until Jobs of windows are enabled in the installation.',
  },
  MaintenanceRejected: {
    type: 'Warning',
    on: ['MaintenanceWindow'],
    meaning: 'The apiserver or an admission webhook rejects the NodeMaintenance of a node of the window.',
  },
  MalformedEvacuator: {
    type: 'Warning',
    on: ['Pod', 'Evacuation'],
    meaning: 'An evacuator annotation of the pod is invalid and was ignored.',
  },
  MultipleDisruptionBudgets: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'Several PodDisruptionBudgets select a pod, which the eviction API does not support.',
  },
  NodeFailed: {
    type: 'Warning',
    on: ['NodeMaintenance', 'MaintenanceWindow'],
    meaning: 'The maintenance of a node in a window failed.',
  },
  NodeKeptCordoned: {
    type: 'Normal or Warning',
    on: ['NodeMaintenance'],
    meaning:
      'A node stays cordoned: another client has cordoned it, before or after the maintenance did, or its window closed or was deleted before the work was done.',
  },
  NodeLeaseAbandoned: {
    type: 'Warning',
    on: ['Node'],
    meaning: 'The maintenance Lease of the node is held but no longer renewed.',
  },
  NodeLeaseLost: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'Another client took over the maintenance Lease of a node.',
  },
  NodeNotAuthorized: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'The user who requested the maintenance may not delete a node that it selects. A node that was not cordoned yet is skipped; on one that was, nothing more is started.',
  },
  NodeSkipped: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning:
      'A node was never cordoned by the maintenance, for example because it waited for the maintenance Lease.',
  },
  NodeStarted: {
    type: 'Normal',
    on: ['MaintenanceWindow'],
    meaning: 'The window started the maintenance of a node.',
  },
  NodeStillHeld: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'A node stays cordoned because another NodeMaintenance still holds it.',
  },
  NodesCordoned: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'Nodes were cordoned for the maintenance.',
  },
  Orphaned: {
    type: 'Normal',
    on: ['Pod'],
    meaning: 'A released pod is evacuated because its ReplicaSet no longer exists.',
  },
  PodRecreated: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'A controller recreated its pod on the node right after the previous one was deleted.',
  },
  ProgressDeadlineExceeded: {
    type: 'Warning',
    on: ['Pod', 'Evacuation'],
    meaning: 'The active evacuator did not report progress before its deadline; the next evacuator follows.',
  },
  ReadinessTaintAdded: {
    type: 'Warning',
    on: ['Node'],
    meaning: 'The readiness taint was added to the node because a blocking readiness gate is not ready.',
  },
  ReadinessTaintRemoved: {
    type: 'Normal',
    on: ['Node'],
    meaning: 'The readiness taint was removed from the node because all blocking readiness gates are ready.',
  },
  RebootFailed: {
    type: 'Warning',
    on: ['Node'],
    meaning: 'The reboot command of the node agent failed; the agent retries it.',
  },
  RebootRequested: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'The drained node of a window is to be rebooted by its agent.',
  },
  RebootStarted: {
    type: 'Normal',
    on: ['Node'],
    meaning: 'The node agent runs its reboot command.',
  },
  ReleasedFromReplicaSet: {
    type: 'Normal',
    on: ['Pod'],
    meaning:
      'The pod was released from its ReplicaSet, which creates a replacement while the pod keeps serving.',
  },
  RequestRejected: {
    type: 'Warning',
    on: ['MaintenanceWindow'],
    meaning:
      'An annotation approve, resume or cancel was removed because the open window cannot do what it asks, or because it was meant for another opening.',
  },
  ResponderInterrupted: {
    type: 'Warning',
    on: ['Pod'],
    meaning: 'The active responder of an Eviction of lifecycle.k8s.io has not reported before its deadline.',
  },
  ReturnedToReplicaSet: {
    type: 'Normal',
    on: ['Pod'],
    meaning: 'The released pod was returned to its ReplicaSet because the evacuation was cancelled.',
  },
  ScheduleRepaired: {
    type: 'Warning',
    on: ['MaintenanceWindow'],
    meaning: 'The Schedule of the window was edited in Temporal and has been reset.',
  },
  ShutdownDelayTooShort: {
    type: 'Warning',
    on: ['Node'],
    meaning:
      'The logind of the node delays a shutdown for less time than its agent and its kubelet need; the message has the setting.',
  },
  ShutdownDelayed: {
    type: 'Normal',
    on: ['Node'],
    meaning: 'The node is shutting down, and waits until its NodeMaintenance has drained it.',
  },
  ShutdownNotDrained: {
    type: 'Warning',
    on: ['Node'],
    meaning: 'The node shuts down although pods remain; the message says why.',
  },
  StageStarted: {
    type: 'Normal',
    on: ['NodeMaintenance', 'Node'],
    meaning: 'A stage of the maintenance started.',
  },
  StaticPodHeld: {
    type: 'Normal',
    on: ['Node'],
    meaning: 'The node agent stopped a static pod: it moved the manifest into its hold directory.',
  },
  StaticPodNotReturned: {
    type: 'Warning',
    on: ['Node'],
    meaning:
      'The node agent cannot put the manifest of a static pod back, because the folder of the kubelet has a file of its name that is no manifest.',
  },
  StaticPodReturned: {
    type: 'Normal or Warning',
    on: ['Node'],
    meaning:
      'The node agent put the manifest of a static pod back, because the drain ended or, with a warning, because no apiserver answered.',
  },
  StaticPodSetAside: {
    type: 'Warning',
    on: ['Node'],
    meaning: 'A held manifest is not put back, because the folder of the kubelet got a newer one.',
  },
  StaticPodsRemain: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'Static pods keep running; the message says why and how to stop them.',
  },
  StuckTerminating: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'A pod still exists after its grace period.',
  },
  TemporalUnavailable: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'The maintenance waits, because Temporal is unavailable; recorded once for each outage.',
  },
  TierDrained: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'A tier of the drain plan is drained on all nodes, and the next tier follows.',
  },
  UncordonRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'The apiserver rejects that a node is uncordoned, or its Lease released, for example because of a policy. It is requested again every 10 s.',
  },
  WaitingForNodeLease: {
    type: 'Normal',
    on: ['NodeMaintenance'],
    meaning: 'The maintenance waits for the maintenance Leases of nodes that other clients hold.',
  },
  WindowClosed: {
    type: 'Normal',
    on: ['MaintenanceWindow'],
    meaning: 'The window closed.',
  },
  WindowOpened: {
    type: 'Normal',
    on: ['MaintenanceWindow'],
    meaning: 'The window opened.',
  },
  WindowResumed: {
    type: 'Warning',
    on: ['MaintenanceWindow'],
    meaning: 'The workflow of the open window ended without closing it, and a new run continues.',
  },
  WithdrawalRejected: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning:
      'The apiserver rejects that evacuations are withdrawn, for example because of a policy for one namespace. The maintenance continues, or completes, without that.',
  },
  WorkflowRestarted: {
    type: 'Warning',
    on: ['NodeMaintenance'],
    meaning: 'The workflow of the maintenance ended before it was complete, and a new run continues.',
  },
  WorkflowStalled: {
    type: 'Warning',
    on: ['NodeMaintenance', 'MaintenanceWindow'],
    meaning: 'The workflow of the object makes no progress; the condition Stalled has the same message.',
  },
} as const satisfies Record<string, EventReasonFacts>;

/** The reason of an Event. */
export type EventReason = keyof typeof eventReasons;
