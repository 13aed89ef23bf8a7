import type { Node } from '../api/core.ts';
import type { MaintenanceWindow, WindowProgress } from '../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { TurnOfNode } from '../api/windowTurn.ts';
import { selectsNode } from './nodeSelector.ts';
import { revisionOf } from './revision.ts';
import { isGivenBack } from './stage.ts';
import { verdictOn } from './turnVerdict.ts';

type Failure = WindowProgress['failures'][number];

/** Failures in the status, so that it stays small. */
const failuresShown = 20;
const longestMessage = 1_000;

/** The progress of a window as its status shows it. */
export function progressOf(
  tally: Omit<WindowProgress, 'summary' | 'failures'>,
  failures: readonly Failure[],
): WindowProgress {
  const shown = failures.slice(0, failuresShown);
  return {
    ...tally,
    summary: `${tally.done}/${tally.nodes}`,
    failures: shown.map((failure) => ({ ...failure, message: failure.message.slice(0, longestMessage) })),
  };
}

/** What was decided about a turn, as its NodeMaintenance says. */
export type Standing =
  | { kind: 'UnderWay' }
  | { kind: 'Succeeded' }
  | { kind: 'Failed'; reason: string; message: string }
  /** Cancelled, and its node given back: it is to be had anew. */
  | { kind: 'Cancelled' };

export function standingOf(maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>): Standing {
  const { status = 'Unknown', reason = '', message = '' } = verdictOn(maintenance) ?? {};
  if (status === 'False' && reason !== 'Cancelled') return { kind: 'Failed', reason, message };
  if (status === 'Unknown' || !isGivenBack(maintenance)) return { kind: 'UnderWay' };
  return { kind: status === 'True' ? 'Succeeded' : 'Cancelled' };
}

/** Whether somebody can say of a turn that nothing is left to do: not of one that is over. */
export function isToEnd(maintenance: Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>): boolean {
  const { kind } = standingOf(maintenance);
  return kind === 'UnderWay' || kind === 'Failed';
}

/** Whether a maintenance is the turn of this machine: it must also select it, as only those may have it do who may maintain the node. */
export function isTurnOf(
  { nodeUid, maintenance: { spec } }: Pick<TurnOfNode, 'nodeUid' | 'maintenance'>,
  machine: Node | undefined,
): machine is Node {
  return machine?.metadata.uid === nodeUid && selectsNode(spec.nodeSelector, machine);
}

/** The progress of a window that is not open: what was decided about its turns, and what people have done about them since. */
export function progressWhileClosed(
  window: Pick<MaintenanceWindow, 'spec'>,
  { nodes, turns }: { nodes: readonly Node[]; turns: readonly TurnOfNode[] },
): WindowProgress {
  const revision = revisionOf(window.spec);
  const selected = nodes.filter((node) => selectsNode(window.spec.nodeSelector, node));
  const machines = new Map(nodes.map((node) => [node.metadata.name, node]));
  const standings = new Map<string, Standing>();
  for (const turn of turns) {
    const standing = standingOf(turn.maintenance);
    const isRecord = standing.kind === 'Succeeded';
    const counts = turn.revision === revision && isTurnOf(turn, machines.get(turn.node));
    if (standing.kind !== 'Cancelled' && (counts || !isRecord)) standings.set(turn.node, standing);
  }
  const failures = [...standings].flatMap(([node, standing]) =>
    standing.kind === 'Failed' ? { node, reason: standing.reason, message: standing.message } : [],
  );
  const done = selected.filter(({ metadata }) => standings.get(metadata.name)?.kind === 'Succeeded').length;
  const tally = {
    revision,
    nodes: selected.length,
    done,
    inProgress: [...standings.values()].filter(({ kind }) => kind === 'UnderWay').length,
    failed: failures.length,
    remaining: selected.filter(({ metadata }) => !standings.has(metadata.name)).length,
  };
  return progressOf(tally, failures);
}
