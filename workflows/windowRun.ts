import type {
  OpenedWindow,
  SomeOrders,
  WindowOrders,
  WindowRef,
  WindowState,
  WindowTurn,
} from '../activities/contract.ts';
import { turnName } from '../domain/revision.ts';

/** Where one open window stands: all that outlives continue-as-new, plain JSON. */
export interface WindowRun extends WindowOrders {
  /** Empty until the window was opened. */
  name: string;
  uid: string;
  /** RFC 3339. */
  start: string;
  /** As the activities saw it last. */
  state?: WindowState;
  /** The first run of the chain, by which the object knows who has the window open. */
  runId: string;
}

/** The answer of the `progress` query. */
export type WindowAnswer = Omit<WindowRun, 'runId' | 'told'>;

export function newWindowRun(runId: string): WindowRun {
  return {
    name: '',
    uid: '',
    start: '',
    end: '',
    ended: false,
    cancelled: false,
    paused: false,
    approved: false,
    approvedNodes: [],
    runId,
  };
}

export function takeInOpened(run: WindowRun, { name, uid, start, end, given = {} }: OpenedWindow): void {
  takeInOrder(run, given);
  Object.assign(run, { name, uid, start, end });
}

export function takeInOrder(run: WindowRun, { approvedNodes = [], ...flags }: SomeOrders): void {
  Object.assign(run, flags);
  run.approvedNodes = [...new Set([...run.approvedNodes, ...approvedNodes])];
}

/** Of runs of earlier releases, whose state has the nodes alone of turns that failed. */
export function takeInState(run: WindowRun, state: WindowState | undefined): void {
  if (state === undefined) return;
  const failed = state.failed.map((turn: WindowTurn | string) =>
    typeof turn === 'string' ? { node: turn, maintenance: turnName(run.name, state.revision, turn) } : turn,
  );
  run.state = { ...state, failed };
}

export function windowRefTo({ name, uid }: WindowRun): WindowRef {
  return { name, uid };
}

export function ordersOf(run: WindowRun): WindowOrders {
  const { end, ended, cancelled, paused, approved, approvedNodes, told = [] } = run;
  return { end, ended, cancelled, paused, approved, approvedNodes, told };
}

export function answerOf({ runId: _runId, told: _told, ...shown }: WindowRun): WindowAnswer {
  return shown;
}
