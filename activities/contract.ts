import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { Glance } from '../domain/glance.ts';
import type { CloudEvent } from '../api/notice.ts';

/** One maintenance as of a generation: an activity first waits until its own view is at least that new. */
export interface MaintenanceRef {
  name: string;
  uid: string;
  generation: number;
}

/** What an admitted maintenance starts from; taken from the object, so that a terminated run goes on where it stood. */
export interface Admitted extends MaintenanceRef {
  stage: NodeMaintenanceStage;
  paused: boolean;
  position: number;
  planLength: number;
  nodes: string[];
}

/** The object asks for another stage than the one that the activity works for, or is gone altogether. */
export type Interrupted =
  | { kind: 'StageChanged'; stage: NodeMaintenanceStage; generation: number }
  | { kind: 'Gone' };

/** The nodes that a maintenance selects, by name, and what the page of its run tells of them. */
export interface SeenNodes {
  nodes: string[];
  glance?: Glance;
}

/** How a turn of the drain ended: at an entry of the plan at which pods are left, or with none left at all. */
export type DrainStep =
  | ({ kind: 'TierDrained'; position: number } & SeenNodes)
  | ({ kind: 'Drained' } & SeenNodes)
  | Interrupted;

/** `type` of every ApplicationFailure that an activity raises. */
export const FailureType = {
  /** The workflow was started with something that cannot become a maintenance; final. */
  InvalidInput: 'InvalidInput',
  /** The apiserver refuses what the worker must do; the message is the apiserver's. Retried: rights can be granted. */
  Forbidden: 'Forbidden',
  /** The apiserver finds an object invalid; final. */
  Invalid: 'Invalid',
  /** Another run has the window open; retried until it has ended. */
  Busy: 'Busy',
  /** The apiserver, or what it needs, does not answer; retried without limit. */
  Unavailable: 'Unavailable',
} as const;
export type FailureType = (typeof FailureType)[keyof typeof FailureType];

export interface NodeMaintenanceActivities {
  /** Validates the input, creates the object when the workflow was started from Temporal, and reads where it stands. */
  admit(request: { input: unknown; workflowId: string }): Promise<Admitted>;
  /**
   * Writes `.spec.stage`; resolves with the generation that has it. Gone when the object is. Fails with InvalidInput when it
   * was ordered by a message, and those who may send messages may not maintain the nodes.
   */
  requestStage(ref: MaintenanceRef, to: NodeMaintenanceStage, orderedBy?: 'Message'): Promise<Interrupted>;
  /** Records the pause on the object, where people see it and a new run finds it. */
  recordPause(ref: MaintenanceRef, paused: boolean): Promise<void>;
  /** Places the finalizer and amends `.status.stageStatuses`. */
  beginStage(ref: MaintenanceRef, stage: NodeMaintenanceStage): Promise<SeenNodes>;
  /**
   * Takes the maintenance Leases of the nodes that nobody else holds, and renews those that are ours. To be called again
   * after so many seconds.
   */
  renewNodeLeases(ref: MaintenanceRef): Promise<{ renewAfterSeconds: number; glance?: Glance }>;
  /** Cordons every selected node and keeps it so until the stage changes. */
  keepCordoned(ref: MaintenanceRef, stage: NodeMaintenanceStage): Promise<Interrupted>;
  /** Evacuates what the plan wants at `position`; resolves when nothing of that is left. */
  drain(ref: MaintenanceRef, position: number): Promise<DrainStep>;
  /** Evacuates pods that appear after the drain, until the stage changes. */
  keepDrained(ref: MaintenanceRef): Promise<Interrupted>;
  /** Withdraws the Evacuations that no other maintenance needs. */
  removeEvacuations(ref: MaintenanceRef): Promise<void>;
  /**
   * Makes the nodes schedulable again, unless somebody else wants them cordoned, and releases their Leases. Lasts as long
   * as another holds the Lease of a node that was cordoned for the maintenance.
   */
  giveBackNodes(ref: MaintenanceRef): Promise<void>;
  /** Lets the object go. */
  finish(ref: MaintenanceRef): Promise<void>;
}

/** One MaintenanceWindow: a namesake of another UID is another window. */
export interface WindowRef {
  name: string;
  uid: string;
}

