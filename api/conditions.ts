import * as z from 'zod';
import { int64, listMap, oneOf, text, timestamp } from './schema.ts';

/** meta/v1 Condition, with the descriptions of Kubernetes. */
const Condition = z.strictObject({
  type: text(316)
    .regex(
      /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$/,
    )
    .describe('type of condition in CamelCase or in foo.example.com/CamelCase.'),
  status: oneOf(['True', 'False', 'Unknown']).describe(
    'status of the condition, one of True, False, Unknown.',
  ),
  observedGeneration: int64()
    .exactOptional()
    .describe(
      'observedGeneration represents the .metadata.generation that the condition was set based upon. For instance, if .metadata.generation is currently 12, but the .status.conditions[x].observedGeneration is 9, the condition is out of date with respect to the current state of the instance.',
    ),
  lastTransitionTime: timestamp().describe(
    'lastTransitionTime is the last time the condition transitioned from one status to another. This should be when the underlying condition changed. If that is not known, then using the time when the API field changed is acceptable.',
  ),
  reason: text(1024)
    .min(1)
    .regex(/^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/)
    .describe(
      "reason contains a programmatic identifier indicating the reason for the condition's last transition. Producers of specific condition types may define expected values and meanings for this field, and whether the values are considered a guaranteed API. The value should be a CamelCase string. This field may not be empty.",
    ),
  message: text(32768).describe(
    'message is a human readable message indicating details about the transition. This may be an empty string.',
  ),
});

/** A list of conditions, merged by type. */
export function conditions(description: string) {
  return z.array(Condition).default([]).describe(description).meta(listMap('type'));
}
