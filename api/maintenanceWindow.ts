import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { TemplateDrainDeadline } from './drainDeadline.ts';
import { DEFAULT_REBOOT_TIMEOUT_SECONDS, MAX_APPROVED_NODES, MAX_NAMED_REBOOTS } from './names.ts';
import { DrainPlan, NodeMaintenanceSpec } from './nodeMaintenance.ts';
import {
  ATOMIC_LIST,
  type CelRule,
  cel,
  countOrPercent,
  int32,
  int64,
  oneOf,
  text,
  timestamp,
} from './schema.ts';
import { hasQualifiedKeys, labelKey, labelValue, MAX_LABELS, NodeSelector } from './selectors.ts';

/** Schema of MaintenanceWindow, an extension to KEP-4212. Its TypeScript types and its CRD are derived from it. */

const MAX_CALENDAR_ENTRIES = 32;
const MAX_EXCEPTIONS = 366;
const MAX_RETRIES = 100;
const MAX_ANNOTATION = 4096;
const MAX_DURATION_SECONDS = 7 * 24 * 3600;

const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const;

const DayOfWeek = oneOf(DAYS);
export type DayOfWeek = z.infer<typeof DayOfWeek>;

function numbers(min: number, max: number, maxItems: number) {
  return z
    .array(int32(min, max), { error: `expected a list of numbers from ${min} to ${max}` })
    .min(1)
    .max(maxItems)
    .optional();
}

const CalendarEntry = z.strictObject({
  time: z
    .string()
    .max(5)
    .regex(/^([01][0-9]|2[0-3]):[0-5][0-9]$/, { error: 'expected a time of day such as 02:30' })
    .describe('Local time at which the window opens, in hours and minutes, such as 02:30.'),
  daysOfWeek: z
    .array(DayOfWeek)
    .min(1)
    .max(7)
    .optional()
    .describe('Days of the week on which the window opens. Defaults to all days.')
    .meta(ATOMIC_LIST),
  daysOfMonth: numbers(1, 31, 31)
    .describe('Days of the month on which the window opens. Defaults to all days.')
    .meta(ATOMIC_LIST),
  months: numbers(1, 12, 12)
    .describe('Months in which the window opens. Defaults to all months.')
    .meta(ATOMIC_LIST),
  years: numbers(2000, 2100, 100)
    .describe('Years in which the window opens. Defaults to all years.')
    .meta(ATOMIC_LIST),
});
export type CalendarEntry = z.infer<typeof CalendarEntry>;

const cronOrCalendar: CelRule = {
  rule: 'has(self.cron) != has(self.calendar)',
  message: 'schedule needs exactly one of cron and calendar: remove one of the two, or add one',
};

const durationIsAllowed: CelRule = {
  rule: "duration(self) >= duration('1m') && duration(self) <= duration('168h')",
  message: 'duration must be between 1m and 168h, such as 4h or 90m',
};

export const WindowSchedule = z
  .strictObject({
    cron: text(128)
      .regex(/^\S+(\s+\S+){4}$/, { error: 'expected five fields such as "0 2 * * 6"' })
      .optional()
      .describe(
        'Cron expression of the times at which the window opens: minute, hour, day of month, month, day of week. If both a day of month and a day of week are set, both must match. Exactly one of cron and calendar is required.',
      ),
    calendar: z
      .array(CalendarEntry)
      .min(1)
      .max(MAX_CALENDAR_ENTRIES)
      .optional()
      .describe(
        'Calendar entries of the times at which the window opens. The window opens when one of the entries matches.',
      )
      .meta(ATOMIC_LIST),
    timeZone: text(64)
      .min(1)
      .describe(
        'IANA time zone, such as Europe/Berlin. Daylight saving: a local time that does not exist on a day opens no window, and a local time that occurs twice opens the window once.',
      ),
    duration: text(16)
      .regex(/^([0-9]+h)?([0-9]+m)?$/, { error: 'expected a duration such as 4h, 90m or 1h30m' })
      .min(2)
      .describe('Duration for which the window is open, such as 4h, 90m or 1h30m. The maximum is 168h.')
      .meta(cel(durationIsAllowed)),
    exceptions: z
      .array(
        z
          .string()
          .max(10)
          .regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/, { error: 'expected a date such as 2026-12-24' }),
      )
      .max(MAX_EXCEPTIONS)
      .optional()
      .describe(
        'Local dates on which the window does not open, such as 2026-12-24. The annotation nodemaintenance.k8s.io/skipped-dates adds to them.',
      )
      .meta(ATOMIC_LIST),
  })
  .meta(cel(cronOrCalendar));
