import type { Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm } from '../api/core.ts';

/** The part of a Node that a NodeSelector can see. */
export type SelectableNode = Pick<Node, 'metadata'>;

/** Whether a core/v1 NodeSelector selects the node: terms are ORed, and "a null or empty term matches no objects". */
export function selectsNode(selector: NodeSelector, node: SelectableNode): boolean {
  return selector.nodeSelectorTerms.some((term) => matchesTerm(term, node));
}

/** Nodes that the selector calls by their names, whether or not they exist. */
export function namedNodes({ nodeSelectorTerms }: NodeSelector): string[] {
  return nodeSelectorTerms
    .filter(({ matchExpressions = [] }) => matchExpressions.length === 0)
    .flatMap(({ matchFields = [] }) => matchFields)
    .flatMap(({ key, operator, values = [] }) =>
      key === 'metadata.name' && operator === 'In' ? values : [],
    );
}

function matchesTerm(
  { matchExpressions = [], matchFields = [] }: NodeSelectorTerm,
  node: SelectableNode,
): boolean {
  if (matchExpressions.length + matchFields.length === 0) return false;
  const labels = node.metadata.labels ?? {};
  // metadata.name is the one field that core/v1 lets a node selector match.
  const fields: Record<string, string> = { 'metadata.name': node.metadata.name };
  return (
    matchExpressions.every((requirement) => meets(requirement, labels[requirement.key])) &&
    matchFields.every((requirement) => meets(requirement, fields[requirement.key]))
  );
}

function meets({ operator, values = [] }: NodeSelectorRequirement, value: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'Gt':
      return compareIntegers(value, values[0], (a, b) => a > b);
    case 'Lt':
      return compareIntegers(value, values[0], (a, b) => a < b);
  }
}

const integer = /^[+-]?\d+$/;

/** "If the operator is Gt or Lt, the values array must have a single element, which will be interpreted as an integer." */
function compareIntegers(
  value: string | undefined,
  bound: string | undefined,
  holds: (a: bigint, b: bigint) => boolean,
): boolean {
  if (value === undefined || bound === undefined || !integer.test(value) || !integer.test(bound))
    return false;
  return holds(BigInt(value.replace('+', '')), BigInt(bound.replace('+', '')));
}
