/** Describes a metric of the worker. docs/reference/metrics.md and deploy/monitoring/alerts.yaml rely on names and labels. */
export interface MetricDefinition {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
}

/**
 * Defines every metric of the worker, in the order of the documentation. The worker also exposes the metrics of prom-client (process
 * and Node.js) and of Temporal's SDK.
 */
export const metricDefinitions = {
  maintenances: {
    name: 'node_maintenance_maintenances',
    type: 'gauge',
    help: 'NodeMaintenances by stage.',
    labels: ['stage'],
  },
  nodes: {
    name: 'node_maintenance_nodes',
    type: 'gauge',
    help: 'Nodes that maintenances have cordoned and not uncordoned yet, by the stage of the maintenance; of several the first of Drain, Cordon and Complete.',
    labels: ['stage'],
  },
  maintenanceWaiting: {
    name: 'node_maintenance_maintenance_waiting',
    type: 'gauge',
    help: '1 for each NodeMaintenance that is not done with its stage, by what it waits for: TemporalUnavailable, NotObserved (no run has seen the change of the object), Paused, Blocked (a pod needs intervention), DisruptionBudget, WaitingForNodeLease, CordonRejected, NotAuthorized, NoNodeMatches, WorkInProgress, VolumesAttached, Capacity (pods fit on no other node, or a deadlock), Draining or Completing. At most 100 series, of the oldest.',
    labels: ['maintenance', 'stage', 'reason'],
  },
  blockedPods: {
    name: 'node_maintenance_blocked_pods',
    type: 'gauge',
    help: 'Pods that cannot leave their nodes, by the reason of condition Blocked of the Evacuation; Other is a reason that an evacuator has written.',
    labels: ['reason'],
  },
  drainDuration: {
    name: 'node_maintenance_drain_duration_seconds',
    type: 'histogram',
    help: 'Time from the start of stage Drain until all pods have left, pauses included. The leader counts each maintenance once.',
    labels: [],
    buckets: [5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400],
  },
  podEvacuations: {
    name: 'node_maintenance_pod_evacuations_total',
    type: 'counter',
    help: 'Evacuations of pods that have ended, by outcome: Evicted, Evacuator (the pod left while an evacuator was responsible), Gone (it left otherwise, or a former leader evicted it) or Withdrawn (it stayed). The leader counts them.',
    labels: ['outcome'],
  },
  evictions: {
    name: 'node_maintenance_lifecycle_evictions_total',
    type: 'counter',
    help: 'Evictions of lifecycle.k8s.io that the controller of EvictionRequests has ended, by outcome: Evicted, Canceled (nobody requests it any more), NoFurtherResponder or Invalid. The leader counts them.',
    labels: ['outcome'],
  },
  openRuns: {
    name: 'node_maintenance_open_runs',
    type: 'gauge',
    help: 'Open workflow runs of this cluster in Temporal, by workflow type. The leader counts them every 15 seconds.',
    labels: ['type'],
  },
  installedManifests: {
    name: 'node_maintenance_installed_manifests',
    type: 'gauge',
    help: 'CRDs and admission policies of this release by what is installed: same, changed (of this release, with other fields), older or newer (of a release that this one works with), unsupported, or missing. Checked every 5 minutes.',
    labels: ['state'],
  },
  unknownFields: {
    name: 'node_maintenance_unknown_fields',
    type: 'gauge',
    help: 'Fields that this process writes and the installed CRDs do not have: the apiserver drops them.',
    labels: [],
  },
  leaderStatus: {
    name: 'node_maintenance_leader_election_master_status',
    type: 'gauge',
    help: '1 if this process holds the Lease of the election, else 0. The name is that of the Lease.',
    labels: ['name'],
  },
  leaderAcquired: {
    name: 'node_maintenance_leader_election_acquired_total',
    type: 'counter',
    help: 'Times that this process became the leader. The sum over all processes counts take-overs.',
    labels: ['name'],
  },
  queueDepth: {
    name: 'node_maintenance_workqueue_depth',
    type: 'gauge',
    help: 'Keys that wait in the queue of a control loop. Only the leader runs control loops.',
    labels: ['name'],
  },
  queueDuration: {
    name: 'node_maintenance_workqueue_queue_duration_seconds',
    type: 'histogram',
    help: 'Time that keys waited in the queue before their reconciliation started.',
    labels: ['name'],
    buckets: [0.001, 0.01, 0.1, 1, 10, 60, 300],
  },
  queueWorkDuration: {
    name: 'node_maintenance_workqueue_work_duration_seconds',
    type: 'histogram',
    help: 'Duration of reconciliations. In queue evacuator it contains the whole evacuation of a pod.',
    labels: ['name'],
    buckets: [0.001, 0.01, 0.1, 1, 10, 60, 300],
  },
  queueUnfinished: {
    name: 'node_maintenance_workqueue_unfinished_work_seconds',
    type: 'gauge',
    help: 'Sum of the time that the reconciliations in progress have lasted.',
    labels: ['name'],
  },
  queueLongestRunning: {
    name: 'node_maintenance_workqueue_longest_running_processor_seconds',
    type: 'gauge',
    help: 'Time that the longest reconciliation in progress has lasted.',
    labels: ['name'],
  },
  queueRetries: {
    name: 'node_maintenance_workqueue_retries_total',
    type: 'counter',
    help: 'Reconciliations that failed, or were postponed, and are retried with back-off.',
    labels: ['name'],
  },
  temporalConnected: {
    name: 'node_maintenance_temporal_connected',
    type: 'gauge',
    help: '1 if this process can use Temporal, and its Temporal workers are running; else 0.',
    labels: [],
  },
  evacuations: {
    name: 'node_maintenance_evacuations',
    type: 'gauge',
    help: 'Evacuations that exist.',
    labels: [],
  },
  evictionRequests: {
    name: 'node_maintenance_eviction_requests',
    type: 'gauge',
    help: 'EvictionRequests of node maintenance that exist; 0 where Evacuations are chosen and none is left.',
    labels: [],
  },
  stalled: {
    name: 'node_maintenance_stalled',
    type: 'gauge',
    help: '1 for each object (NodeMaintenance, MaintenanceWindow) whose workflow makes no progress: its condition Stalled is True. At most 100 series, of the oldest.',
    labels: ['kind', 'name', 'reason'],
  },
  workflowRestarts: {
    name: 'node_maintenance_workflow_restarts_total',
    type: 'counter',
    help: 'Runs (of nodeMaintenance, maintenanceWindow) that this worker has started because the one before ended too early.',
    labels: ['workflow'],
  },
  historyRetention: {
    name: 'node_maintenance_history_retention_seconds',
    type: 'gauge',
    help: 'Time for which the Temporal namespace keeps the histories of closed runs.',
    labels: [],
  },
  historyRetentionRequired: {
    name: 'node_maintenance_history_retention_required_seconds',
    type: 'gauge',
    help: 'Time for which it should keep them (--min-history-retention).',
    labels: [],
  },
  kubeRequests: {
    name: 'node_maintenance_kube_requests_total',
    type: 'counter',
    help: 'Requests to the Kubernetes API; status 0 means that there was no response.',
    labels: ['verb', 'resource', 'status'],
  },
  kubeRequestDuration: {
    name: 'node_maintenance_kube_request_duration_seconds',
    type: 'histogram',
    help: 'Duration of requests to the Kubernetes API.',
    labels: ['verb'],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  },
  httpRejections: {
    name: 'node_maintenance_http_rejections_total',
    type: 'counter',
    help: 'Connections closed and requests rejected by the servers of this process (health, metrics, webhook): ConnectionLimit, RequestLimit, MemoryLimit, SizeLimit, Timeout, Malformed, Pipelined, Tls, or Failed (an error of the server).',
    labels: ['server', 'reason'],
  },
  notifications: {
    name: 'node_maintenance_notifications_total',
    type: 'counter',
    help: 'Notifications by outcome: sent, failed (an attempt; it is retried) or dropped (not delivered).',
    labels: ['outcome'],
  },
  decryptionFailures: {
    name: 'node_maintenance_payload_decryption_failures_total',
    type: 'counter',
    help: 'Payloads from Temporal that could not be decrypted with the keys of this process; their tasks fail and are retried.',
    labels: [],
  },
  identityLeaseRenewed: {
    name: 'node_maintenance_identity_lease_renewed_timestamp_seconds',
    type: 'gauge',
    help: 'Time of the last renewal of the identity Lease of this process.',
    labels: [],
  },
  identityLeaseErrors: {
    name: 'node_maintenance_identity_lease_errors_total',
    type: 'counter',
    help: 'Failures to renew the identity Lease of this process, or to delete expired ones.',
    labels: [],
  },
  watchesConnected: {
    name: 'node_maintenance_watches_connected',
    type: 'gauge',
    help: 'Whether the watches of nodes, pods, maintenances and Evacuations are connected (1). While they are not (0), drains ask no pod to leave.',
    labels: [],
  },
  nodeLeases: {
    name: 'node_maintenance_node_leases',
    type: 'gauge',
    help: 'Maintenance Leases by state: Free, Expired, Held, HeldByAdministrator, Missing (a node without a Lease) or Orphaned (a Lease without a node).',
    labels: ['state'],
  },
  nodeLeasesLastResponse: {
    name: 'node_maintenance_node_leases_last_response_timestamp_seconds',
    type: 'gauge',
    help: 'Time of the last response of the apiserver to the watch of the Leases; 0 if there was none.',
    labels: [],
  },
  leaseAbandoned: {
    name: 'node_maintenance_node_lease_abandoned',
    type: 'gauge',
    help: '1 for each Lease whose holder does not renew it as KEP-1411 requires.',
    labels: ['node', 'holder', 'reason'],
  },
  leaseHeldByAdministrator: {
    name: 'node_maintenance_node_lease_held_by_administrator',
    type: 'gauge',
    help: '1 for each Lease that an administrator holds; such a Lease never expires.',
    labels: ['node', 'holder'],
  },
  leaseAcquired: {
    name: 'node_maintenance_node_lease_acquired_timestamp_seconds',
    type: 'gauge',
    help: 'Time at which the holder acquired a Lease that is abandoned or held by an administrator, if the Lease has one.',
    labels: ['node', 'holder'],
  },
  leaseRenewed: {
    name: 'node_maintenance_node_lease_renewed_timestamp_seconds',
    type: 'gauge',
    help: 'Time of the last renewal of a Lease that is abandoned or held by an administrator, if the Lease has one.',
    labels: ['node', 'holder'],
  },
  windowOpen: {
    name: 'node_maintenance_window_open',
    type: 'gauge',
    help: '1 if the window is open, or has ended and still has nodes in progress; else 0.',
    labels: ['window'],
  },
  windowEnd: {
    name: 'node_maintenance_window_end_timestamp_seconds',
    type: 'gauge',
    help: 'End of an open window.',
    labels: ['window'],
  },
  windowNodes: {
    name: 'node_maintenance_window_nodes',
    type: 'gauge',
    help: 'Nodes of the window in its newest revision by state: InProgress, Succeeded, Failed or Remaining.',
    labels: ['window', 'state'],
  },
  windowRebootRequired: {
    name: 'node_maintenance_window_reboot_required_nodes',
    type: 'gauge',
    help: 'Selected nodes that need a reboot and whose maintenance has not started, for a window that reboots nodes.',
    labels: ['window'],
  },
  windowOldestNodeStarted: {
    name: 'node_maintenance_window_oldest_node_started_timestamp_seconds',
    type: 'gauge',
    help: 'Start of the maintenance of the node that has been in progress for the longest time, without paused ones.',
    labels: ['window'],
  },
  windowWaitingSince: {
    name: 'node_maintenance_window_waiting_since_timestamp_seconds',
    type: 'gauge',
    help: 'Time at which the open window last stopped starting nodes, by reason, as observed by this worker.',
    labels: ['window', 'reason'],
  },
  windowConditionNotTrue: {
    name: 'node_maintenance_window_condition_not_true',
    type: 'gauge',
    help: '1 for each condition of a window that should be True and is not.',
    labels: ['window', 'type', 'reason'],
  },
  budgetAllowedNodes: {
    name: 'node_maintenance_node_disruption_budget_allowed_nodes',
    type: 'gauge',
    help: 'Number of nodes of a NodeDisruptionBudget that may be out of service at the same time.',
    labels: ['budget'],
  },
  budgetOutOfServiceNodes: {
    name: 'node_maintenance_node_disruption_budget_out_of_service_nodes',
    type: 'gauge',
    help: 'Number of nodes of a NodeDisruptionBudget that are out of service for any reason.',
    labels: ['budget'],
  },
} as const satisfies Record<string, MetricDefinition>;

