import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { NodeMaintenanceSpec } from './nodeMaintenance.ts';
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

/** MaintenanceWindow, the only source of its TypeScript types and of its CRD: an extension to KEP-4212. */

const MAX_CALENDAR_ENTRIES = 32;
const MAX_EXCEPTIONS = 366;
const MAX_RETRIES = 100;
const MAX_ANNOTATION = 4096;
/** Seconds. */
const LONGEST = 7 * 24 * 3600;

const DAYS = ['Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday', 'Sunday'] as const;

const DayOfWeek = oneOf(DAYS);
export type DayOfWeek = z.infer<typeof DayOfWeek>;

function numbers(min: number, max: number, most: number) {
  return z
    .array(int32(min, max), { error: `expected a list of numbers from ${min} to ${max}` })
    .min(1)
    .max(most)
    .optional();
}

const CalendarEntry = z.strictObject({
  time: z
    .string()
    .max(5)
    .regex(/^([01][0-9]|2[0-3]):[0-5][0-9]$/, { error: 'expected a time of day such as 02:30' })
    .describe('When the window opens, by the clocks of the time zone: hours and minutes, such as 02:30.'),
  daysOfWeek: z
    .array(DayOfWeek)
    .min(1)
    .max(7)
    .optional()
    .describe('Only on these days of the week; on all of them if left out.')
    .meta(ATOMIC_LIST),
  daysOfMonth: numbers(1, 31, 31)
    .describe('Only on these days of the month; on all of them if left out.')
    .meta(ATOMIC_LIST),
  months: numbers(1, 12, 12).describe('Only in these months; in all of them if left out.').meta(ATOMIC_LIST),
  years: numbers(2000, 2100, 100)
    .describe('Only in these years; in all of them if left out.')
    .meta(ATOMIC_LIST),
});
export type CalendarEntry = z.infer<typeof CalendarEntry>;

const cronOrCalendar: CelRule = {
  rule: 'has(self.cron) != has(self.calendar)',
  message: 'schedule needs exactly one of cron and calendar: remove one of the two, or add one',
};

const lastsAMinute: CelRule = {
  rule: "duration(self) >= duration('1m') && duration(self) <= duration('168h')",
  message: 'duration must be between 1m and 168h, such as 4h or 90m',
};

export const WindowSchedule = z
  .strictObject({
    cron: text(128)
      .regex(/^\S+(\s+\S+){4}$/, { error: 'expected five fields such as "0 2 * * 6"' })
      .optional()
      .describe(
        'When the window opens: minute, hour, day of month, month, day of week. Where both kinds of day are given, both must hold. Exactly one of cron and calendar is required.',
      ),
    calendar: z
      .array(CalendarEntry)
      .min(1)
      .max(MAX_CALENDAR_ENTRIES)
      .optional()
      .describe('When the window opens: whenever one of the entries says so.')
      .meta(ATOMIC_LIST),
    timeZone: text(64)
      .min(1)
      .describe(
        'IANA time zone, such as Europe/Berlin. A time that its clocks skip opens no window; one that they show twice opens one.',
      ),
    duration: text(16)
      .regex(/^([0-9]+h)?([0-9]+m)?$/, { error: 'expected a duration such as 4h, 90m or 1h30m' })
      .min(2)
      .describe('How long the window stays open, such as 4h, 90m or 1h30m; at most 168h.')
      .meta(cel(lastsAMinute)),
    exceptions: z
      .array(
        z
          .string()
          .max(10)
          .regex(/^[0-9]{4}-[0-9]{2}-[0-9]{2}$/, { error: 'expected a date such as 2026-12-24' }),
      )
      .max(MAX_EXCEPTIONS)
      .optional()
      .describe('Dates of the time zone, such as 2026-12-24, on which no window opens.')
      .meta(ATOMIC_LIST),
  })
  .meta(cel(cronOrCalendar));
export type WindowSchedule = z.infer<typeof WindowSchedule>;

const allowsANode: CelRule = {
  rule: "type(self) == int ? self >= 1 : self.matches('^(100|[1-9][0-9]?)%$')",
  message:
    'maxUnavailable must be a number of 1 or more, or a percentage of 1% or more: set suspend to open no window',
};

const ordersByItsLabel: CelRule = {
  rule: "(self.by == 'Label') == has(self.labelKey)",
  message: 'order needs labelKey with by: Label, and takes none with by: Name',
};

