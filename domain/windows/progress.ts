import type { Node } from '../../api/core.ts';
import type { MaintenanceWindow, WindowProgress } from '../../api/maintenanceWindow.ts';
import { compareNames } from '../common/names.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { revisionOf } from '../common/revision.ts';
import { oneLine } from '../common/text.ts';
import { type NodeOutcome, nodeOutcomeOf, outcomesByNode } from './nodeOutcome.ts';
import { belongsToNode, type WindowMaintenance } from './windowMaintenance.ts';

/** Limits that keep the status small. */
const maxFailures = 20;
const maxMessageLength = 1_000;

/**
 * Returns the progress of a window as its status shows it. Nodes in progress and failed nodes count even if the window does not select
 * them any more.
 */
export function progressOf(
  revision: string,
  selected: readonly string[],
  outcomes: ReadonlyMap<string, NodeOutcome>,
): WindowProgress {
  const done = selected.filter((node) => outcomes.get(node)?.state === 'Succeeded').length;
  const failures = [...outcomes].flatMap(([node, outcome]) =>
    outcome.state === 'Failed' ? [{ node, reason: outcome.reason, message: outcome.message }] : [],
  );
  return {
    revision,
    summary: `${done}/${selected.length}`,
    nodes: selected.length,
    done,
    inProgress: [...outcomes.values()].filter(({ state }) => state === 'InProgress').length,
    failed: failures.length,
    remaining: selected.filter((node) => !outcomes.has(node)).length,
    failures: failures
      .toSorted((a, b) => compareNames(a.node, b.node))
      .slice(0, maxFailures)
      .map((failure) => ({ ...failure, message: oneLine(failure.message, maxMessageLength) })),
  };
}

/** Returns the progress of a closed window: the recorded outcomes of its nodes, which users may have changed since it closed. */
export function progressWhileClosed(
  window: Pick<MaintenanceWindow, 'spec'>,
  { nodes, maintenances }: { nodes: readonly Node[]; maintenances: readonly WindowMaintenance[] },
): WindowProgress {
  const revision = revisionOf(window.spec);
  const nodesByName = new Map(nodes.map((node) => [node.metadata.name, node]));
  const outcomes = maintenances.map((one) => {
    const outcome = nodeOutcomeOf(one.maintenance);
    // A new revision, and a recreated Node, are maintained again.
    const isCurrent = one.revision === revision && belongsToNode(one, nodesByName.get(one.node));
    const isObsolete = outcome.state === 'Succeeded' && !isCurrent;
    return [one.node, isObsolete ? { state: 'Remaining' as const } : outcome] as const;
  });
  const selected = nodes.filter((node) => selectsNode(window.spec.nodeSelector, node));
  return progressOf(
    revision,
    selected.map(({ metadata }) => metadata.name),
    outcomesByNode(outcomes),
  );
}
