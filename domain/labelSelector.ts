import type { LabelSelector, LabelSelectorRequirement } from '../api/core.ts';

export type Labels = Readonly<Record<string, string>>;

/**
 * Whether a meta/v1 LabelSelector selects an object with these labels. An empty selector selects everything.
 * NotIn and DoesNotExist also select objects without the key, as in Kubernetes.
 */
export function selectsLabels(selector: LabelSelector, labels: Labels): boolean {
  const wanted = Object.entries(selector.matchLabels ?? {});
  return (
    wanted.every(([key, value]) => labels[key] === value) &&
    (selector.matchExpressions ?? []).every((requirement) => meets(requirement, labels))
  );
}

function meets({ key, operator, values = [] }: LabelSelectorRequirement, labels: Labels): boolean {
  const value = labels[key];
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

/** In kubectl's notation: `app=web,tier in (a,b)`. */
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

/**
 * One text per meaning: two selectors that differ only in the order in which they were written have the same key.
 * No selector has the key ''.
 */
export function selectorKey(selector: LabelSelector | undefined): string {
  if (selector === undefined) return '';
  const labels = Object.entries(selector.matchLabels ?? {}).map(([key, value]) => [key, 'In', value]);
  const expressions = (selector.matchExpressions ?? []).map(({ key, operator, values = [] }) => [
    key,
    operator,
    ...[...new Set(values)].toSorted(),
  ]);
  const requirements = new Set([...labels, ...expressions].map((parts) => JSON.stringify(parts)));
  return JSON.stringify([...requirements].toSorted());
}
