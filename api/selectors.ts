import * as z from 'zod';
import { ATOMIC_LIST, ATOMIC_MAP, type CelRule, cel, oneOf, text } from './schema.ts';

/**
 * core/v1 NodeSelector and meta/v1 LabelSelector with the validation of Kubernetes, which a CRD does not inherit. The sizes are limited, because
 * the apiserver rejects a rule whose worst-case cost is too high.
 */

const LABEL_KEY =
  /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$/;
const MAX_LABEL_KEY = 253 + 1 + 63;
const MAX_LABEL_VALUE = 63;
const MAX_NODE_NAME = 253;

export const MAX_LABELS = 32;
export const MAX_LABEL_VALUES = 64;
export const MAX_NODE_TERMS = 5000;
export const MAX_NODE_REQUIREMENTS = 12;
export const MAX_NODE_VALUES = 1000;
/** Terms that list values of one label, or one name, cost nearly nothing to match, however many there are. The others do (ADR 32). */
export const MAX_OTHER_NODE_TERMS = 100;

function atMost(max: number, noun: string): { error: string } {
  return { error: `expected at most ${max} ${noun}` };
}

export function labelKey() {
  const error = 'expected a label key such as app or example.com/app';
  return z.string({ error }).max(MAX_LABEL_KEY, { error }).regex(LABEL_KEY, { error });
}

export function labelValue() {
  const error =
    'expected a label value: letters, digits, "-", "_" and ".", starting and ending with a letter or digit, at most 63 characters';
  return z.string({ error }).max(MAX_LABEL_VALUE, { error }).regex(LABEL_VALUE, { error });
}

const takesValues: CelRule = {
  rule: "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
  message: 'values: give at least one value with operator In or NotIn',
};

const takesNoValues: CelRule = {
  rule: "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
  message: 'values: give no value with operator Exists or DoesNotExist',
};

const comparesOneInteger: CelRule = {
  rule: "!(self.operator in ['Gt', 'Lt']) || (has(self.values) && size(self.values) == 1 && self.values[0].matches('^-?[0-9]{1,18}$'))",
  message: 'values: give exactly one integer, in quotes, with operator Gt or Lt',
};

const namesOneNode: CelRule = {
  rule: "self.key == 'metadata.name' && self.operator in ['In', 'NotIn'] && has(self.values) && size(self.values) == 1",
  message:
    'matchFields takes key metadata.name with operator In or NotIn and exactly one value: for several nodes give one nodeSelectorTerm for each',
};

/** A rule for a map whose keys are label or annotation keys. */
export function hasQualifiedKeys(message: string): CelRule {
  return { rule: 'self.all(key, !format.qualifiedName().validate(key).hasValue())', message };
}

const isEmpty = (list: string) => `(!has(term.${list}) || size(term.${list}) == 0)`;
const isOneIn = (list: string) =>
  `has(term.${list}) && size(term.${list}) == 1 && term.${list}[0].operator == 'In'`;
const onlyLists = (list: string, other: string) => `(${isOneIn(list)} && ${isEmpty(other)})`;

const mostTermsOnlyList: CelRule = {
  rule: `self.filter(term, !${onlyLists('matchFields', 'matchExpressions')} && !${onlyLists('matchExpressions', 'matchFields')}).size() <= ${MAX_OTHER_NODE_TERMS}`,
  message: `nodeSelectorTerms may contain at most ${MAX_OTHER_NODE_TERMS} terms that are not one requirement with operator In: list more values in one requirement, or use one object for each group of nodes`,
};

const hasLabelKeys = hasQualifiedKeys('matchLabels keys must be label keys such as app or example.com/app');

const LabelSelectorRequirement = z
  .strictObject({
    key: labelKey().describe('key is the label key that the selector applies to.'),
    operator: oneOf(['In', 'NotIn', 'Exists', 'DoesNotExist']).describe(
      "operator represents a key's relationship to a set of values. Valid operators are In, NotIn, Exists and DoesNotExist.",
    ),
    values: z
      .array(labelValue(), { error: 'expected a list of label values' })
      .max(MAX_LABEL_VALUES, atMost(MAX_LABEL_VALUES, 'values'))
      .optional()
      .describe(
        'values is an array of string values. If the operator is In or NotIn, the values array must be non-empty. If the operator is Exists or DoesNotExist, the values array must be empty.',
      )
      .meta(ATOMIC_LIST),
  })
  .describe(
    'A label selector requirement is a selector that contains values, a key, and an operator that relates the key and values.',
  )
  .meta(cel(takesValues, takesNoValues));

