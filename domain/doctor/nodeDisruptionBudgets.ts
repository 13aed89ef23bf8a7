import type { NodeDisruptionBudget } from '../../api/nodeDisruptionBudget.ts';
import { compareNames } from '../common/names.ts';
import { type Finding, listedFindings, warning } from './finding.ts';

/** Finds NodeDisruptionBudgets that let no window start, or that limit nothing. Returns no finding if there are none. */
export function nodeDisruptionBudgetFindings(budgets: readonly NodeDisruptionBudget[]): Finding[] {
  const findings = budgets
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
    .flatMap(({ metadata, status }): Finding[] => {
      const exhausted = status?.conditions.find(({ type }) => type === 'Exhausted');
      const remedy = remedies.get(exhausted?.reason ?? '');
      if (exhausted === undefined || remedy === undefined) return [];
      const message = exhausted.message.replace(/\.$/, '');
      return [warning(message, remedy, `nodedisruptionbudget/${metadata.name}`)];
    });
  return findings.length === 0 ? [] : listedFindings(findings, '');
}

/** Reason of condition Exhausted -> remedy. */
const remedies = new Map([
  ['NoneAllowed', 'increase its spec.maxUnavailable, unless no window is to start a node'],
  ['NoNodeSelected', 'compare it with kubectl get nodes --show-labels, or delete the budget'],
]);