export const Rollout = z.strictObject({
  maxUnavailable: countOrPercent()
    .default(1)
    .describe(
      'How many of the selected nodes may be out of service at once, whatever took them out: a number, or a percentage of them, rounded down but at least one. The NodeBudget of the cluster limits it further.',
    )
    .meta(cel(allowsANode)),
  topologyKey: text(317)
    .optional()
    .describe(
      'Label of nodes, such as topology.kubernetes.io/zone: only nodes with the same value of it are worked on at a time.',
    ),
  order: z
    .strictObject({
      by: oneOf(['Name', 'Label'])
        .default('Name')
        .describe('Name, or the value of a label and then the name.'),
      labelKey: text(317).optional().describe('The label, with by: Label. Nodes without it come last.'),
    })
    .default({ by: 'Name' })
    .describe('Which nodes come first.')
    .meta(cel(ordersByItsLabel)),
  soakSeconds: int32(0, LONGEST)
    .default(0)
    .describe('How long after the end of a turn no other one begins, to see whether all is well.'),
  maxFailures: int32(1, 5000)
    .default(1)
    .describe('No further turn begins while so many have failed and nobody has dealt with them.'),
  readyTimeoutSeconds: int32(1, LONGEST)
    .default(1800)
    .describe(
      'How long after its work a node may take to be ready, and again to have its readiness gates open once it is given back, before its turn has failed.',
    ),
});
export type Rollout = z.infer<typeof Rollout>;

const jobIsGiven: CelRule = {
  rule: "(self.type == 'Job') == has(self.job)",
  message: 'work needs job with type: Job, and takes none with type: None',
};

const PodTemplate = z
  .looseObject({})
  .describe(
    'Template of the pod that does the work, as in a Job: metadata and spec. It is pinned to the node and tolerates all of its taints; what it says of node affinity and tolerations is replaced.',
  )
  .meta({ 'x-kubernetes-preserve-unknown-fields': true });

const JobWork = z.strictObject({
  template: PodTemplate,
  timeoutSeconds: int32(1, LONGEST)
    .default(3600)
    .describe('How long the Job may take, all retries included, before the turn has failed.'),
  retries: int32(0, MAX_RETRIES)
    .default(0)
    .describe('How often a pod that failed is followed by another one.'),
});
export type JobWork = z.infer<typeof JobWork>;

export const WindowWork = z
  .strictObject({
    type: oneOf(['None', 'Job'])
      .default('None')
      .describe(
        'None: a drained node waits until somebody advances its turn, or sets its NodeMaintenance to Complete. Job: a Job runs on it, and its success ends the turn.',
      ),
    job: JobWork.optional().describe(
      'The Job, with type: Job. It runs in namespace node-maintenance-work, with the ServiceAccounts, Secrets and ConfigMaps of that namespace.',
    ),
  })
  .meta(cel(jobIsGiven));
export type WindowWork = z.infer<typeof WindowWork>;

const areKeys = hasQualifiedKeys('keys of labels and annotations must be such as app or example.com/app');

const leavesOurs: CelRule = {
  rule: "self.all(key, !key.startsWith('nodemaintenance.k8s.io/'))",
  message:
    'keys that begin with nodemaintenance.k8s.io/ are those of the window itself: take another prefix, or none',
};

function added(value: z.ZodType<string>, description: string) {
  return z
    .record(labelKey(), value)
    .optional()
    .describe(description)
    .meta({ maxProperties: MAX_LABELS, ...cel(areKeys, leavesOurs) });
}

const TurnMetadata = z.strictObject({
  labels: added(labelValue(), 'Labels of the NodeMaintenances.'),
  annotations: added(text(MAX_ANNOTATION), 'Annotations of the NodeMaintenances.'),
});

const TurnTemplate = z.strictObject({
  metadata: TurnMetadata.optional().describe(
    'Labels and annotations of the NodeMaintenances, beside those by which the window knows them.',
  ),
  drainPlan: NodeMaintenanceSpec.shape.drainPlan,
  reason: NodeMaintenanceSpec.shape.reason,
});