export const LabelSelector = z
  .strictObject({
    matchLabels: z
      .record(labelKey(), labelValue())
      .optional()
      .describe(
        'matchLabels is a map of {key,value} pairs. A single {key,value} in the matchLabels map is equivalent to an element of matchExpressions, whose key field is "key", the operator is "In", and the values array contains only "value". The requirements are ANDed.',
      )
      .meta({ maxProperties: MAX_LABELS, ...cel(hasLabelKeys) }),
    matchExpressions: z
      .array(LabelSelectorRequirement, { error: 'expected a list of requirements' })
      .max(MAX_LABELS, atMost(MAX_LABELS, 'requirements'))
      .optional()
      .describe('matchExpressions is a list of label selector requirements. The requirements are ANDed.')
      .meta(ATOMIC_LIST),
  })
  .meta(ATOMIC_MAP);

function nodeSelectorRequirement(key: z.ZodType<string>, value: z.ZodType<string>, rules: CelRule[]) {
  return z
    .strictObject({
      key: key.describe('The label key that the selector applies to.'),
      operator: oneOf(['In', 'NotIn', 'Exists', 'DoesNotExist', 'Gt', 'Lt']).describe(
        "Represents a key's relationship to a set of values. Valid operators are In, NotIn, Exists, DoesNotExist. Gt, and Lt.",
      ),
      values: z
        .array(value, { error: 'expected a list of texts' })
        .max(MAX_NODE_VALUES, atMost(MAX_NODE_VALUES, 'values'))
        .optional()
        .describe(
          'An array of string values. If the operator is In or NotIn, the values array must be non-empty. If the operator is Exists or DoesNotExist, the values array must be empty. If the operator is Gt or Lt, the values array must have a single element, which will be interpreted as an integer.',
        )
        .meta(ATOMIC_LIST),
    })
    .describe(
      'A node selector requirement is a selector that contains values, a key, and an operator that relates the key and values.',
    )
    .meta(cel(...rules));
}

function requirements<Requirement extends z.ZodType>(requirement: Requirement, description: string) {
  return z
    .array(requirement, { error: 'expected a list of requirements' })
    .max(MAX_NODE_REQUIREMENTS, atMost(MAX_NODE_REQUIREMENTS, 'requirements'))
    .optional()
    .describe(description)
    .meta(ATOMIC_LIST);
}

// core/v1 does not validate values further here: Gt and Lt accept values such as "-1", which are no label values.
const nodeLabelValue = text(MAX_LABEL_VALUE);
const fieldKey = text(MAX_LABEL_KEY).describe('The field key that the selector applies to: metadata.name.');
const nodeName = text(MAX_NODE_NAME);

const NodeSelectorTerm = z
  .strictObject({
    matchExpressions: requirements(
      nodeSelectorRequirement(labelKey(), nodeLabelValue, [takesValues, takesNoValues, comparesOneInteger]),
      "A list of node selector requirements by node's labels.",
    ),
    matchFields: requirements(
      nodeSelectorRequirement(fieldKey, nodeName, [namesOneNode]),
      "A list of node selector requirements by node's fields.",
    ),
  })
  .describe(
    'A null or empty node selector term matches no objects. The requirements of them are ANDed. The TopologySelectorTerm type implements a subset of the NodeSelectorTerm.',
  )
  .meta(ATOMIC_MAP);

export const NodeSelector = z
  .strictObject({
    nodeSelectorTerms: z
      .array(NodeSelectorTerm, { error: 'expected a list of node selector terms' })
      .min(1, { error: 'expected at least one node selector term' })
      .max(MAX_NODE_TERMS, atMost(MAX_NODE_TERMS, 'node selector terms'))
      .describe('Required. A list of node selector terms. The terms are ORed.')
      .meta({ ...ATOMIC_LIST, ...cel(mostTermsOnlyList) }),
  })
  .meta(ATOMIC_MAP);