export type WindowSchedule = z.infer<typeof WindowSchedule>;

const allowsOneNode: CelRule = {
  rule: "type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",
  message: 'maxUnavailable must be at least 1 or 1%; to stop the window from opening, set suspend to true',
};

const labelKeyMatchesOrder: CelRule = {
  rule: "(self.by == 'Label') == has(self.labelKey)",
  message: 'order.labelKey is required if by is Label, and must not be set if by is Name',
};

export const Rollout = z.strictObject({
  maxUnavailable: countOrPercent()
    .default(1)
    .describe(
      'Maximum number of selected nodes that may be out of service at the same time, for whatever reason: a number, or a percentage of the selected nodes, rounded down to at least one. The NodeDisruptionBudgets that select the nodes are further limits.',
    )
    .meta(cel(allowsOneNode)),
  topologyKey: text(317)
    .optional()
    .describe(
      'Key of a node label, such as topology.kubernetes.io/zone. Only nodes with the same value of this label are maintained at the same time.',
    ),
  order: z
    .strictObject({
      by: oneOf(['Name', 'Label'])
        .default('Name')
        .describe('Name sorts nodes by name. Label sorts nodes by the value of a label, then by name.'),
      labelKey: text(317)
        .optional()
        .describe('Key of the label, if by is Label. Nodes without this label are last.'),
    })
    .default({ by: 'Name' })
    .describe('Order in which nodes are maintained.')
    .meta(cel(labelKeyMatchesOrder)),
  soakSeconds: int32(0, MAX_DURATION_SECONDS)
    .default(0)
    .describe(
      'Time to wait after a node has succeeded before the next node starts, so that problems can show up.',
    ),
  maxFailures: int32(1, 5000)
    .default(1)
    .describe(
      'Number of failed nodes at which no more nodes are started. A failure counts until it is resolved.',
    ),
  readyTimeoutSeconds: int32(1, MAX_DURATION_SECONDS)
    .default(1800)
    .describe(
      'Time after the work within which the node must become ready, and time after the uncordon within which its readiness gates must be ready. A node that exceeds it has failed.',
    ),
});
export type Rollout = z.infer<typeof Rollout>;

const jobMatchesType: CelRule = {
  rule: "(self.type == 'Job') == has(self.job)",
  message: 'work.job is required if type is Job, and must not be set otherwise',
};

const rebootMatchesType: CelRule = {
  rule: "self.type == 'Reboot' || !has(self.reboot)",
  message: 'work.reboot must not be set unless type is Reboot',
};

const PodTemplate = z
  .looseObject({})
  .describe(
    'Template of the pod that does the work, as in a Job: metadata and spec. Node affinity and tolerations are replaced, so that the pod runs on the node and tolerates all of its taints.',
  )
  .meta({ 'x-kubernetes-preserve-unknown-fields': true });

const JobWork = z.strictObject({
  template: PodTemplate,
  timeoutSeconds: int32(1, MAX_DURATION_SECONDS)
    .default(3600)
    .describe(
      'Time within which the Job must succeed, including all retries. A node whose Job exceeds it has failed.',
    ),
  retries: int32(0, MAX_RETRIES)
    .default(0)
    .describe('Number of retries of a failed pod, as backoffLimit of a Job.'),
});
export type JobWork = z.infer<typeof JobWork>;

const RebootWork = z.strictObject({
  policy: oneOf(['IfRequired', 'Always'])
    .default('IfRequired')
    .describe(
      'IfRequired: only nodes with the annotation nodemaintenance.k8s.io/reboot-required are maintained. Always: every selected node is rebooted once in each revision. With both, a node that needs a reboot again after it was rebooted is maintained again in the next opening.',
    ),
  timeoutSeconds: int32(1, MAX_DURATION_SECONDS)
    .default(DEFAULT_REBOOT_TIMEOUT_SECONDS)
    .describe(
      'Time after the request within which the node must start again, as its new boot ID shows. A node that exceeds it has failed.',
    ),
});
export type RebootWork = z.infer<typeof RebootWork>;

