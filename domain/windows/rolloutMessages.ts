import { RebootAnnotation } from '../../api/names.ts';
import type { BudgetLimit } from '../budget/nodeDisruptionBudget.ts';
import { compareNames, listed } from '../common/names.ts';
import { numbered } from '../common/text.ts';
import type { NotRebootableReason } from './rebootNeeds.ts';
import type { RolloutFacts, RolloutNode } from './rolloutFacts.ts';

/** The parts of the messages that say why a window starts no node. */

const remedy =
  'check these nodes, then mark their work as done (kubectl maintenance window advance) or delete their NodeMaintenances';

export function failedMessage(failed: readonly string[]): string {
  return `${nodeCount(failed.length)} failed (${listed(failed)}): ${remedy}.`;
}

/** Says what the agents of these nodes miss. */
export function agentsMessage(
  waiting: readonly string[],
  notRebootable: RolloutFacts['notRebootable'],
): string {
  const causes = notRebootableCauses.flatMap(([reason, cause]) => {
    const nodes = waiting.filter((name) => notRebootable.get(name) === reason);
    return nodes.length === 0 ? [] : [cause(`${nodes.length === 1 ? 'node' : 'nodes'} ${listed(nodes)}`)];
  });
  return `${causes.join('. ')}, or reboot ${waiting.length === 1 ? 'the node' : 'these nodes'} in another way and remove the annotation ${RebootAnnotation.Required}.`;
}

const notRebootableCauses: readonly (readonly [NotRebootableReason, (nodes: string) => string])[] = [
  ['NotRunning', (nodes) => `No node agent runs on ${nodes}: start it`],
  [
    'NoRebootCommand',
    (nodes) => `The node agent of ${nodes} has no reboot command: set its --reboot-command (REBOOT_COMMAND)`,
  ],
  ['BootIdUnknown', (nodes) => `The kubelet of ${nodes} has not reported a boot ID: check it`],
];

/** Says what a budget allows, and which of its nodes are out of service. */
export function blockMessage({ outOfService }: RolloutFacts, { name, allowed, nodes }: BudgetLimit): string {
  const budget = `NodeDisruptionBudget ${name} allows`;
  if (allowed === 0)
    return `${budget} no node to be out of service: increase its spec.maxUnavailable to start nodes.`;
  const out = [...outOfService].filter(([node]) => nodes.has(node));
  return `${budget} ${allowed} of ${nodeCount(nodes.size)} to be out of service, and ${outOfServiceMessage(out)}.`;
}

/** Names a few of the nodes that are out of service, each with the reason. */
export function outOfServiceMessage(out: readonly [string, string][], kind = ''): string {
  const names = out.toSorted(([a], [b]) => compareNames(a, b)).map(([name, reason]) => `${name} (${reason})`);
  const verb = out.length === 1 ? 'is' : 'are';
  return `${nodeCount(out.length, kind)} ${verb} out of service: ${listed(names)}`;
}

export function nodeCount(count: number, kind = ''): string {
  return numbered(count, `${kind}node`);
}

export function remainingCount(remaining: readonly RolloutNode[]): string {
  return `${nodeCount(remaining.length)} ${remaining.length === 1 ? 'remains' : 'remain'}`;
}
