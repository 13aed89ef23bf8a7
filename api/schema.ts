import * as z from 'zod';

/** Building blocks shared by the stored types: every one states in its error what it expected. */

const INT32_MIN = -2147483648;
const INT32_MAX = 2147483647;

/** A rule that the apiserver itself checks, in CEL (`x-kubernetes-validations`). */
export interface CelRule {
  rule: string;
  /** Shown when there is no messageExpression, or when it fails. One line: the thing and the remedy. */
  message: string;
  messageExpression?: string;
  fieldPath?: string;
}

export function cel(...rules: CelRule[]): { 'x-kubernetes-validations': CelRule[] } {
  return { 'x-kubernetes-validations': rules };
}

/** A list that is replaced as a whole by whoever applies it. */
export const ATOMIC_LIST = { 'x-kubernetes-list-type': 'atomic' } as const;
/** An object that is replaced as a whole by whoever applies it, as core/v1 does for selectors. */
export const ATOMIC_MAP = { 'x-kubernetes-map-type': 'atomic' } as const;

/** A list whose items are merged by `key`, so that several writers can own items of it. */
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

/** RFC 3339, as `metav1.Time` and `metav1.MicroTime` are in JSON. */
export function timestamp() {
  return z.iso.datetime({ offset: true, error: 'expected a time such as 2024-04-22T21:40:32Z' });
}

const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** The name of a cluster-wide object, of a node or of a pod. */
export function objectName() {
  const error =
    'expected lower case letters, digits, "-" and ".", starting and ending with a letter or digit, at most 253 characters';
  return z.string({ error }).min(1, { error }).max(253, { error }).regex(DNS_SUBDOMAIN, { error });
}

/** A number of things, or a percentage of them, as `maxUnavailable` of Kubernetes' own types. */
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
