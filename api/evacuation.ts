import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { DEFAULT_PROGRESS_DEADLINE_SECONDS, MAX_EVACUATORS, MAX_PROGRESS_DEADLINE_SECONDS } from './names.ts';
import { cel, int32, listMap, objectName, oneOf, text, timestamp } from './schema.ts';

/** Schema of Evacuation, from which its TypeScript types and its CRD are generated (KEP-4212 › Drain, DaemonSet Controller). */

const EvacuationCancellationPolicy = oneOf(['Allow', 'Forbid']);

const PodReference = z.strictObject({
  name: objectName().describe('Name of the pod.'),
  uid: text(128).min(1).describe('UID of the pod. Another pod of the same name is not evacuated.'),
});

const Evacuator = z.strictObject({
  evacuatorClass: objectName().describe(
    'EvacuatorClass identifies the evacuator, for example deployment.apps.k8s.io. The evacuator responds when it observes its own class in .status.activeEvacuatorClass.',
  ),
  priority: int32().describe(
    'Priority of the evacuator. The evacuator with the highest priority becomes active first.',
  ),
  role: text(63).min(1).describe('Role of the evacuator for the pod, for example controller.'),
});

/** The evacuators are resolved once, on admission or by the controller, so that the active evacuator stays in the list. */
const evacuatorsAreImmutable = {
  rule: '!has(oldSelf.evacuators) || (has(self.evacuators) && self.evacuators == oldSelf.evacuators)',
  message:
    'evacuators are immutable once they are resolved from the annotations of the pod: delete this Evacuation and create a new one',
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
    progressDeadlineSeconds: int32(1, MAX_PROGRESS_DEADLINE_SECONDS)
      .default(DEFAULT_PROGRESS_DEADLINE_SECONDS)
      .describe(
        'ProgressDeadlineSeconds is the maximum time in seconds between two updates of .status.evacuationProgressTimestamp by the active evacuator before the next evacuator becomes active. The default of 1800 (30m) should give potential evacuators enough time to recover from a disruption and continue with the graceful evacuation. Extension to KEP-4212: the maximum is 86400 (one day).',
      ),
    evacuators: z
      .array(Evacuator)
      .max(MAX_EVACUATORS)
      .optional()
      .describe(
        "Evacuators that may remove the pod gracefully, resolved from the pod's annotations on admission. If the evacuators are unable to evacuate the pod, or if there are no evacuators, the evacuation controller will attempt to evict it. Extension to KEP-4212: at most 10.",
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
      'ActiveEvacuatorClass is the class of the evacuator that is expected to act. It is absent before the first evacuator is selected, and when no evacuator remains and the condition EvacuatorsExhausted is True.',
    ),
  activeEvacuatorSince: timestamp()
    .optional()
    .describe(
      'Extension to KEP-4212: ActiveEvacuatorSince is the time at which the active evacuator became active.',
    ),
  activeEvacuatorCompleted: z
    .boolean()
    .default(false)
    .describe('ActiveEvacuatorCompleted is set to true by the active evacuator when it has finished.'),
  evacuationProgressTimestamp: timestamp()
    .optional()
    .describe(
      'EvacuationProgressTimestamp is the time at which the active evacuator last reported progress.',
    ),
  expectedEvacuationFinishTime: timestamp()
    .optional()
    .describe(
      'ExpectedEvacuationFinishTime is the time at which the active evacuator expects the pod to be gone.',
    ),
  evacuationCancellationPolicy: EvacuationCancellationPolicy.optional().describe(
    'EvacuationCancellationPolicy defines whether the evacuation can be cancelled by deleting this object. It defaults to Allow. With Forbid, the evacuation continues and eventually terminates the pod.',
  ),
  failedEvictionCounter: int32(0)
    .default(0)
    .describe('FailedEvictionCounter is the number of evictions of the pod that the apiserver rejected.'),
  message: text(32_768)
    .default('')
    .describe('Message is a human-readable description of what the active evacuator is doing.'),
  conditions: conditions('Conditions of this evacuation.'),
});
export type EvacuationStatus = z.infer<typeof EvacuationStatus>;

/** The object as stored. `status` is absent until a controller or an evacuator writes it. */
export interface Evacuation extends KubeObject {
  spec: EvacuationSpec;
  status?: EvacuationStatus;
}
