import { parseSync } from 'oxc-parser';

/** Small faults of a source file, of the kind that authors make: each replaces one part of its text. */
export interface Mutant {
  /** Path from the root of the repository. */
  readonly file: string;
  readonly operator: string;
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly before: string;
  readonly after: string;
}

/** A node of the syntax tree, as ESTree describes it. */
interface SyntaxNode {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly [field: string]: unknown;
}

interface Replacement {
  readonly operator: string;
  readonly start: number;
  readonly end: number;
  readonly after: string;
}

type Operator = (node: SyntaxNode, text: string) => readonly Replacement[];

const comparisons: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
};
const sums: Readonly<Record<string, string>> = { '+': '-', '-': '+', '*': '/', '/': '*', '%': '*' };
const logical: Readonly<Record<string, string>> = { '&&': '||', '||': '&&', '??': '&&' };

const operators: readonly Operator[] = [
  replacedOperator('BinaryExpression', 'comparison', comparisons),
  replacedOperator('BinaryExpression', 'arithmetic', sums),
  replacedOperator('LogicalExpression', 'logical operator', logical),
  negatedCondition,
  removedReturn,
  flippedBoolean,
  emptiedArray,
  changedNumber,
  swappedQuantifier,
];

/** Returns the mutants of a file, in the order of its text. Types are erased, so that they have none. */
export function mutantsOf(file: string, text: string): Mutant[] {
  const { program, errors } = parseSync(file, text);
  const [error] = errors;
  if (error !== undefined) throw new Error(`${file}: ${error.message}`);
  const found = nodesIn(program as unknown as SyntaxNode).flatMap((node) =>
    operators.flatMap((operator) => operator(node, text)),
  );
  return found
    .map((one) => ({
      file,
      operator: one.operator,
      line: text.slice(0, one.start).split('\n').length,
      start: one.start,
      end: one.end,
      before: text.slice(one.start, one.end),
      after: one.after,
    }))
    .filter((mutant) => parseSync(file, mutatedText(text, mutant)).errors.length === 0)
    .toSorted((a, b) => a.start - b.start || a.end - b.end || (a.after < b.after ? -1 : 1));
}

export function mutatedText(text: string, { start, end, after }: Mutant): string {
  return text.slice(0, start) + after + text.slice(end);
}

/** Returns all nodes but those of types and imports. */
function nodesIn(root: SyntaxNode): SyntaxNode[] {
  const nodes: SyntaxNode[] = [];
  const left: SyntaxNode[] = [root];
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    if (node.type.startsWith('TS') && !isTransparent(node)) continue;
    if (node.type === 'ImportDeclaration') continue;
    nodes.push(node);
    left.push(...Object.values(node).flatMap(childrenOf));
  }
  return nodes;
}

/** An expression with a type beside it. */
function isTransparent({ type }: SyntaxNode): boolean {
  return ['TSAsExpression', 'TSSatisfiesExpression', 'TSNonNullExpression'].includes(type);
}

function childrenOf(value: unknown): SyntaxNode[] {
  if (Array.isArray(value)) return value.flatMap(childrenOf);
  return isNode(value) ? [value] : [];
}

function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && typeof (value as SyntaxNode).type === 'string';
}

function replacedOperator(
  type: string,
  operator: string,
  replacements: Readonly<Record<string, string>>,
): Operator {
  return (node, text) => {
    const { left, right, operator: symbol } = node;
    if (node.type !== type || !isNode(left) || !isNode(right)) return [];
    const by = Object.hasOwn(replacements, String(symbol)) ? replacements[String(symbol)] : undefined;
    if (by === undefined || isText(left) || isText(right)) return [];
    const start = left.end + text.slice(left.end, right.start).indexOf(String(symbol));
    return [{ operator, start, end: start + String(symbol).length, after: by }];
  };
}

function isText({ type, value }: SyntaxNode): boolean {
  return type === 'TemplateLiteral' || (type === 'Literal' && typeof value === 'string');
}

function negatedCondition({ type, test }: SyntaxNode, text: string): Replacement[] {
  if (!['IfStatement', 'ConditionalExpression', 'WhileStatement'].includes(type) || !isNode(test)) return [];
  const { start, end } = test;
  return [{ operator: 'negated condition', start, end, after: `!(${text.slice(start, end)})` }];
}

/** Removes the branch that returns early. */
function removedReturn({ type, start, end, consequent, alternate }: SyntaxNode): Replacement[] {
  const returns = isNode(consequent) && consequent.type === 'ReturnStatement';
  if (type !== 'IfStatement' || !returns || isNode(alternate)) return [];
  return [{ operator: 'removed return', start, end, after: ';' }];
}

function flippedBoolean({ type, start, end, value }: SyntaxNode): Replacement[] {
  if (type !== 'Literal' || typeof value !== 'boolean') return [];
  return [{ operator: 'boolean', start, end, after: String(!value) }];
}

function emptiedArray({ type, start, end, elements }: SyntaxNode): Replacement[] {
  if (type !== 'ArrayExpression' || !Array.isArray(elements) || elements.length === 0) return [];
  return [{ operator: 'emptied array', start, end, after: '[]' }];
}

function changedNumber({ type, start, end, value, raw }: SyntaxNode): Replacement[] {
  if (type !== 'Literal' || typeof value !== 'number') return [];
  return [{ operator: 'number', start, end, after: `(${String(raw)} + 1)` }];
}

/** Swaps some and every. */
function swappedQuantifier({ type, property, computed }: SyntaxNode): Replacement[] {
  if (type !== 'MemberExpression' || computed === true || !isNode(property)) return [];
  const { name, start, end } = property;
  if (name !== 'some' && name !== 'every') return [];
  return [{ operator: 'quantifier', start, end, after: name === 'some' ? 'every' : 'some' }];
}

/** Chooses mutants so that the same seed chooses the same ones, and a larger sample contains a smaller one. */
export function sampleOf(mutants: readonly Mutant[], size: number, seed: number): Mutant[] {
  const ranked = mutants.map((mutant, index) => ({ mutant, rank: mixed(seed, index) }));
  return ranked
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, size)
    .map(({ mutant }) => mutant);
}

/** Mixes two integers to a number of 32 bits, with the finalizer of MurmurHash3. */
function mixed(seed: number, index: number): number {
  let hash = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(index + 1, 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Identifies a mutant of this text in results that are kept. */
export function mutantKey({ file, start, end, before, after }: Mutant): string {
  return `${file}:${start}-${end}: ${before} -> ${after}`;
}
