import type { Pod, PodDisruptionBudget } from '../../api/core.ts';
import { compareNames, listed } from '../common/names.ts';
import { isFinished, podName, podTypeOf } from '../common/pod.ts';
import { numbered } from '../common/text.ts';
import { BlockerReason } from '../evacuation/blocker.ts';
import { budgetBlocker, budgetsOf, multipleBudgetsMessage } from '../evacuation/budgets.ts';
import {
  inapplicableReason,
  registeredEvacuators,
  removesPodOfSeveralBudgets,
} from '../evacuation/evacuatorSelection.ts';
import { type Finding, listedFindings, warning } from './finding.ts';

/** Finds PodDisruptionBudgets that will block every drain of their pods, whatever the time. */
export function budgetFindings(pods: readonly Pod[], budgets: readonly PodDisruptionBudget[]): Finding[] {
  const inNamespace = Map.groupBy(budgets, ({ metadata }) => metadata.namespace);
  const selected = new Map<PodDisruptionBudget, Pod[]>();
  const shared = new Map<string, Pod[]>();
  for (const pod of pods) {
    const own = budgetsOf(pod, inNamespace.get(pod.metadata.namespace) ?? []);
    if (isEvicted(pod)) for (const budget of own) append(selected, budget, pod);
    if (own.length > 1 && isEvicted(pod, removesPodOfSeveralBudgets))
      append(shared, multipleBudgetsMessage(own), pod);
  }
  const never = [...selected].flatMap(([budget, itsPods]): Finding[] => {
    const { reason: kind, message } = budgetBlocker(budget);
    if (kind !== BlockerReason.DisruptionBudgetNeverAllows) return [];
    const { namespace, name } = budget.metadata;
    return [
      warning(
        `${message.replace(/\.$/, '')} (${numbered(itsPods.length, 'pod')})`,
        'do so before a maintenance of their nodes: the drain blocks there. kubectl maintenance plan shows it in advance',
        `poddisruptionbudget/${namespace}/${name}`,
      ),
    ];
  });
  const several = [...shared].map(([message, itsPods]) =>
    warning(
      `${message.replace(/\.$/, '')} (${listed(itsPods.map(podName))})`,
      'change the selectors: such a pod is never evicted',
    ),
  );
  const byMessage = (a: Finding, b: Finding) => compareNames(a.message, b.message);
  return listedFindings(
    [...never.toSorted(byMessage), ...several.toSorted(byMessage)],
    `${numbered(budgets.length, 'PodDisruptionBudget')}: none can never allow a disruption`,
  );
}

function append<K, V>(lists: Map<K, V[]>, key: K, value: V): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [value]);
  else list.push(value);
}

/** Returns false for pods that leave in another way than by the eviction API, which alone respects budgets. `removes`: the evacuator does not leave it to that. */
function isEvicted(pod: Pod, removes: (evacuatorClass: string) => boolean = () => true): boolean {
  const leaves = isFinished(pod) || pod.metadata.deletionTimestamp !== undefined;
  const { evacuators } = registeredEvacuators(pod);
  const isServed = evacuators.some(
    ({ evacuatorClass }) => removes(evacuatorClass) && inapplicableReason(evacuatorClass, pod) === undefined,
  );
  return !leaves && podTypeOf(pod) === 'Default' && !isServed;
}
