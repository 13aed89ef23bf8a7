import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { DEFAULT_PROGRESS_DEADLINE_SECONDS } from './names.ts';
import { cel, int32, listMap, objectName, oneOf, text, timestamp } from './schema.ts';

/** Evacuation, the only source of its TypeScript types and of its CRD (KEP-4212 › Drain, DaemonSet Controller). */

const MAX_EVACUATORS = 100;

const EvacuationCancellationPolicy = oneOf(['Allow', 'Forbid']);

const PodReference = z.strictObject({
  name: objectName().describe('Name of the pod.'),
  uid: text(128).min(1).describe('UID of the pod: another pod of the same name is not evacuated.'),
});

const Evacuator = z.strictObject({
  evacuatorClass: objectName().describe(
    'EvacuatorClass identifies the evacuator, for example deployment.apps.k8s.io. The evacuator responds when it observes its own class in .status.activeEvacuatorClass.',
  ),
  priority: int32().describe('Priority of the evacuator: the highest is asked first.'),
  role: text(63).min(1).describe('Role of the evacuator towards the pod, for example controller.'),
});

/** Resolved once, on admission or by the controller: an evacuator at work must not lose its place. */
const evacuatorsAreImmutable = {
  rule: '!has(oldSelf.evacuators) || (has(self.evacuators) && self.evacuators == oldSelf.evacuators)',
  message:
    "evacuators are resolved once from the pod's annotations and immutable then: delete this Evacuation and create another",
  fieldPath: '.evacuators',
};

export const EvacuationSpec = z
  .strictObject({
    podRef: PodReference.describe(
      'PodRef identifies the pod to be removed from its node. This field is immutable.',
    ).meta(
      cel({
        rule: 'self == oldSelf',
        message: 'podRef is immutable: delete this Evacuation and create one for the other pod',
      }),
    ),
    progressDeadlineSeconds: int32(1)
      .default(DEFAULT_PROGRESS_DEADLINE_SECONDS)
      .describe(
        'ProgressDeadlineSeconds is how long the active evacuator may leave .status.evacuationProgressTimestamp as it is before the next evacuator takes over. The default of 1800 (30m) should give potential evacuators enough time to recover from a disruption and continue with the graceful evacuation.',
      ),
    evacuators: z
      .array(Evacuator)
      .max(MAX_EVACUATORS)
      .optional()
      .describe(
        "Evacuators that may remove the pod gracefully, resolved from the pod's annotations on admission. If the evacuators are unable to evacuate the pod, or if there are no evacuators, the evacuation controller will attempt to evict it.",
      )
      .meta(listMap('evacuatorClass')),
  })
  .meta(cel(evacuatorsAreImmutable));
export type EvacuationSpec = z.infer<typeof EvacuationSpec>;

export type Evacuator = z.infer<typeof Evacuator>;

export const EvacuationStatus = z.strictObject({
  activeEvacuatorClass: text(253)
    .optional()
    .describe(
      'ActiveEvacuatorClass is the evacuator whose turn it is; absent before the first and after the last, when the condition EvacuatorsExhausted is True.',
    ),
  activeEvacuatorSince: timestamp()
    .optional()
    .describe('Extension to KEP-4212: ActiveEvacuatorSince is when the turn of the active evacuator began.'),
  activeEvacuatorCompleted: z
    .boolean()
    .default(false)
    .describe('ActiveEvacuatorCompleted is set by the active evacuator when it has nothing more to do.'),
  evacuationProgressTimestamp: timestamp()
    .optional()
    .describe('EvacuationProgressTimestamp is when the active evacuator last reported progress.'),
  expectedEvacuationFinishTime: timestamp()
    .optional()
    .describe('ExpectedEvacuationFinishTime is when the active evacuator expects the pod to be gone.'),
  evacuationCancellationPolicy: EvacuationCancellationPolicy.optional().describe(
    'EvacuationCancellationPolicy says whether the evacuation may be cancelled by deleting this object. Absent means Allow. With Forbid the evacuation continues and eventually terminates the pod.',
  ),
  failedEvictionCounter: int32(0)
    .default(0)
    .describe('FailedEvictionCounter is how often the eviction API has refused to evict the pod.'),
  message: z.string().default('').describe('Message says what the active evacuator is doing, for people.'),
  conditions: conditions('Conditions of this evacuation.'),
});
export type EvacuationStatus = z.infer<typeof EvacuationStatus>;

/** The stored object; `status` is absent until a controller or an evacuator has written it. */
export interface Evacuation extends KubeObject {
  spec: EvacuationSpec;
  status?: EvacuationStatus;
}
