import type { PodDisruptionBudget } from '../../api/core.ts';
import { compareNames } from '../common/names.ts';
import { oneLine } from '../common/text.ts';
import type { Action, BudgetRow, Cause, Span } from './report.ts';
import { joined, totalMs, within } from './spans.ts';

/** Parts that the reports of maintenances and of windows share. */

export interface RecordedAction {
  /** RFC 3339. */
  readonly time: string;
  readonly who: string | undefined;
  readonly what: string;
  readonly source: Action['source'];
}

export interface Bounded<T> {
  readonly items: readonly T[];
  /** Number of items that are left out. */
  readonly more: number;
}

export function bounded<T>(items: readonly T[], max: number): Bounded<T> {
  return { items: items.slice(0, max), more: Math.max(0, items.length - max) };
}

const maxActions = 300;
const maxActionLength = 600;
const maxNameLength = 253;

/** Returns the newest actions, oldest first. Those without a time are left out. */
export function reportActions(actions: readonly RecordedAction[]): Bounded<Action> {
  const timed = actions
    .map(({ time, who, what, source }): Action => {
      return {
        atMs: Date.parse(time),
        ...(who && { who: oneLine(who, maxNameLength) }),
        what: oneLine(what, maxActionLength),
        source,
      };
    })
    .filter(({ atMs }) => !Number.isNaN(atMs))
    .toSorted((a, b) => a.atMs - b.atMs);
  return { items: timed.slice(-maxActions), more: Math.max(0, timed.length - maxActions) };
}

const maxCauseLength = 600;

/** Returns the cause as far as it was observed within the span; undefined if it was not. */
export function causeOf(
  { text, subjects, moreSubjects, spans }: Pick<Cause, 'text' | 'subjects' | 'moreSubjects' | 'spans'>,
  span: Span,
): Cause[] {
  const observed = joined(spans.flatMap((one) => within(one, span) ?? []));
  const last = observed.at(-1);
  if (last === undefined) return [];
  return [
    {
      text: oneLine(text, maxCauseLength),
      subjects: subjects.map((one) => oneLine(one, maxCauseLength)),
      moreSubjects,
      spans: observed,
      totalMs: totalMs(observed),
      isOpen: last.toMs >= span.toMs,
    },
  ];
}

const maxBudgets = 20;

/** Returns the PodDisruptionBudgets that the causes name, as they are now. */
export function budgetRows(budgets: readonly PodDisruptionBudget[], causes: readonly Cause[]): BudgetRow[] {
  return budgets
    .flatMap((budget): BudgetRow[] => {
      const { namespace = '', name } = budget.metadata;
      const own = causes.filter(({ text }) => text.includes(`PodDisruptionBudget ${namespace}/${name} `));
      if (own.length === 0) return [];
      const heldMs = totalMs(own.flatMap(({ spans }) => spans));
      return [{ name: `${namespace}/${name}`, limit: limitOf(budget), state: budgetState(budget), heldMs }];
    })
    .toSorted((a, b) => (b.heldMs ?? 0) - (a.heldMs ?? 0) || compareNames(a.name, b.name))
    .slice(0, maxBudgets);
}

function limitOf({ spec: { minAvailable, maxUnavailable } }: PodDisruptionBudget): string {
  if (minAvailable !== undefined) return oneLine(`minAvailable ${minAvailable}`, maxNameLength);
  return oneLine(`maxUnavailable ${maxUnavailable ?? 0}`, maxNameLength);
}

function budgetState({ status }: PodDisruptionBudget): string {
  if (status === undefined) return 'not computed yet';
  const { currentHealthy, desiredHealthy, expectedPods, disruptionsAllowed } = status;
  return `${currentHealthy} of ${expectedPods} pods healthy, ${desiredHealthy} required: ${disruptionsAllowed} may be disrupted`;
}

/** Returns the time in milliseconds; undefined if there is none. */
export function timeOf(time: string | undefined): number | undefined {
  const at = Date.parse(time ?? '');
  return Number.isNaN(at) ? undefined : at;
}
