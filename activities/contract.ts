import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';

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

/** How a turn of the drain ended: at an entry of the plan at which pods are left, or with none left at all. */
export type DrainStep =
  | { kind: 'TierDrained'; position: number; nodes: string[] }
  | { kind: 'Drained'; nodes: string[] }
  | Interrupted;

/** `type` of every ApplicationFailure that an activity raises. */
export const FailureType = {
  /** The workflow was started with something that cannot become a maintenance; final. */
  InvalidInput: 'InvalidInput',
  /** The apiserver refuses what the worker must do; the message is the apiserver's. Retried: rights can be granted. */
  Forbidden: 'Forbidden',
  /** The apiserver finds an object invalid; final. */
  Invalid: 'Invalid',
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
  beginStage(ref: MaintenanceRef, stage: NodeMaintenanceStage): Promise<{ nodes: string[] }>;
  /**
   * Takes the maintenance Leases of the nodes that nobody else holds, and renews those that are ours. To be called again
   * after so many seconds.
   */
  renewNodeLeases(ref: MaintenanceRef): Promise<{ renewAfterSeconds: number }>;
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
