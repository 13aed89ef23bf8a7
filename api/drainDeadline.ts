import * as z from 'zod';
import { ATOMIC_LIST, type CelRule, cel, oneOf, text, timestamp } from './schema.ts';

/** The deadline of a drain, an extension to KEP-4212: part of the spec of a NodeMaintenance and of the template of a window. */

/** Steps before the deadline. */
export const MAX_DEADLINE_STEPS = 16;

const durationIsAllowed: CelRule = {
  rule: "duration(self) >= duration('1s') && duration(self) <= duration('720h')",
  message: 'must be between 1s and 720h, such as 2h or 90m',
};

function duration() {
  const error = 'expected a duration such as 2h, 90m or 1h30m';
  return text(16)
    .regex(/^([0-9]{1,4}h)?([0-9]{1,5}m)?([0-9]{1,7}s)?$/, { error })
    .min(2, { error })
    .meta(cel(durationIsAllowed));
}

const afterOrAt: CelRule = {
  rule: 'has(self.after) != has(self.at)',
  message: 'drainDeadline needs exactly one of after and at: remove one of the two, or add one',
};

const stepsAreInOrder: CelRule = {
  rule: 'self.map(step, -duration(step.before).getSeconds()).isSorted() && self.all(step, self.exists_one(other, duration(other.before) == duration(step.before)))',
  message: 'steps must be in the order of their times, each time once: write the longest before first',
};

const DrainDeadlineStep = z.strictObject({
  before: duration().describe('How long before the deadline the step is due, such as 60m.'),
  action: oneOf(['Notify'])
    .default('Notify')
    .describe(
      'Notify sends a notification that names the pods that are left and the owners in their annotation nodemaintenance.k8s.io/owner, and records Events on these pods and on the NodeMaintenance.',
    ),
});

export const DrainDeadline = z
  .strictObject({
    after: duration()
      .optional()
      .describe(
        'The deadline, as a duration from the start of the Drain stage, such as 2h. Exactly one of after and at is required.',
      ),
    at: timestamp()
      .optional()
      .describe(
        'The deadline, as a time such as 2024-04-22T21:40:32Z. Exactly one of after and at is required.',
      ),
    onDeadline: oneOf(['Report', 'Delete'])
      .default('Report')
      .describe(
        'Report records that pods are left, and the drain continues. Delete deletes what is left, so that it is gone at the deadline: each pod as early as its termination grace period requires, in the order of the drain plan, also where a PodDisruptionBudget or an evacuator keeps it; but no static pod, and no pod whose Evacuation has the cancellation policy Forbid. Setting Delete requires permission to delete pods in all namespaces.',
      ),
    steps: z
      .array(DrainDeadlineStep)
      .max(MAX_DEADLINE_STEPS)
      .default([
        { before: '60m', action: 'Notify' },
        { before: '15m', action: 'Notify' },
      ])
      .describe('What is done before the deadline while pods are left, the longest before first.')
      .meta({ ...ATOMIC_LIST, ...cel(stepsAreInOrder) }),
  })
  .describe(
    'Extension to KEP-4212: DrainDeadline limits how long budgets, evacuators and stuck pods may keep the nodes from being drained. A later change can only make the deadline earlier. Pausing does not stop its clock, but nothing is deleted while the maintenance is paused.',
  )
  .meta(cel(afterOrAt));
export type DrainDeadline = z.infer<typeof DrainDeadline>;

/** Removing the field would look like a later deadline, which has no effect. */
export const drainDeadlineStays: CelRule = {
  rule: "!has(oldSelf.drainDeadline) || has(self.drainDeadline) || oldSelf.stage == 'Idle' || self.stage == 'Complete'",
  message:
    'drainDeadline cannot be removed after Idle: set onDeadline to Report, which deletes nothing, or stage to Complete',
  fieldPath: '.drainDeadline',
};

/** The deadline in the template of a window, for each of its maintenances. */
export const TemplateDrainDeadline = DrainDeadline.meta(
  cel(afterOrAt, {
    rule: '!has(self.at)',
    message: 'drainDeadline.at is one time, but the window opens many times: use drainDeadline.after',
  }),
);
