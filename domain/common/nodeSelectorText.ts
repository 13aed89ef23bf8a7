import type { NodeSelectorRequirement } from '../../api/core.ts';
import { oneLine } from './text.ts';

const maxShownLength = 80;

export type ParsedSelector =
  | { ok: true; requirements: NodeSelectorRequirement[] }
  | { ok: false; problem: string };

type Form = readonly [pattern: RegExp, requirement: (key: string, value: string) => NodeSelectorRequirement];

const key = String.raw`([A-Za-z0-9][-A-Za-z0-9_./]*)`;
const value = String.raw`([-A-Za-z0-9_.]*)`;

/** The forms of a requirement in kubectl's --selector. */
const forms: readonly Form[] = [
  [
    new RegExp(`^${key}\\s+in\\s*\\(([^()]*)\\)$`),
    (k, list) => ({ key: k, operator: 'In', values: valuesOf(list) }),
  ],
  [
    new RegExp(`^${key}\\s+notin\\s*\\(([^()]*)\\)$`),
    (k, list) => ({ key: k, operator: 'NotIn', values: valuesOf(list) }),
  ],
  [new RegExp(`^${key}\\s*!=\\s*${value}$`), (k, v) => ({ key: k, operator: 'NotIn', values: [v] })],
  [new RegExp(`^${key}\\s*==?\\s*${value}$`), (k, v) => ({ key: k, operator: 'In', values: [v] })],
  [new RegExp(`^${key}\\s*>\\s*(-?\\d+)$`), (k, v) => ({ key: k, operator: 'Gt', values: [v] })],
  [new RegExp(`^${key}\\s*<\\s*(-?\\d+)$`), (k, v) => ({ key: k, operator: 'Lt', values: [v] })],
  [new RegExp(`^!\\s*${key}$`), (k) => ({ key: k, operator: 'DoesNotExist' })],
  [new RegExp(`^${key}$`), (k) => ({ key: k, operator: 'Exists' })],
];

/** Parses a label selector such as `pool=gpu,zone in (a,b),!spot` into the requirements of one NodeSelector term. */
export function parseNodeSelector(text: string): ParsedSelector {
  const parts = partsOf(text);
  if (parts.length === 0)
    return { ok: false, problem: 'expected a label selector such as pool=gpu (got none)' };
  const requirements: NodeSelectorRequirement[] = [];
  for (const part of parts) {
    const requirement = requirementOf(part);
    if (requirement === undefined)
      return {
        ok: false,
        problem: `expected requirements such as pool=gpu, zone in (a,b) or !spot (got "${oneLine(part, maxShownLength)}")`,
      };
    requirements.push(requirement);
  }
  return { ok: true, requirements };
}

/** Splits at commas outside of parentheses, in one pass over a text of any length. */
function partsOf(text: string): string[] {
  if (text.trim() === '') return [];
  const parts: string[] = [];
  let start = 0;
  let isInList = false;
  for (let index = 0; index < text.length; index += 1) {
    const character = text[index];
    if (character === '(') isInList = true;
    else if (character === ')') isInList = false;
    else if (character === ',' && !isInList) {
      parts.push(text.slice(start, index).trim());
      start = index + 1;
    }
  }
  return [...parts, text.slice(start).trim()];
}

function requirementOf(part: string): NodeSelectorRequirement | undefined {
  for (const [pattern, requirement] of forms) {
    const [found, first = '', second = ''] = pattern.exec(part) ?? [];
    if (found !== undefined) return requirement(first, second);
  }
  return undefined;
}

function valuesOf(list: string): string[] {
  return list.split(',').map((one) => one.trim());
}
