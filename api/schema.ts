import * as z from 'zod';
import { EXPECTED_OBJECT_NAME, MAX_OBJECT_NAME_LENGTH, OBJECT_NAME_PATTERN } from './names.ts';

/** Building blocks of the stored types. The error of each one states what it expects. */

const INT32_MIN = -2147483648;
const INT32_MAX = 2147483647;

/** A CEL rule that the apiserver checks (`x-kubernetes-validations`). */
export interface CelRule {
  rule: string;
  /** Used if there is no messageExpression, or if it fails. One line with the problem and the remedy. */
  message: string;
  messageExpression?: string;
  fieldPath?: string;
  /** Evaluates a rule that has `oldSelf` when there is no old value too. */
  optionalOldSelf?: true;
}

/**
 * Limits a rule to the request that sets an immutable value: otherwise the apiserver evaluates it for every write of the object,
 * also of its status.
 */
export function whenSet(rule: CelRule): CelRule {
  return { ...rule, rule: `oldSelf.hasValue() || ${rule.rule}`, optionalOldSelf: true };
}

export function cel(...rules: CelRule[]): { 'x-kubernetes-validations': CelRule[] } {
  return { 'x-kubernetes-validations': rules };
}

/** A list that an apply replaces as a whole. */
export const ATOMIC_LIST = { 'x-kubernetes-list-type': 'atomic' } as const;
/** An object that an apply replaces as a whole, like the selectors of core/v1. */
export const ATOMIC_MAP = { 'x-kubernetes-map-type': 'atomic' } as const;

/** A list whose items are merged by `keys`, so that several field managers can own items of it. */
export function listMap(...keys: string[]): Record<string, unknown> {
  return { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': keys };
}

export function int32(min = INT32_MIN, max = INT32_MAX) {
  const error = `expected an integer between ${min} and ${max}`;
  return z.int32({ error }).min(min, { error }).max(max, { error }).meta({ format: 'int32' });
}

export function int64() {
  const error = 'expected an integer of 0 or more';
  return z.int({ error }).min(0, { error }).meta({ format: 'int64' });
}

export function text(maxLength: number) {
  const error = `expected a text of at most ${maxLength} characters`;
  return z.string({ error }).max(maxLength, { error });
}

export function oneOf<const Values extends readonly [string, ...string[]]>(values: Values) {
  return z.enum(values, { error: `expected one of ${values.join(', ')}` });
}

/** An RFC 3339 time, the JSON form of `metav1.Time` and `metav1.MicroTime`. */
export function timestamp() {
  return z.iso.datetime({ offset: true, error: 'expected a time such as 2024-04-22T21:40:32Z' });
}

/** The name of a cluster-scoped object, a node or a pod. */
export function objectName() {
  const error = EXPECTED_OBJECT_NAME;
  return z
    .string({ error })
    .min(1, { error })
    .max(MAX_OBJECT_NAME_LENGTH, { error })
    .regex(OBJECT_NAME_PATTERN, { error });
}

/** A number or a percentage, like `maxUnavailable` of the Kubernetes types. */
export function countOrPercent() {
  const error = 'expected a number such as 2, or a percentage such as "10%"';
  return z
    .union(
      [z.int({ error }).min(0, { error }), z.string({ error }).regex(/^(100|[0-9]{1,2})%$/, { error })],
      {
        error,
      },
    )
    .meta({ 'x-kubernetes-int-or-string': true });
}
