import { describe, expect, test } from '@jest/globals';
import { customResourceDefinitions } from '../../../api/crd.ts';
import {
  type Definition,
  definitionProblem,
  type Schema,
  unknownFields,
} from '../../../domain/installation/definition.ts';

const object = (properties: Record<string, Schema>): Schema => ({ type: 'object', properties });
const text: Schema = { type: 'string' };

function definition(
  openAPIV3Schema: Schema,
  { name = 'v1', served = true, established = 'True' } = {},
): Definition {
  return {
    spec: { names: { kind: 'Car' }, versions: [{ name, served, schema: { openAPIV3Schema } }] },
    status: { conditions: [{ type: 'Established', status: established }] },
  };
}

describe('a field is dropped', () => {
  const status = (...fields: string[]) =>
    object({ status: object(Object.fromEntries(fields.map((field) => [field, text]))) });

  test.each([
    {
      when: 'never, if the schemas are equal',
      installed: status('a', 'b'),
      wanted: status('a', 'b'),
      want: [],
    },
    {
      when: 'never, if the installed schema has more',
      installed: status('a', 'b'),
      wanted: status('a'),
      want: [],
    },
    {
      when: 'if the schema lacks it',
      installed: status('a'),
      wanted: status('a', 'b'),
      want: ['Car.status.b'],
    },
    {
      when: 'with all that it contains',
      installed: object({}),
      wanted: status('a', 'b'),
      want: ['Car.status'],
    },
    {
      when: 'in lists',
      installed: object({ nodes: { type: 'array', items: status() } }),
      wanted: object({ nodes: { type: 'array', items: status('a') } }),
      want: ['Car.nodes[].status.a'],
    },
    {
      when: 'in maps',
      installed: object({ nodes: { type: 'object', additionalProperties: status() } }),
      wanted: object({ nodes: { type: 'object', additionalProperties: status('a') } }),
      want: ['Car.nodes.*.status.a'],
    },
    {
      when: 'not where the schema permits any field',
      installed: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      wanted: status('a'),
      want: [],
    },
    {
      when: 'not where the schema is that of a map',
      installed: object({ labels: { type: 'object', additionalProperties: text } }),
      wanted: object({ labels: object({ app: text }) }),
      want: [],
    },
    {
      when: 'or its value rejected, if the enumeration lacks it',
      installed: object({ stage: { ...text, enum: ['Idle'] } }),
      wanted: object({ stage: { ...text, enum: ['Idle', 'Drain'] } }),
      want: ['Car.stage = Drain'],
    },
  ])('$when', ({ installed, wanted, want }) => {
    expect(unknownFields(definition(installed), definition(wanted))).toEqual(want);
  });

  test('if the version is not installed', () => {
    const wanted = definition(status('a'), { name: 'v2' });
    expect(unknownFields(definition(status('a')), wanted)).toEqual(['Car.status']);
  });

  test.each(customResourceDefinitions().map((crd) => ({ name: crd.metadata.name, crd })))(
    'by $name of this release: none',
    ({ crd }) => {
      const one = crd as unknown as Definition;
      expect(unknownFields(one, one)).toEqual([]);
    },
  );
});

describe('a definition', () => {
  test.each([
    { when: 'is established and serves the version', installed: definition(text), want: undefined },
    {
      when: 'is not established',
      installed: definition(text, { established: 'False' }),
      want: 'is not established yet',
    },
    { when: 'has no status', installed: { spec: {} }, want: 'is not established yet' },
    {
      when: 'serves another version',
      installed: definition(text, { name: 'v2' }),
      want: 'does not serve version v1',
    },
    {
      when: 'does not serve the version',
      installed: definition(text, { served: false }),
      want: 'does not serve version v1',
    },
  ])('that $when: $want', ({ installed, want }) => {
    expect(definitionProblem(installed, definition(text))).toBe(want);
  });
});