export const WindowWork = z
  .strictObject({
    type: oneOf(['None', 'Job', 'Reboot'])
      .default('None')
      .describe(
        'None: a drained node waits until a user marks its work as done or sets its NodeMaintenance to Complete. Job: a Job runs on the drained node, and the node is uncordoned after the Job has succeeded. Reboot: the node agent reboots the drained node, and the node is uncordoned when it is ready with a new boot ID.',
      ),
    job: JobWork.optional().describe(
      'Job to run on each node, if type is Job. It runs in namespace node-maintenance-work, and can use the ServiceAccounts, Secrets and ConfigMaps of that namespace; unless it names another one, its ServiceAccount has no permission.',
    ),
    reboot: RebootWork.optional().describe('When to reboot, and for how long to wait, if type is Reboot.'),
  })
  .meta(cel(jobMatchesType, rebootMatchesType));
export type WindowWork = z.infer<typeof WindowWork>;

const areKeys = hasQualifiedKeys('label and annotation keys must have the form app or example.com/app');

const avoidsReservedPrefix: CelRule = {
  rule: "self.all(key, !key.startsWith('nodemaintenance.k8s.io/'))",
  message: 'keys with the prefix nodemaintenance.k8s.io/ are reserved: use another prefix, or none',
};

function metadataMap(value: z.ZodType<string>, description: string) {
  return z
    .record(labelKey(), value)
    .optional()
    .describe(description)
    .meta({ maxProperties: MAX_LABELS, ...cel(areKeys, avoidsReservedPrefix) });
}

const TemplateMetadata = z.strictObject({
  labels: metadataMap(labelValue(), 'Labels of the NodeMaintenances.'),
  annotations: metadataMap(text(MAX_ANNOTATION), 'Annotations of the NodeMaintenances.'),
});

const MaintenanceTemplate = z.strictObject({
  metadata: TemplateMetadata.optional().describe(
    'Labels and annotations of the NodeMaintenances, in addition to those that the window sets itself.',
  ),
  drainPlan: DrainPlan,
  drainDeadline: TemplateDrainDeadline.optional(),
  reason: NodeMaintenanceSpec.shape.reason,
  requireCapacity: NodeMaintenanceSpec.shape.requireCapacity,
});

export const MaintenanceWindowSpec = z.strictObject({
  schedule: WindowSchedule.describe('Times at which the window is open.'),
  nodeSelector: NodeSelector.describe('NodeSelector selects the nodes to maintain.'),
  rollout: Rollout.default({
    maxUnavailable: 1,
    order: { by: 'Name' },
    soakSeconds: 0,
    maxFailures: 1,
    readyTimeoutSeconds: 1800,
  }).describe('Limits for the number of nodes that are maintained at the same time, and their order.'),
  template: MaintenanceTemplate.default({}).describe(
    'Template of the NodeMaintenance of each node. It is created in stage Drain, and completed after the work. A change of template or work is a new revision, and every node is maintained again.',
  ),
  work: WindowWork.default({ type: 'None' }).describe('Work to do on each node after it is drained.'),
  approval: oneOf(['None', 'PerWindow', 'PerNode'])
    .default('None')
    .describe(
      'None: nodes start without approval. PerWindow: nodes start after the open window is approved. PerNode: a node starts after it is approved. Approve with kubectl maintenance window approve, or with the signal or update approve of the workflow in Temporal.',
    ),
  onWindowEnd: oneOf(['FinishCurrent', 'HoldCurrent', 'CancelCurrent'])
    .default('FinishCurrent')
    .describe(
      'Policy for nodes that are in progress when the window ends. FinishCurrent: their maintenance continues. HoldCurrent: drains are paused, nodes stay cordoned, and they continue at the next opening. CancelCurrent: running Jobs are deleted, nodes are uncordoned after the pods of the Jobs have terminated, and they are maintained again at the next opening.',
    ),
  suspend: z
    .boolean()
    .default(false)
    .describe(
      'The window does not open while this is true. A window that is open already continues. The annotation nodemaintenance.k8s.io/paused also pauses an open window, and no manifest reverts it.',
    ),
});
export type MaintenanceWindowSpec = z.infer<typeof MaintenanceWindowSpec>;

const Waiting = z.strictObject({
  reason: text(128).describe('Machine-readable reason why no more nodes are started now, in CamelCase.'),
  message: text(1024).describe('Human-readable explanation of the reason.'),
});

