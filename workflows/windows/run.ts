import type {
  OpenedWindow,
  RunCluster,
  WindowRef,
  WindowRequest,
  WindowRequests,
} from '../../activities/contract.ts';
import type { WindowState } from '../../domain/windows/windowState.ts';

/** State of one open window that outlives continue-as-new. Plain JSON. */
export interface WindowRun extends WindowRequests {
  /** Empty until the window is open. */
  name: string;
  uid: string;
  /** Undefined until the window is open. */
  cluster?: RunCluster;
  /** RFC 3339. */
  start: string;
  /** Heartbeat timeout of the rollout. */
  heartbeatTimeoutSeconds: number;
  /** The state that an activity returned last. */
  state?: WindowState;
  /** The first run of the chain; the object records it as the one that has the window open. */
  runId: string;
}

/** The response to the `progress` query. */
export type WindowRunProgress = Omit<WindowRun, 'runId' | 'sentSignals' | 'heartbeatTimeoutSeconds'>;

export function newWindowRun(runId: string): WindowRun {
  return {
    name: '',
    uid: '',
    start: '',
    end: '',
    heartbeatTimeoutSeconds: 0,
    ended: false,
    cancelled: false,
    paused: false,
    approved: false,
    approvedNodes: [],
    sentSignals: [],
    runId,
  };
}

export function applyOpened(
  run: WindowRun,
  { name, uid, cluster, start, end, heartbeatTimeoutSeconds, requests = {} }: OpenedWindow,
): void {
  applyRequest(run, requests);
  Object.assign(run, { name, uid, cluster, start, end, heartbeatTimeoutSeconds });
}

export function applyRequest(run: WindowRun, { approvedNodes = [], ...flags }: WindowRequest): void {
  Object.assign(run, flags);
  run.approvedNodes = [...new Set([...run.approvedNodes, ...approvedNodes])];
}

/** Keeps the state that an activity returned. Requests that it reports were made by annotation of the object, which decides. */
export function applyState(run: WindowRun, { requests, ...state }: WindowState): void {
  run.state = state;
  if (requests === undefined) return;
  const { approved, approvedNodes, paused, cancelled } = requests;
  Object.assign(run, { approved, approvedNodes, paused, cancelled });
}

export function windowRefTo({ name, uid, cluster }: WindowRun): WindowRef {
  return { name, uid, clusterUid: cluster?.uid };
}

export function requestsOf(run: WindowRun): WindowRequests {
  const { end, ended, cancelled, paused, approved, approvedNodes, sentSignals = [] } = run;
  return { end, ended, cancelled, paused, approved, approvedNodes, sentSignals };
}

export function windowRunProgressOf({
  runId: _runId,
  sentSignals: _sentSignals,
  heartbeatTimeoutSeconds: _heartbeat,
  ...shown
}: WindowRun): WindowRunProgress {
  return shown;
}
