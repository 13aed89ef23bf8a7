import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  LabelSelector as LabelSelectorSchema,
  NodeSelector as NodeSelectorSchema,
} from '../../api/selectors.ts';
import { changedSearchAttributes } from '../../workflows/shared/searchAttributes.ts';
import { selectorKey, selectorText, selectsLabels } from '../../domain/common/labelSelector.ts';
import { listed, shortened } from '../../domain/common/names.ts';
import { namedNodes, namesOnly, selectsNode } from '../../domain/common/nodeSelector.ts';
import { parseNodeSelector } from '../../domain/common/nodeSelectorText.ts';
import { quantityOf } from '../../domain/capacity/quantity.ts';
import { evacuationName } from '../../domain/evacuation/evacuation.ts';
import { evictionRequestName } from '../../domain/evacuation/evictionRequest.ts';
import { expectReadable, fuzz } from './kit/fuzz.ts';
import { mutationsOf, textsLike } from './kit/mutations.ts';

/** Labels, selectors and names: what the schema accepts is matched, and every text of a selector is parsed or explained. */

const labels = fc.dictionary(
  fc.constantFrom('app', 'pool', 'generation', 'constructor', '__proto__', 'example.com/a'),
  fc.oneof(
    fc.constantFrom('web', '3', '-1', '+5', '', '9'.repeat(63)),
    fc.stringMatching(/^[-A-Za-z0-9_.]{0,63}$/),
  ),
);

describe('any selector that the schema accepts', () => {
  test('selects labels or not', () =>
    fuzz(
      fc.tuple(
        mutationsOf([
          { matchLabels: { app: 'web', constructor: 'x' } },
          {
            matchExpressions: [
              { key: 'app', operator: 'NotIn', values: ['a', 'b'] },
              { key: 'pool', operator: 'Exists' },
            ],
          },
        ]),
        labels,
      ),
      ([value, given]) => {
        const parsed = LabelSelectorSchema.safeParse(value);
        if (!parsed.success) return;
        expect(typeof selectsLabels(parsed.data as Parameters<typeof selectsLabels>[0], given)).toBe(
          'boolean',
        );
        selectorKey(parsed.data as Parameters<typeof selectsLabels>[0]);
        selectorText(parsed.data as Parameters<typeof selectsLabels>[0]);
      },
      300,
    ));

  test('selects nodes or not', () =>
    fuzz(
      fc.tuple(
        mutationsOf([
          {
            nodeSelectorTerms: [
              {
                matchExpressions: [
                  { key: 'pool', operator: 'In', values: ['gpu'] },
                  { key: 'generation', operator: 'Gt', values: ['3'] },
                ],
                matchFields: [{ key: 'metadata.name', operator: 'In', values: ['n1'] }],
              },
            ],
          },
        ]),
        labels,
      ),
      ([value, given]) => {
        const parsed = NodeSelectorSchema.safeParse(value);
        if (!parsed.success) return;
        const selector = parsed.data as Parameters<typeof selectsNode>[0];
        expect(typeof selectsNode(selector, { metadata: { name: 'n1', labels: given } })).toBe('boolean');
        namedNodes(selector);
        namesOnly(selector);
      },
      300,
    ));
});

test('any text of a selector is parsed, or its problem shows the part that is wrong', () =>
  fuzz(
    textsLike(['pool=gpu,zone in (a,b),!spot', 'a != b', 'x notin (y)', 'generation > 3', 'a==b']),
    (text) => {
      const parsed = parseNodeSelector(text);
      if (!parsed.ok) return expectReadable(parsed.problem);
      expect(parsed.requirements.length).toBeLessThanOrEqual(text.length);
      const selector = { nodeSelectorTerms: [{ matchExpressions: parsed.requirements }] };
      expect(typeof selectsNode(selector, { metadata: { name: 'n1', labels: { pool: 'gpu' } } })).toBe(
        'boolean',
      );
    },
    400,
  ));

test('a selector of a million commas is split in one pass', () => {
  const splits = (text: string) => parseNodeSelector(text).ok;
  expect(splits(','.repeat(1_000_000))).toBe(false);
  expect(splits(`a in (${'b,'.repeat(500_000)})`)).toBe(true);
});

describe('any name of a node', () => {
  const names = fc.array(textsLike(['node-1', 'ip-10-0-0-1.eu-central-1.compute.internal']), {
    maxLength: 60,
  });

  test('is in the search attributes if all of them fit', () =>
    fuzz(
      names,
      (nodes) => {
        const run = { name: 'rack-7', cluster: { name: 'c' }, stage: 'Drain', nodes };
        const none = { get: () => undefined } as unknown as Parameters<typeof changedSearchAttributes>[1];
        for (const { value } of changedSearchAttributes(run, none))
          expect(Buffer.byteLength(JSON.stringify(value))).toBeLessThanOrEqual(2_048);
      },
      300,
    ));

  test('makes the name of an object that an apiserver accepts, if it is one', () =>
    fuzz(
      fc.tuple(
        fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,3}$/),
        fc.uuid(),
      ),
      ([name, uid]) => {
        const isName = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
        const made = [
          evacuationName({ name, uid }),
          evictionRequestName({ name, uid }),
          evictionRequestName({ name, uid }, { name: 'other', uid }),
        ];
        for (const one of made) {
          expect(one).toMatch(isName);
          expect(one.length).toBeLessThanOrEqual(253);
        }
        expect(shortened(name).length).toBeLessThanOrEqual(63);
        expect(listed([name, name, name, name])).toContain('1 more');
      },
      300,
    ));
});

test('any quantity is a number', () =>
  fuzz(textsLike(['100m', '1Ki', '1e3', '-0.5', '1E', '.5']), (text) => {
    const bounded = text.slice(0, 64);
    expect(Number.isNaN(quantityOf(bounded, 'Milli'))).toBe(false);
    expect(Number.isNaN(quantityOf(bounded, 'One'))).toBe(false);
  }));
