/** The reasons of .status.active.waiting of a MaintenanceWindow, with their meanings for docs/reference/events-and-conditions.md. */
export const waitingReasons = {
  AgentNotRunning:
    'The window reboots nodes, and on none of the remaining nodes a node agent runs that has a reboot command.',
  ApprovalNeeded: 'The window or one of its remaining nodes needs an approval.',
  FailedNodes: 'Only failed nodes are left, and they require action.',
  JobsNotEnabled:
    'The window runs a Job, and Jobs of windows are not enabled in the installation (deploy/window-jobs).',
  LastNodesInProgress: 'All nodes have started, and the last ones are in progress.',
  MaintenanceRejected:
    'The apiserver or an admission webhook rejects the maintenance of a node; the window retries it.',
  MaxUnavailable: 'As many selected nodes are out of service as .spec.rollout.maxUnavailable allows.',
  NodeDisruptionBudget:
    'As many nodes are out of service as a NodeDisruptionBudget of the remaining nodes allows; the message names it.',
  NodesOutOfService:
    'All remaining nodes are out of service already, for example because a user cordoned them.',
  Paused: 'A user paused the window.',
  Soaking: 'Less than .spec.rollout.soakSeconds have passed since the last node succeeded.',
  TooManyFailures: 'The number of failed nodes has reached .spec.rollout.maxFailures.',
  TopologyDomain: 'Nodes with another value of .spec.rollout.topologyKey are in progress or have failed.',
  WindowEnded: 'The window has ended or was cancelled, and waits for the nodes in progress.',
} as const satisfies Readonly<Record<string, string>>;

export type WaitingReason = keyof typeof waitingReasons;
