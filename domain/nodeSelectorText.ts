import type { NodeSelectorRequirement } from '../api/core.ts';

/** What kubectl's notation says, or what is wrong with it. */
export type ParsedSelector =
  | { ok: true; requirements: NodeSelectorRequirement[] }
  | { ok: false; problem: string };

type Form = readonly [pattern: RegExp, requirement: (key: string, value: string) => NodeSelectorRequirement];

const key = String.raw`([A-Za-z0-9][-A-Za-z0-9_./]*)`;
const value = String.raw`([-A-Za-z0-9_.]*)`;

/** Each form of one requirement, as kubectl's --selector has them. */
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

/** A label selector as people type it, `pool=gpu,zone in (a,b),!spot`, as the requirements of one term of a NodeSelector. */
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
        problem: `expected requirements such as pool=gpu, zone in (a,b) or !spot (got "${part}")`,
      };
    requirements.push(requirement);
  }
  return { ok: true, requirements };
}

/** Cut at the commas that are in no parentheses. */
function partsOf(text: string): string[] {
  if (text.trim() === '') return [];
  return text.split(/,(?![^(]*\))/).map((part) => part.trim());
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
