import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { DetailsSnapshot } from '../domain/maintenance/detailsSnapshot.ts';
import type { ReachedTier } from '../domain/maintenance/summary.ts';
import type { CloudEvent } from '../api/notification.ts';
import type { SentSignal, WindowState, WindowStep } from '../domain/windows/windowState.ts';

/** The cluster of a run, as the first activity of the run reports it. */
export interface RunCluster {
  name: string;
  uid: string;
}

/** Identifies a maintenance and a generation. An activity waits until its informer has at least that generation. */
export interface MaintenanceRef {
  name: string;
  uid: string;
  generation: number;
  /** Undefined in a run that has not been admitted yet. */
  clusterUid?: string | undefined;
}

/** The state that a run starts from. It is read from the object, so that a new run continues where a terminated one stopped. */
export interface Admitted {
  name: string;
  uid: string;
  generation: number;
  cluster: RunCluster;
  stage: NodeMaintenanceStage;
  paused: boolean;
  position: number;
  planLength: number;
  nodes: string[];
  /** Heartbeat timeout of the activities that only wait. */
  heartbeatTimeoutSeconds: number;
}

/** The state of the object as an activity has read it: the stage that it requests, or Gone if it does not exist any more. */
export type ObservedStage =
  | { kind: 'StageChanged'; stage: NodeMaintenanceStage; generation: number }
  | { kind: 'Gone' };

/** The object was paused or resumed, so that another activity has to continue. */
export interface PauseChanged {
  kind: 'PauseChanged';
  paused: boolean;
}

/**
 * Active: the activity sends frequent heartbeats, so that another worker soon replaces one that died. It ends with Waiting when nothing has
 * moved for a while. Waiting: it sends few heartbeats, because Temporal bills each, and lasts.
 */
export type Pace = 'Active' | 'Waiting';

export interface Waiting {
  kind: 'Waiting';
}

/** Origin of a request for a stage: a message to the workflow, or a signal that reports that the object has it already. */
export type StageRequest = 'Message' | 'Observation';

/** The names of the selected nodes, and the snapshot for the current details of the run. */
export interface SelectedNodes {
  nodes: string[];
  /** The state of the object, which decides: the workflow may have received another one. */
  observed?: ObservedStage | undefined;
  details?: DetailsSnapshot;
  /** Time until the first step of the escalation before the drain deadline; missing if there is none. */
  escalatesInMs?: number;
}

/** The result of an escalation: the steps that it did, and when it continues. */
export interface EscalationStep {
  /** `.metadata.generation` of the object that was read; missing if it is gone. */
  generation?: number;
  /** The steps that were done and that the history does not have yet: `Notify 2024-04-22T21:40:32Z`. */
  done: string[];
  /** Identifies all steps that were done. */
  recorded?: string[];
  /** Time until the next step is due; missing if none is left. */
  nextInMs?: number;
}

/** The result of a drain activity: the next tier that has pods, Drained, or Waiting. `drained` is missing if the tiers before it had no pods. */
export type DrainStep =
  | ({ kind: 'TierDrained'; position: number; drained?: ReachedTier } & SelectedNodes)
  | ({ kind: 'Drained' } & SelectedNodes)
  | (Waiting & SelectedNodes)
  | PauseChanged
  | ObservedStage;

/** The activity has used its time, and must be called again. */
export interface Unfinished {
  kind: 'Unfinished';
}

/** `type` of every ApplicationFailure that an activity raises. */
export const FailureType = {
  /** The input of the workflow cannot become a maintenance. Final. */
  InvalidInput: 'InvalidInput',
  /** The apiserver forbids the request; the message is the apiserver's. Retried, because permissions can be granted. */
  Forbidden: 'Forbidden',
  /** The apiserver rejects an object as invalid. Final. */
  Invalid: 'Invalid',
  /** The run belongs to another cluster. Retried, because a worker of that cluster can continue it. */
  ForeignCluster: 'ForeignCluster',
  /** Another run has opened the window. Retried until that run ends. */
  Busy: 'Busy',
  /** The apiserver, or a server that it depends on, does not respond. Retried without limit. */
  Unavailable: 'Unavailable',
} as const;
export type FailureType = (typeof FailureType)[keyof typeof FailureType];

/** The facts that a run has before it is admitted. */
export interface AdmitRequest {
  input: unknown;
  workflowId: string;
  /** The cluster whose controller started the run; undefined if the run was started from Temporal. */
  clusterUid?: string | undefined;
}