/** How a run of the window was started. Times are RFC 3339. */
export interface WindowStart {
  input: unknown;
  workflowId: string;
  runId: string;
  startedAt: string;
  /** Nominal time, when a Schedule started it. */
  scheduledAt?: string;
}

/** What people have ordered of an open window by messages. */
export interface GivenOrders {
  approved: boolean;
  approvedNodes: string[];
  paused: boolean;
  cancelled: boolean;
}

/** As far as there are any; plain JSON. */
export type SomeOrders = { [Order in keyof GivenOrders]?: GivenOrders[Order] | undefined };

export interface OpenedWindow extends WindowRef {
  start: string;
  end: string;
  /** Runs of maintenances that an earlier window paused at its end, by workflow id. */
  resting: string[];
  /** Of the run that this one follows, because it ended without having closed the window. */
  given?: SomeOrders;
}

/** What is asked of an open window beside its spec. */
export interface WindowOrders extends GivenOrders {
  /** RFC 3339. */
  end: string;
  /** Its time is over, as far as the workflow's own timer knows. */
  ended: boolean;
  /** In runs of earlier releases the workflow ids alone: these are told again. */
  told?: Told[];
}

/** What the run of a maintenance, by workflow id, was told last: to rest, or to go on. */
export interface Told {
  run: string;
  word: 'pause' | 'resume';
}

export interface WindowTurn {
  node: string;
  /** Name of its NodeMaintenance. */
  maintenance: string;
}

/** How far the window has come, as people are told. */
export interface WindowState {
  revision: string;
  nodes: number;
  done: number;
  underWay: WindowTurn[];
  failed: WindowTurn[];
  remaining: number;
  /** Why no further turn begins now. */
  waiting?: { reason: string; message: string };
  /**
   * Since when turns are seen to wait for their nodes, by UID of the NodeMaintenance, in milliseconds: what the next activity goes on
   * from. A change of it alone is none.
   */
  awaited?: Readonly<Record<string, number>>;
}

export type WindowStep =
  | { kind: 'Progressed'; state: WindowState }
  /** Runs of maintenances, by workflow id, are to rest or to go on. */
  | { kind: 'Tell'; state: WindowState; pause: string[]; resume: string[] }
  /** Nothing is left to do in this window. `rest`: as in Tell, from runs of earlier releases. */
  | { kind: 'Over'; state: WindowState; rest?: string[] }
  /** There is no such object any more. */
  | { kind: 'Gone' };

export interface MaintenanceWindowActivities {
  /**
   * Validates the input and marks the window as open. A run that follows one of the same id which ended without having closed the
   * window has it open until the time that was recorded. Fails with InvalidInput when there is no such window, when another run has
   * it open (with Busy when a schedule opens it), or when those who start workflows may not maintain its nodes and it is not its own
   * schedule that opens it for its own duration.
   */
  openWindow(start: WindowStart): Promise<OpenedWindow>;
  /** Begins turns and sees them through, until the state differs from `seen`. */
  rollOut(ref: WindowRef, orders: WindowOrders, seen: WindowState | undefined): Promise<WindowStep>;
  /** Fails with InvalidInput when those who may send messages may not maintain the nodes of the window. */
  authorizeOrder(ref: WindowRef, order: SomeOrders): Promise<void>;
  /** Ends a turn whose work is done or need not be done. Fails with InvalidInput when there is none to end. */
  advanceTurn(ref: WindowRef, node: string): Promise<void>;
  /** Marks the window as closed. */
  closeWindow(ref: WindowRef, runId: string): Promise<void>;
}

/** One notice to send. */
export interface NoticeOrder {
  event: CloudEvent;
  /** Where `deliver` runs, beside all other work. */
  taskQueue: string;
  /** How long the receiver may take to answer. */
  timeoutSeconds: number;
  patienceSeconds: number;
}

export interface NoticeActivities {
  /** Sends it to the receiver; fails, for good if the receiver would refuse it again. */
  deliver(event: CloudEvent): Promise<void>;
  /** Says where operators look that the receiver has not got it. */
  noteUndelivered(event: CloudEvent, because: string): Promise<void>;
}

/** All that the worker runs; but for `deliver`, which has a task queue of its own. */
export type Activities = NodeMaintenanceActivities &
  MaintenanceWindowActivities &
  Pick<NoticeActivities, 'noteUndelivered'>;