const Requests = z.strictObject({
  approved: z.boolean().optional().describe('The window is approved: all nodes may start.'),
  approvedNodes: z
    .array(text(253))
    .max(MAX_APPROVED_NODES)
    .optional()
    .describe('Approved nodes, if approval is PerNode.')
    .meta(ATOMIC_LIST),
  paused: z.boolean().optional().describe('The window is paused: no more nodes are started.'),
  cancelled: z
    .boolean()
    .optional()
    .describe('The window is cancelled: it ends, and nodes whose work is not done are uncordoned.'),
});

const ActiveWindow = z.strictObject({
  workflowId: text(1000).describe('Workflow id of the open window in Temporal.'),
  runId: text(64).describe('Run id of this workflow.'),
  start: timestamp().describe('Time at which the window opened.'),
  end: timestamp().describe('Time at which the window ends.'),
  nodes: z
    .array(text(253))
    .max(5000)
    .default([])
    .describe(
      'Nodes that are in progress, and failed nodes whose failure is not resolved. At most the first 100.',
    )
    .meta(ATOMIC_LIST),
  waiting: Waiting.optional().describe('Reason why no more nodes are started now.'),
  requests: Requests.optional().describe(
    'Requests that the window has accepted by annotations, signals and updates. If its workflow is terminated, the next run continues with them.',
  ),
});

const WindowNodeFailure = z.strictObject({
  node: text(253).describe('Name of the node.'),
  reason: text(128).describe('Machine-readable reason of the failure, in CamelCase.'),
  message: text(1024).describe('Human-readable explanation of the failure, and how to resolve it.'),
});

const count = (description: string) => int32(0).default(0).describe(description);

const RebootRequired = z.strictObject({
  nodes: count('Number of these nodes.'),
  names: z
    .array(text(253))
    .max(MAX_NAMED_REBOOTS)
    .default([])
    .describe(`Names of these nodes, at most the first ${MAX_NAMED_REBOOTS}.`)
    .meta(ATOMIC_LIST),
});

const Progress = z.strictObject({
  revision: text(63).describe('Revision of template and work that these numbers refer to.'),
  summary: text(64).describe(
    'Number of selected nodes that have succeeded and number of selected nodes, such as 3/10. Nodes that need no reboot do not count if work.reboot.policy is IfRequired.',
  ),
  nodes: count('Number of selected nodes.'),
  done: count('Number of selected nodes that have succeeded in this revision.'),
  inProgress: count('Number of nodes in progress.'),
  failed: count('Number of failed nodes whose failure is not resolved.'),
  remaining: count('Number of selected nodes that have not started.'),
  notRequired: int32(0)
    .optional()
    .describe(
      'Number of selected nodes that need no reboot and are not maintained. Only set if work.reboot.policy is IfRequired.',
    ),
  rebootRequired: RebootRequired.optional().describe(
    'Selected nodes that need a reboot, and whose maintenance has not started. Only set if work.type is Reboot.',
  ),
  failures: z
    .array(WindowNodeFailure)
    .max(20)
    .default([])
    .describe('Failed nodes, at most the first 20.')
    .meta(ATOMIC_LIST),
});
export type WindowProgress = z.infer<typeof Progress>;

export const MaintenanceWindowStatus = z.strictObject({
  conditions: conditions(
    'Valid signals whether the window can be scheduled as specified. Scheduled signals whether its Schedule in Temporal is up to date and not paused.',
  ),
  observedGeneration: int64()
    .default(0)
    .describe('The .metadata.generation that conditions and schedule were computed from.'),
  schedule: text(256).optional().describe('Short form of the schedule.'),
  nextTime: timestamp()
    .optional()
    .describe('Time of the next opening. Not set while the window is suspended, paused or not valid.'),
  active: ActiveWindow.optional().describe(
    'The open window, or a window that has ended and still has nodes in progress.',
  ),
  lastClosed: timestamp()
    .optional()
    .describe(
      'Start of the opening that was closed last. The schedule opens the window once for each of its times; opening it again for the same time requires permission to maintain its nodes.',
    ),
  progress: Progress.optional().describe('Progress of the newest revision.'),
});
export type MaintenanceWindowStatus = z.infer<typeof MaintenanceWindowStatus>;

/** The stored object. `status` is not set until the controller has reconciled it. */
export interface MaintenanceWindow extends KubeObject {
  spec: MaintenanceWindowSpec;
  status?: MaintenanceWindowStatus;
}