export interface NodeMaintenanceActivities {
  /** Validates the input, creates the object if the workflow was started from Temporal, and reads its state. */
  admit(request: AdmitRequest): Promise<Admitted>;
  /**
   * Message: writes `.spec.stage`, and fails with InvalidInput if the Temporal user may not maintain the nodes. Observation: writes nothing
   * that the object does not request. Resolves with the stage of the object and its generation, or with Gone.
   */
  requestStage(
    ref: MaintenanceRef,
    to: NodeMaintenanceStage,
    requestedBy: StageRequest,
  ): Promise<ObservedStage>;
  /** Records the pause on the object, where users see it and a new run finds it. */
  recordPause(ref: MaintenanceRef, paused: boolean): Promise<void>;
  /** Adds the finalizer and amends `.status.stageStatuses`, if the object has reached the stage. */
  startStage(ref: MaintenanceRef, stage: NodeMaintenanceStage): Promise<SelectedNodes>;
  /** Keeps every selected node cordoned until the stage changes. In Drain it keeps a paused maintenance up to date until it is resumed. */
  keepCordoned(ref: MaintenanceRef, stage: NodeMaintenanceStage): Promise<ObservedStage | PauseChanged>;
  /** Evacuates the pods that the plan targets at `position`, or where the object is if that is earlier. Resolves when none of them is left. */
  drain(ref: MaintenanceRef, position: number, pace?: Pace): Promise<DrainStep>;
  /** Evacuates pods that appear after the drain, until the stage changes or the object is paused. */
  keepDrained(ref: MaintenanceRef): Promise<ObservedStage | PauseChanged>;
  /** Does the steps before and at the drain deadline that are due, each once. `recorded` identifies the steps that the history has. */
  escalate(ref: MaintenanceRef, recorded?: readonly string[]): Promise<EscalationStep>;
  /** Deletes the Evacuations that no other maintenance needs; Unfinished if there are too many for one call. */
  removeEvacuations(ref: MaintenanceRef): Promise<Unfinished | undefined>;
  /**
   * Uncordons the nodes, unless they were cordoned before or another maintenance holds them, and releases their Leases. Waits while someone
   * else holds the Lease of a node that was cordoned for the maintenance.
   */
  uncordonNodes(ref: MaintenanceRef, pace?: Pace): Promise<Waiting | undefined>;
  /** Removes the finalizer. */
  finish(ref: MaintenanceRef): Promise<void>;
}

/** Identifies a MaintenanceWindow. An object with the same name and another UID is another window. */
export interface WindowRef {
  name: string;
  uid: string;
  /** Undefined in a run that has not opened the window yet. */
  clusterUid?: string | undefined;
}

/** The start of a workflow run that opens a window. Times are RFC 3339. */
export interface WindowStart {
  input: unknown;
  workflowId: string;
  runId: string;
  startedAt: string;
  /** The cluster whose controller, or Schedule, started the run; undefined if the run was started from Temporal. */
  clusterUid?: string | undefined;
  /** Nominal time. Undefined if no Schedule started the run. */
  scheduledAt?: string;
}

/** The requests that an open window has accepted by signals and updates. */
export interface AcceptedRequests {
  approved: boolean;
  approvedNodes: string[];
  paused: boolean;
  cancelled: boolean;
}

/** A request to an open window: the fields that it sets. Plain JSON. */
export type WindowRequest = { [Field in keyof AcceptedRequests]?: AcceptedRequests[Field] | undefined };

export interface OpenedWindow {
  name: string;
  uid: string;
  cluster: RunCluster;
  start: string;
  end: string;
  /** Heartbeat timeout of the rollout. */
  heartbeatTimeoutSeconds: number;
  /** Workflow ids of the NodeMaintenances that an earlier window paused when it ended. */
  pausedByWindow: string[];
  /** The requests that an earlier run had accepted, if it ended without having closed the window. */
  requests?: WindowRequest;
}

/** Everything that an open window is asked to do, apart from its spec. */
export interface WindowRequests extends AcceptedRequests {
  /** RFC 3339. */
  end: string;
  /** The end has been reached according to the workflow's own timer. */
  ended: boolean;
  /** The signals that were sent last. */
  sentSignals?: SentSignal[];
}

export interface MaintenanceWindowActivities {
  /**
   * Validates the input and marks the window as open. If an earlier run of the same workflow id ended without having closed the
   * window, the window stays open until the recorded end. Fails with InvalidInput if the window does not exist, if another run has it
   * open (Busy if a Schedule started this run), or if users who start workflows may not maintain its nodes and the window was not
   * opened by its own Schedule for its own duration.
   */
  openWindow(start: WindowStart): Promise<OpenedWindow>;
  /**
   * Maintains the nodes of the window, until its state differs from `previous`. What the window may do is read from `.status.active`:
   * `requests` only starts the activity again, and says which signals were sent. Fails with InvalidInput if the workflow does not have the
   * window open.
   */
  rollOut(ref: WindowRef, requests: WindowRequests, previous: WindowState | undefined): Promise<WindowStep>;
  /** Records a request. Fails with InvalidInput if users who send messages may not maintain the nodes of the window. */
  authorizeRequest(ref: WindowRef, request: WindowRequest): Promise<void>;
  /** Marks the work on a node as done. Fails with InvalidInput if the window does not maintain this node. */
  advanceNode(ref: WindowRef, node: string): Promise<void>;
  /** Marks the window as closed. Fails with InvalidInput while it is open and nodes are left. */
  closeWindow(ref: WindowRef, runId: string): Promise<void>;
}

/** Input of the workflow that delivers one notification. */
export interface NotificationRequest {
  event: CloudEvent;
  /** The task queue of `deliver`, so that a slow endpoint delays no other activity. */
  taskQueue: string;
  /** The time in which the endpoint must respond. */
  timeoutSeconds: number;
  /** The notification is dropped if it is not delivered within this time. */
  retryUntilSeconds: number;
}

export interface NotificationActivities {
  /** Sends the event to the endpoint. The failure is not retryable if the endpoint would reject the event again. */
  deliver(event: CloudEvent): Promise<void>;
  /** Logs and counts an event that will not be delivered. */
  recordDropped(event: CloudEvent, reason: string): Promise<void>;
}

/** The activities of the worker's two main task queues; `deliver` has a task queue of its own. */
export type Activities = NodeMaintenanceActivities &
  MaintenanceWindowActivities &
  Pick<NotificationActivities, 'recordDropped'>;

/** The activities that run as long as a stage or a window does, on a task queue of their own. */
export const longRunningActivities = [
  'keepCordoned',
  'drain',
  'keepDrained',
  'uncordonNodes',
  'rollOut',
] as const satisfies readonly (keyof Activities)[];
