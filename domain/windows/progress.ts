import type { Node } from '../../api/core.ts';
import type { MaintenanceWindow, WindowProgress } from '../../api/maintenanceWindow.ts';
import { MAX_NAMED_REBOOTS } from '../../api/names.ts';
import { needsReboot } from '../reboot/nodeReboot.ts';
import { compareNames } from '../common/names.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { revisionOf } from '../common/revision.ts';
import { oneLine } from '../common/text.ts';
import { type NodeOutcome, nodeOutcomeOf, outcomesByNode } from './nodeOutcome.ts';
import { isRebootUnnecessary, rebootNeedsOf, type RebootNeeds } from './rebootNeeds.ts';
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
  { outcomes, reboots }: { outcomes: ReadonlyMap<string, NodeOutcome>; reboots?: RebootNeeds | undefined },
): WindowProgress {
  const notStarted = selected.filter((node) => !outcomes.has(node));
  const remaining = notStarted.filter((node) => !isRebootUnnecessary(reboots, node));
  const notRequired = notStarted.length - remaining.length;
  const done = selected.filter((node) => outcomes.get(node)?.state === 'Succeeded').length;
  const failures = [...outcomes].flatMap(([node, outcome]) =>
    outcome.state === 'Failed' ? [{ node, reason: outcome.reason, message: outcome.message }] : [],
  );
  return {
    revision,
    summary: `${done}/${selected.length - notRequired}`,
    nodes: selected.length,
    done,
    inProgress: [...outcomes.values()].filter(({ state }) => state === 'InProgress').length,
    failed: failures.length,
    remaining: remaining.length,
    ...(reboots && rebootProgress(selected, outcomes, reboots, notRequired)),
    failures: failures
      .toSorted((a, b) => compareNames(a.node, b.node))
      .slice(0, maxFailures)
      .map((failure) => ({ ...failure, message: oneLine(failure.message, maxMessageLength) })),
  };
}

function rebootProgress(
  selected: readonly string[],
  outcomes: ReadonlyMap<string, NodeOutcome>,
  { policy, required }: RebootNeeds,
  notRequired: number,
): Pick<WindowProgress, 'notRequired' | 'rebootRequired'> {
  const isWaiting = (node: string) => [undefined, 'Succeeded'].includes(outcomes.get(node)?.state);
  const names = selected.filter((node) => required.has(node) && isWaiting(node)).toSorted(compareNames);
  return {
    ...(policy === 'IfRequired' && { notRequired }),
    rebootRequired: { nodes: names.length, names: names.slice(0, MAX_NAMED_REBOOTS) },
  };
}

/** Returns the progress of a closed window: the recorded outcomes of its nodes, which users may have changed since it closed. */
export function progressWhileClosed(
  window: Pick<MaintenanceWindow, 'spec'>,
  { nodes, maintenances }: { nodes: readonly Node[]; maintenances: readonly WindowMaintenance[] },
): WindowProgress {
  const revision = revisionOf(window.spec);
  const isNeededAgain = (node: Node) => window.spec.work.type === 'Reboot' && needsReboot(node);
  const nodesByName = new Map(nodes.map((node) => [node.metadata.name, node]));
  const outcomes = maintenances.map((one) => {
    const outcome = nodeOutcomeOf(one.maintenance);
    const node = nodesByName.get(one.node);
    // A new revision, a recreated Node, and one that needs another reboot, are maintained again.
    const isCurrent = one.revision === revision && belongsToNode(one, node) && !isNeededAgain(node);
    const isObsolete = outcome.state === 'Succeeded' && !isCurrent;
    return [one.node, isObsolete ? { state: 'Remaining' as const } : outcome] as const;
  });
  const selected = nodes.filter((node) => selectsNode(window.spec.nodeSelector, node));
  return progressOf(
    revision,
    selected.map(({ metadata }) => metadata.name),
    { outcomes: outcomesByNode(outcomes), reboots: rebootNeedsOf(window.spec.work, selected) },
  );
}
