import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { LabelSelector, NodeSelectorRequirement } from '../../../api/core.ts';
import { selectorKey, selectsLabels } from '../../../domain/common/labelSelector.ts';
import { selectsNode } from '../../../domain/common/nodeSelector.ts';

const requirement = (
  key: string,
  operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist',
  values?: string[],
): LabelSelector => ({
  matchExpressions: [{ key, operator, values }],
});

describe('a label selector', () => {
  test.each<{ when: string; selector: LabelSelector; labels: Record<string, string>; selects: boolean }>([
    { when: 'empty: everything', selector: {}, labels: {}, selects: true },
    {
      when: 'matchLabels equal',
      selector: { matchLabels: { app: 'a' } },
      labels: { app: 'a', tier: 'x' },
      selects: true,
    },
    {
      when: 'matchLabels differ',
      selector: { matchLabels: { app: 'a' } },
      labels: { app: 'b' },
      selects: false,
    },
    {
      when: 'In: value listed',
      selector: requirement('app', 'In', ['a', 'b']),
      labels: { app: 'b' },
      selects: true,
    },
    { when: 'In: key absent', selector: requirement('app', 'In', ['a']), labels: {}, selects: false },
    {
      when: 'NotIn: value listed',
      selector: requirement('app', 'NotIn', ['a']),
      labels: { app: 'a' },
      selects: false,
    },
    { when: 'NotIn: key absent', selector: requirement('app', 'NotIn', ['a']), labels: {}, selects: true },
    {
      when: 'Exists: key present',
      selector: requirement('app', 'Exists'),
      labels: { app: '' },
      selects: true,
    },
    { when: 'Exists: key absent', selector: requirement('app', 'Exists'), labels: {}, selects: false },
    {
      when: 'DoesNotExist: key present',
      selector: requirement('app', 'DoesNotExist'),
      labels: { app: 'a' },
      selects: false,
    },
    {
      when: 'DoesNotExist: key absent',
      selector: requirement('app', 'DoesNotExist'),
      labels: {},
      selects: true,
    },
    {
      when: 'labels and expressions must all hold',
      selector: { matchLabels: { app: 'a' }, ...requirement('tier', 'Exists') },
      labels: { app: 'a' },
      selects: false,
    },
  ])('$when', ({ selector, labels, selects }) => {
    expect(selectsLabels(selector, labels)).toBe(selects);
  });
});

describe('the key of a selector', () => {
  test('is empty without a selector, and not for a selector that selects everything', () => {
    expect(selectorKey(undefined)).toBe('');
    expect(selectorKey({})).not.toBe('');
  });

  test('matchLabels is shorthand for In', () => {
    expect(selectorKey({ matchLabels: { app: 'a' } })).toBe(selectorKey(requirement('app', 'In', ['a'])));
  });

  test('does not depend on the order in which a selector was written', () => {
    const token = fc.constantFrom('a', 'b', 'c');
    const expression = fc.record({
      key: token,
      operator: fc.constantFrom('In', 'NotIn'),
      values: fc.array(token),
    });
    fc.assert(
      fc.property(fc.array(expression), (expressions) => {
        const matchExpressions = expressions as NonNullable<LabelSelector['matchExpressions']>;
        const reversed = matchExpressions
          .map((e) => ({ ...e, values: (e.values ?? []).toReversed() }))
          .toReversed();
        expect(selectorKey({ matchExpressions: reversed })).toBe(selectorKey({ matchExpressions }));
      }),
    );
  });
});

describe('a node selector', () => {
  const node = { metadata: { name: 'n1', labels: { zone: 'a', cores: '8' } } };
  const expression = (e: NodeSelectorRequirement) => ({ nodeSelectorTerms: [{ matchExpressions: [e] }] });
  test.each([
    { when: 'no terms match no node', selector: { nodeSelectorTerms: [] }, selects: false },
    { when: 'an empty term matches no node', selector: { nodeSelectorTerms: [{}] }, selects: false },
    { when: 'In', selector: expression({ key: 'zone', operator: 'In', values: ['a'] }), selects: true },
    {
      when: 'NotIn, key absent',
      selector: expression({ key: 'rack', operator: 'NotIn', values: ['r'] }),
      selects: true,
    },
    { when: 'Exists', selector: expression({ key: 'rack', operator: 'Exists' }), selects: false },
    { when: 'DoesNotExist', selector: expression({ key: 'rack', operator: 'DoesNotExist' }), selects: true },
    {
      when: 'Gt, greater',
      selector: expression({ key: 'cores', operator: 'Gt', values: ['7'] }),
      selects: true,
    },
    {
      when: 'Gt, equal',
      selector: expression({ key: 'cores', operator: 'Gt', values: ['8'] }),
      selects: false,
    },
    {
      when: 'Lt, lesser',
      selector: expression({ key: 'cores', operator: 'Lt', values: ['9'] }),
      selects: true,
    },
    {
      when: 'Lt, not a number',
      selector: expression({ key: 'zone', operator: 'Lt', values: ['9'] }),
      selects: false,
    },
    {
      when: 'the field metadata.name',
      selector: {
        nodeSelectorTerms: [
          { matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: ['n1'] }] },
        ],
      },
      selects: true,
    },
    {
      when: 'terms are ORed',
      selector: {
        nodeSelectorTerms: [
          { matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: ['n2'] }] },
          { matchExpressions: [{ key: 'zone', operator: 'Exists' as const }] },
        ],
      },
      selects: true,
    },
  ])('$when', ({ selector, selects }) => {
    expect(selectsNode(selector, node)).toBe(selects);
  });
});