/** The metrics of Temporal's SDK that the dashboard and the alerts use; the SDK has more. */
export const sdkMetrics: readonly MetricDefinition[] = [
  {
    name: 'temporal_workflow_task_execution_failed_total',
    type: 'counter',
    help: 'Workflow tasks that failed. Temporal retries them; until one succeeds, the run cannot continue.',
    labels: ['workflow_type', 'failure_reason', 'namespace', 'task_queue'],
  },
  {
    name: 'temporal_workflow_task_execution_latency_seconds',
    type: 'histogram',
    help: 'Duration of workflow tasks.',
    labels: ['workflow_type', 'namespace', 'task_queue'],
  },
  {
    name: 'temporal_activity_execution_failed_total',
    type: 'counter',
    help: 'Attempts of activities that failed. Temporal retries them.',
    labels: ['activity_type', 'workflow_type', 'namespace', 'task_queue'],
  },
  {
    name: 'temporal_activity_schedule_to_start_latency_seconds',
    type: 'histogram',
    help: 'Time that activities waited for a worker.',
    labels: ['namespace', 'task_queue'],
  },
  {
    name: 'temporal_worker_task_slots_available',
    type: 'gauge',
    help: 'Tasks that the worker can take in addition to those in progress.',
    labels: ['worker_type', 'namespace', 'task_queue'],
  },
  {
    name: 'temporal_request_latency_seconds',
    type: 'histogram',
    help: 'Duration of requests to Temporal.',
    labels: ['operation', 'namespace'],
  },
  {
    name: 'temporal_request_failure_total',
    type: 'counter',
    help: 'Requests to Temporal that failed.',
    labels: ['operation', 'status_code', 'namespace'],
  },
  {
    name: 'temporal_sticky_cache_size',
    type: 'gauge',
    help: 'Runs that the worker keeps in its cache.',
    labels: ['namespace', 'task_queue'],
  },
];
