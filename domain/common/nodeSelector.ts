import type { Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm } from '../../api/core.ts';
import { labelOf } from './labelSelector.ts';
import { memoized } from './memoized.ts';

/** The part of a Node that a NodeSelector matches. */
export type SelectableNode = Pick<Node, 'metadata'>;

/** Returns true if a core/v1 NodeSelector selects the node: terms are ORed, and "a null or empty term matches no objects". */
export function selectsNode(selector: NodeSelector, node: SelectableNode): boolean {
  const { byName, byLabel, others } = indexOf(selector);
  const { name, labels = {} } = node.metadata;
  const isMet = (term: Term) => term.every(({ holds, valueOf }) => holds(valueOf(node)));
  if (byName.get(name)?.some(isMet)) return true;
  // A node has few labels, and most selectors compare fewer.
  const keys = byLabel.size <= maxComparedLabels ? byLabel.keys() : Object.keys(labels);
  for (const key of keys) {
    const value = labelOf(labels, key);
    if (value !== undefined && byLabel.get(key)?.get(value)?.some(isMet)) return true;
  }
  return others.some(isMet);
}

const maxComparedLabels = 8;

/** Returns the nodes that the selector names, including nodes that do not exist. */
export function namedNodes({ nodeSelectorTerms }: NodeSelector): string[] {
  return nodeSelectorTerms
    .filter(({ matchExpressions = [] }) => matchExpressions.length === 0)
    .flatMap(({ matchFields = [] }) => matchFields)
    .flatMap(({ key, operator, values = [] }) =>
      key === 'metadata.name' && operator === 'In' ? values : [],
    );
}

/** Returns the only nodes that the selector can match, whatever their labels are; undefined if labels decide. */
export function namesOnly({ nodeSelectorTerms }: NodeSelector): string[] | undefined {
  const names = nodeSelectorTerms.map(({ matchFields = [] }) =>
    matchFields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In'),
  );
  return names.every((one) => one !== undefined) ? names.flatMap(({ values = [] }) => values) : undefined;
}

type ValueOf = (node: SelectableNode) => string | undefined;

/** The subject that a requirement compares. core/v1 supports no field but metadata.name. */
type Subject = { kind: 'Name' } | { kind: 'Label'; key: string } | { kind: 'UnknownField' };

interface Requirement {
  subject: Subject;
  operator: NodeSelectorRequirement['operator'];
  valueOf: ValueOf;
  values: ReadonlySet<string>;
  holds: (value: string | undefined) => boolean;
}

/** Requirements that are ANDed. */
type Term = readonly Requirement[];

/** Terms by the value that one of their requirements lists, without this requirement. */
type TermsByValue = Map<string, Term[]>;

/** A selector in the form in which a node is compared with few of its terms. */
interface SelectorIndex {
  byName: TermsByValue;
  byLabel: Map<string, TermsByValue>;
  others: Term[];
}

/** A selector may name thousands of nodes, and is matched with all nodes of the cluster after every change, so it is indexed once. */
const indexOf = memoized(({ nodeSelectorTerms }: NodeSelector): SelectorIndex => {
  const index: SelectorIndex = { byName: new Map(), byLabel: new Map(), others: [] };
  for (const term of nodeSelectorTerms.map(requirementsOf)) addTo(index, term);
  return index;
});

function addTo(index: SelectorIndex, term: Term): void {
  // An empty term matches no node.
  if (term.length === 0) return;
  const indexed = term.find(({ operator, subject }) => operator === 'In' && subject.kind !== 'UnknownField');
  if (indexed === undefined) return void index.others.push(term);
  const terms = termsOf(index, indexed.subject);
  const rest = term.filter((requirement) => requirement !== indexed);
  for (const value of indexed.values) {
    const found = terms.get(value);
    if (found === undefined) terms.set(value, [rest]);
    else found.push(rest);
  }
}

function termsOf({ byName, byLabel }: SelectorIndex, subject: Subject): TermsByValue {
  if (subject.kind !== 'Label') return byName;
  const terms = byLabel.get(subject.key) ?? new Map<string, Term[]>();
  byLabel.set(subject.key, terms);
  return terms;
}

function requirementsOf({ matchExpressions = [], matchFields = [] }: NodeSelectorTerm): Requirement[] {
  return [
    ...matchFields.map((one) =>
      requirementOf(one, { kind: one.key === 'metadata.name' ? 'Name' : 'UnknownField' }),
    ),
    ...matchExpressions.map((one) => requirementOf(one, { kind: 'Label', key: one.key })),
  ];
}

function requirementOf({ operator, values = [] }: NodeSelectorRequirement, subject: Subject): Requirement {
  const listed = new Set(values);
  const holds = predicateOf(operator, listed, values[0]);
  return { subject, operator, valueOf: valueOfSubject(subject), values: listed, holds };
}

function valueOfSubject(subject: Subject): ValueOf {
  switch (subject.kind) {
    case 'Name':
      return ({ metadata }) => metadata.name;
    case 'Label':
      return ({ metadata: { labels = {} } }) => labelOf(labels, subject.key);
    case 'UnknownField':
      return () => undefined;
  }
}

function predicateOf(
  operator: NodeSelectorRequirement['operator'],
  values: ReadonlySet<string>,
  first: string | undefined,
): Requirement['holds'] {
  switch (operator) {
    case 'In':
      return (value) => value !== undefined && values.has(value);
    case 'NotIn':
      return (value) => value === undefined || !values.has(value);
    case 'Exists':
      return (value) => value !== undefined;
    case 'DoesNotExist':
      return (value) => value === undefined;
    case 'Gt':
      return (value) => compareIntegers(value, first, (a, b) => a > b);
    case 'Lt':
      return (value) => compareIntegers(value, first, (a, b) => a < b);
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
