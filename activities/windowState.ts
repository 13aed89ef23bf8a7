import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../api/core.ts';
import type { MaintenanceWindow, WindowProgress } from '../api/maintenanceWindow.ts';
import { approvalNeeded } from '../domain/notices.ts';
import { turnName } from '../domain/revision.ts';
import type { RolloutDecision, Turn } from '../domain/rollout.ts';
import type { TurnPolicy } from '../domain/turn.ts';
import { progressOf } from '../domain/windowProgress.ts';
import type { WindowRef, WindowState, WindowTurn } from './contract.ts';
import type { Deps } from './deps.ts';
import { noticedWindow } from './notices.ts';
import type { SeenTurn } from './turns.ts';
import { readWindow, updateWindowStatus } from './windowStatus.ts';

/** Names in the status, so that it stays small. */
const nodesShown = 100;
const longestMessage = 1_000;

/** One look at a window and its turns. */
export interface Sight {
  window: MaintenanceWindow;
  revision: string;
  policy: TurnPolicy;
  /** No further turn begins. */
  isEnding: boolean;
  nodes: readonly Node[];
  turns: readonly SeenTurn[];
}

/** How far a window has come, given what the turns of its nodes are. */
export function stateOf(
  { window, revision, nodes, turns }: Sight,
  decision: RolloutDecision,
  kinds: ReadonlyMap<string, Turn>,
): WindowState {
  const selected = nodes.map(({ metadata }) => metadata.name);
  const count = (kind: Turn['kind']) => selected.filter((name) => kinds.get(name)?.kind === kind).length;
  const named = new Map(turns.map(({ node, maintenance }) => [node, maintenance.metadata.name]));
  const those = (kind: Turn['kind']): WindowTurn[] =>
    [...kinds.keys()]
      .filter((node) => kinds.get(node)?.kind === kind)
      .toSorted()
      .map((node) => {
        const maintenance = named.get(node) ?? turnName(window.metadata.name, revision, node);
        return { node, maintenance };
      });
  return {
    revision,
    nodes: selected.length,
    done: count('Succeeded'),
    underWay: those('UnderWay'),
    failed: those('Failed'),
    remaining: selected.filter((name) => !kinds.has(name)).length,
    ...(decision.kind === 'Wait' && {
      waiting: { reason: decision.reason, message: decision.message.slice(0, longestMessage) },
    }),
  };
}

/** Shows it on the object. */
export async function publishWindow(
  deps: Deps,
  ref: WindowRef,
  sight: Sight,
  state: WindowState,
): Promise<void> {
  const { active, progress: before } = sight.window.status ?? {};
  const progress = shownProgress(sight, state);
  const nodes = [...state.underWay, ...state.failed].map(({ node }) => node).slice(0, nodesShown);
  const isShown = isDeepStrictEqual([active?.nodes, active?.waiting], [nodes, state.waiting]);
  if (isDeepStrictEqual(progress, before) && (active === undefined || isShown)) return;
  if (state.waiting?.reason === 'ApprovalNeeded') await tellApprovalNeeded(deps, ref, state.waiting.message);
  await updateWindowStatus(deps, ref, ({ active: newest, ...status }) => {
    if (newest === undefined) return { ...status, progress };
    const { waiting: _before, ...open } = newest;
    return {
      ...status,
      progress,
      active: { ...open, nodes, ...(state.waiting && { waiting: state.waiting }) },
    };
  });
}

/** Before the status shows it, by which the next look knows that it was told. */
async function tellApprovalNeeded(deps: Deps, ref: WindowRef, because: string): Promise<void> {
  const window = await readWindow(deps, ref);
  const active = window?.status?.active;
  if (window === undefined || active === undefined) return;
  const now = deps.cluster.kube.now().toISOString();
  const isWhole = window.spec.approval === 'PerWindow';
  await deps.notices.put(approvalNeeded(noticedWindow(window), { ...active, because, isWhole }, now));
  deps.events.record(window, { type: 'Normal', reason: 'ApprovalNeeded', message: because });
}

function shownProgress({ turns }: Sight, state: WindowState): WindowProgress {
  const failures = turns.flatMap(({ node, step }) =>
    step.kind === 'Failed' ? [{ node, reason: step.reason, message: step.message }] : [],
  );
  const { revision, nodes, done, underWay, failed, remaining } = state;
  const tally = { revision, nodes, done, inProgress: underWay.length, failed: failed.length, remaining };
  return progressOf(tally, failures);
}
