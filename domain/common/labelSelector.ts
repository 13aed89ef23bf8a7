import type { LabelSelector, LabelSelectorRequirement } from '../../api/core.ts';
import { memoized } from './memoized.ts';

export type Labels = Readonly<Record<string, string>>;

/** Returns the value of a label. `constructor` is a valid label key, and every object inherits a property of that name. */
export function labelOf(labels: Labels, key: string): string | undefined {
  return Object.hasOwn(labels, key) ? labels[key] : undefined;
}

/**
 * Returns true if a meta/v1 LabelSelector selects an object with these labels. An empty selector selects everything.
 * NotIn and DoesNotExist also select objects without the key, as in Kubernetes.
 */
export function selectsLabels(selector: LabelSelector, labels: Labels): boolean {
  const required = Object.entries(selector.matchLabels ?? {});
  return (
    required.every(([key, value]) => labelOf(labels, key) === value) &&
    (selector.matchExpressions ?? []).every((requirement) => meets(requirement, labels))
  );
}

function meets({ key, operator, values = [] }: LabelSelectorRequirement, labels: Labels): boolean {
  const value = labelOf(labels, key);
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
  }
}

/** Formats the selector as kubectl does: `app=web,tier in (a,b)`. */
export function selectorText({ matchLabels = {}, matchExpressions = [] }: LabelSelector): string {
  const labels = Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`);
  return [...labels, ...matchExpressions.map(requirementText)].join(',');
}

function requirementText({ key, operator, values = [] }: LabelSelectorRequirement): string {
  switch (operator) {
    case 'In':
      return `${key} in (${values.join(',')})`;
    case 'NotIn':
      return `${key} notin (${values.join(',')})`;
    case 'Exists':
      return key;
    case 'DoesNotExist':
      return `!${key}`;
  }
}

/** Returns a key that is equal for selectors that differ only in the order of their requirements. A missing selector has the key ''. */
export function selectorKey(selector: LabelSelector | undefined): string {
  return selector === undefined ? '' : keyOf(selector);
}

/** The drain targets of a node compare every selector of a plan with every other, so each key is computed once. */
const keyOf = memoized((selector: LabelSelector): string => {
  const labels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => [key, 'In', value]);
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values = [] }) => [
    key,
    operator,
    ...[...new Set(values)].toSorted(),
  ]);
  const requirements = new Set([...labels, ...expressions].map((parts) => JSON.stringify(parts)));
  return JSON.stringify([...requirements].toSorted());
});