export const MaintenanceWindowSpec = z.strictObject({
  schedule: WindowSchedule.describe('When the window is open.'),
  nodeSelector: NodeSelector.describe('NodeSelector selects the nodes that are to be maintained.'),
  rollout: Rollout.default({
    maxUnavailable: 1,
    order: { by: 'Name' },
    soakSeconds: 0,
    maxFailures: 1,
    readyTimeoutSeconds: 1800,
  }).describe('How many nodes have their turn at once, and which first.'),
  template: TurnTemplate.default({}).describe(
    'The NodeMaintenance of each node, as far as it is not given by the window: it is created in stage Drain, and completed after the work. A change of template or work is a new revision, for which every node has its turn again.',
  ),
  work: WindowWork.default({ type: 'None' }).describe('What is done on each node once it is drained.'),
  approval: oneOf(['None', 'PerWindow', 'PerNode'])
    .default('None')
    .describe(
      'Whether turns begin by themselves, once somebody has approved the open window, or once somebody has approved the node: by signal or update approve of the window in Temporal.',
    ),
  onWindowEnd: oneOf(['FinishCurrent', 'HoldCurrent', 'CancelCurrent'])
    .default('FinishCurrent')
    .describe(
      'What becomes of turns that are under way when the window ends. FinishCurrent: they go on to their end. HoldCurrent: drains rest, nodes stay cordoned, and the next window goes on. CancelCurrent: nodes are given back, after a Job that runs was deleted and its pods are gone; they have their turn anew in the next window.',
    ),
  suspend: z
    .boolean()
    .default(false)
    .describe('No window opens, until it is false again; one that is open goes on.'),
});
export type MaintenanceWindowSpec = z.infer<typeof MaintenanceWindowSpec>;

const Waiting = z.strictObject({
  reason: text(128).describe('Why no further turn begins now, in CamelCase, for machines.'),
  message: text(1024).describe('The same for people.'),
});

const Orders = z.strictObject({
  approved: z.boolean().optional().describe('All nodes may begin.'),
  approvedNodes: z
    .array(text(253))
    .max(5000)
    .optional()
    .describe('Nodes that may begin, with approval PerNode.')
    .meta(ATOMIC_LIST),
  paused: z.boolean().optional().describe('No further turn begins.'),
  cancelled: z
    .boolean()
    .optional()
    .describe('The window ends, and nodes whose work is not done are given back.'),
});

const ActiveWindow = z.strictObject({
  workflowId: text(1000).describe('The run of the window in Temporal.'),
  runId: text(64).describe('Its run id.'),
  start: timestamp().describe('When it opened.'),
  end: timestamp().describe('When it ends.'),
  nodes: z
    .array(text(253))
    .max(5000)
    .default([])
    .describe(
      'The nodes whose turn is under way, or has failed and nobody has dealt with it yet; the first hundred.',
    )
    .meta(ATOMIC_LIST),
  waiting: Waiting.optional().describe('Why no further turn begins now.'),
  orders: Orders.optional().describe(
    'What was ordered of it by messages: a run that follows one which was terminated goes on with it.',
  ),
});

const TurnFailure = z.strictObject({
  node: text(253).describe('Name of the node.'),
  reason: text(128).describe('Why its turn failed, in CamelCase, for machines.'),
  message: text(1024).describe('The same for people, and what to do about it.'),
});

const tally = (description: string) => int32(0).default(0).describe(description);

const Progress = z.strictObject({
  revision: text(63).describe('The revision of template and work that these numbers are about.'),
  summary: text(64).describe('Nodes that had their turn, of those that are selected, such as 3/10.'),
  nodes: tally('Number of nodes selected.'),
  done: tally('Number of those that had their turn in this revision.'),
  inProgress: tally('Number of those whose turn is under way.'),
  failed: tally('Number of those whose turn has failed and nobody has dealt with it yet.'),
  remaining: tally('Number of those whose turn is still to come.'),
  failures: z
    .array(TurnFailure)
    .max(20)
    .default([])
    .describe('The first twenty turns that failed.')
    .meta(ATOMIC_LIST),
});
export type WindowProgress = z.infer<typeof Progress>;

export const MaintenanceWindowStatus = z.strictObject({
  conditions: conditions(
    'Valid signals whether the window can be scheduled as it is, Scheduled whether its Schedule in Temporal is as it says.',
  ),
  observedGeneration: int64()
    .default(0)
    .describe('The .metadata.generation that conditions and schedule were computed from.'),
  schedule: text(256).optional().describe('When the window opens, in short.'),
  nextTime: timestamp().optional().describe('When it opens next; absent while it is suspended or not valid.'),
  active: ActiveWindow.optional().describe(
    'The window that is open, or has ended and still has turns to finish.',
  ),
  progress: Progress.optional().describe('How far the newest revision has come.'),
});
export type MaintenanceWindowStatus = z.infer<typeof MaintenanceWindowStatus>;

/** The stored object; `status` is absent until the controller has seen it. */
export interface MaintenanceWindow extends KubeObject {
  spec: MaintenanceWindowSpec;
  status?: MaintenanceWindowStatus;
}
