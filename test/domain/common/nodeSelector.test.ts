import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { LabelSelector, NodeSelector, NodeSelectorRequirement } from '../../../api/core.ts';
import { selectorKey, selectsLabels } from '../../../domain/common/labelSelector.ts';
import { type SelectableNode, selectsNode } from '../../../domain/common/nodeSelector.ts';

const selectorOf = (...terms: NodeSelector['nodeSelectorTerms']): NodeSelector => ({
  nodeSelectorTerms: terms,
});
const byName = (...names: string[]) =>
  selectorOf(
    ...names.map((name) => ({
      matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: [name] }],
    })),
  );

/** The definition of core/v1, without an index. */
function selectsByDefinition({ nodeSelectorTerms }: NodeSelector, { metadata }: SelectableNode): boolean {
  const labels = new Map(Object.entries(metadata.labels ?? {}));
  const meets = ({ operator, values = [] }: NodeSelectorRequirement, value: string | undefined): boolean => {
    if (operator === 'Exists') return value !== undefined;
    if (operator === 'DoesNotExist') return value === undefined;
    if (operator === 'In') return value !== undefined && values.includes(value);
    if (operator === 'NotIn') return value === undefined || !values.includes(value);
    const [actual, bound] = [Number(value ?? 'x'), Number(values[0] ?? 'x')];
    return operator === 'Gt' ? actual > bound : actual < bound;
  };
  return nodeSelectorTerms.some(
    ({ matchExpressions = [], matchFields = [] }) =>
      matchExpressions.length + matchFields.length > 0 &&
      matchExpressions.every((one) => meets(one, labels.get(one.key))) &&
      matchFields.every((one) => meets(one, one.key === 'metadata.name' ? metadata.name : undefined)),
  );
}

const token = fc.constantFrom('a', 'b', '1', '2', 'constructor', 'metadata.name');
const requirement = fc.record({
  key: token,
  operator: fc.constantFrom<NodeSelectorRequirement['operator']>(
    'In',
    'NotIn',
    'Exists',
    'DoesNotExist',
    'Gt',
    'Lt',
  ),
  values: fc.array(token, { maxLength: 3 }),
});
const term = fc.record(
  {
    matchExpressions: fc.array(requirement, { maxLength: 3 }),
    matchFields: fc.array(requirement, { maxLength: 2 }),
  },
  { requiredKeys: [] },
);
const node = fc.record({
  metadata: fc.record({ name: token, labels: fc.dictionary(token, token, { noNullPrototype: true }) }),
});

test('an indexed selector selects the nodes that its terms select one by one', () => {
  fc.assert(
    fc.property(fc.array(term, { maxLength: 5 }), fc.array(node, { minLength: 1 }), (terms, nodes) => {
      const selector = { nodeSelectorTerms: terms };
      for (const one of nodes) expect(selectsNode(selector, one)).toBe(selectsByDefinition(selector, one));
    }),
    { numRuns: 1_000 },
  );
});

describe('a label that every JavaScript object inherits', () => {
  const unlabelled = { metadata: { name: 'n1', labels: {} } };
  test.each(['constructor', 'toString', 'valueOf'])('%s is absent unless the object has it', (key) => {
    const exists: NodeSelectorRequirement = { key, operator: 'Exists' };
    expect(selectsNode(selectorOf({ matchExpressions: [exists] }), unlabelled)).toBe(false);
    expect(selectsLabels({ matchExpressions: [{ key, operator: 'Exists' }] }, {})).toBe(false);
    expect(selectsLabels({ matchExpressions: [{ key, operator: 'DoesNotExist' }] }, {})).toBe(true);
    expect(selectsLabels({ matchExpressions: [{ key, operator: 'Exists' }] }, { [key]: '' })).toBe(true);
  });
});

/** Counts the reads of an object and of everything in it. */
function counted<T extends object>(target: T): { object: T; reads: () => number } {
  let reads = 0;
  const wrap = <U extends object>(inner: U): U =>
    new Proxy(inner, {
      get: (object, key) => {
        reads += 1;
        const value: unknown = Reflect.get(object, key);
        return typeof value === 'object' && value !== null ? wrap(value) : value;
      },
      getOwnPropertyDescriptor: (object, key) => {
        reads += 1;
        return Reflect.getOwnPropertyDescriptor(object, key);
      },
    });
  return { object: wrap(target), reads: () => reads };
}

describe('the cost of a selector', () => {
  const names = Array.from({ length: 10_000 }, (_, i) => `node-${i}`);
  const nodes = names.map((name) => ({ metadata: { name, labels: { 'kubernetes.io/hostname': name } } }));

  test('of 5,000 terms is paid once, not for each of 10,000 nodes', () => {
    const { object: selector, reads } = counted(byName(...names.slice(0, 5_000)));
    expect(nodes.slice(0, 1).filter((one) => selectsNode(selector, one))).toHaveLength(1);
    const once = reads();
    expect(nodes.filter((one) => selectsNode(selector, one))).toHaveLength(5_000);
    expect(reads()).toBe(once);
  });

  test.each([
    { what: 'names', selector: (count: number) => byName(...names.slice(0, count)) },
    {
      what: 'values of a label',
      selector: (count: number) =>
        selectorOf(
          ...names.slice(0, count).map((name) => ({
            matchExpressions: [
              { key: 'kubernetes.io/hostname', operator: 'In' as const, values: [name] },
              { key: 'pool', operator: 'DoesNotExist' as const },
            ],
          })),
        ),
    },
  ])('of terms with $what does not grow with their number, for a node that none selects', ({ selector }) => {
    const readsWith = (count: number) => {
      const { object, reads } = counted({
        metadata: { name: 'other', labels: { 'kubernetes.io/hostname': 'other' } },
      });
      expect(selectsNode(selector(count), object)).toBe(false);
      return reads();
    };
    expect(readsWith(5_000)).toBe(readsWith(1));
  });

  test('of the key of a label selector is paid once', () => {
    const values = Array.from({ length: 64 }, (_, i) => `v${i}`);
    const plan: LabelSelector = { matchExpressions: [{ key: 'app', operator: 'In', values }] };
    const { object: selector, reads } = counted(plan);
    const key = selectorKey(selector);
    const once = reads();
    for (let i = 0; i < 1_000; i++) expect(selectorKey(selector)).toBe(key);
    expect(reads()).toBe(once);
  });
});
