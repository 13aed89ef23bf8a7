import * as z from 'zod';
import { parseStrictly } from '../api/maintenanceInput.ts';
import { WindowSchedule } from '../api/maintenanceWindow.ts';
import { clusterInTaskQueue, clusterInWorkflowId, temporalNames } from '../api/names.ts';
import { WindowInput } from '../api/windowInput.ts';
import { durationMs, scheduleProblems } from '../domain/windows/schedule.ts';

/** A Schedule that users define in a YAML or JSON file with Temporal's field names, in addition to the Schedules of MaintenanceWindows. */

const text = (maxLength: number, example: string) =>
  z
    .string({ error: `expected a text such as ${example}` })
    .min(1)
    .max(maxLength);

const duration = () =>
  z
    .string({ error: 'expected a duration such as 2h, 90m or 1h30m' })
    .regex(/^(?=.)([0-9]{1,3}h)?([0-9]{1,4}m)?$/, { error: 'expected a duration such as 2h, 90m or 1h30m' });

const ScheduleFile = z.strictObject({
  id: text(200, 'os-patch-year-end'),
  spec: z.strictObject({
    calendar: WindowSchedule.shape.calendar.unwrap(),
    timeZone: WindowSchedule.shape.timeZone,
    exceptions: WindowSchedule.shape.exceptions,
  }),
  policies: z.strictObject({
    overlap: z.enum(['Skip', 'BufferOne'], {
      error:
        'expected Skip or BufferOne: other policies end a window that still has nodes, or start several openings at the same time',
    }),
    catchupWindow: duration(),
  }),
  action: z.strictObject({
    workflowType: z.literal('maintenanceWindow', {
      error: 'expected maintenanceWindow: a nodeMaintenance has one run, which a Schedule cannot repeat',
    }),
    workflowId: text(200, 'maintenance-window-os-patch-year-end'),
    taskQueue: z.string().regex(/^node-maintenance(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$/, {
      error: 'expected node-maintenance, or node-maintenance.CLUSTER for workers with --cluster',
    }),
    input: WindowInput,
  }),
  state: z.strictObject({ paused: z.boolean({ error: 'expected true or false' }).optional() }).optional(),
});
export type ScheduleFile = z.infer<typeof ScheduleFile>;

/** Parses the Schedule of a file. Each problem starts with the field and names the remedy. */
export function parseScheduleFile(
  value: unknown,
  nowMs: number,
): ReturnType<typeof parseStrictly<typeof ScheduleFile>> {
  const parsed = parseStrictly(ScheduleFile, value);
  if (!parsed.ok) return parsed;
  const problems = rules.flatMap((rule) => rule(parsed.input, nowMs));
  return problems.length === 0 ? parsed : { ok: false, problems };
}

type Rule = (file: ScheduleFile, nowMs: number) => string[];

const rules: readonly Rule[] = [
  idIsNotReserved, // the controller of MaintenanceWindows would overwrite the Schedule within a minute
  scheduleIsValid,
  workflowIdIsOfWindow, // the run could not open the window otherwise
  catchupWindowFits,
];

function idIsNotReserved({ id }: ScheduleFile): string[] {
  const reserved = temporalNames(clusterInWorkflowId(id)).windowId('');
  if (!id.startsWith(reserved)) return [];
  return [
    `id: "${id}" is reserved for the Schedule of MaintenanceWindow "${id.slice(reserved.length)}": change the id, or edit the MaintenanceWindow`,
  ];
}

function scheduleIsValid({ spec, action }: ScheduleFile, nowMs: number): string[] {
  // With the duration, openings that overlap each other are a problem.
  const schedule = { ...spec, duration: action.input.duration ?? '1m' };
  return scheduleProblems(schedule, nowMs).map((problem) =>
    problem.replace(/^schedule\.duration/, 'action.input.duration').replace(/^schedule/, 'spec'),
  );
}

function workflowIdIsOfWindow({ action: { workflowId, taskQueue, input } }: ScheduleFile): string[] {
  const expected = temporalNames(clusterInTaskQueue(taskQueue)).windowId(input.name);
  if (workflowId === expected || workflowId.startsWith(`${expected}-`)) return [];
  return [
    `action.workflowId: expected "${expected}-" and a suffix for window "${input.name}" (got "${workflowId}")`,
  ];
}

/** Minimum in Temporal. */
const minCatchupMs = durationMs('1m');

function catchupWindowFits({ policies: { catchupWindow }, action: { input } }: ScheduleFile): string[] {
  const ms = durationMs(catchupWindow);
  if (ms < minCatchupMs) return [`policies.catchupWindow: expected 1m or more (got "${catchupWindow}")`];
  if (input.duration === undefined || ms <= durationMs(input.duration)) return [];
  return [
    `policies.catchupWindow: ${catchupWindow} is longer than action.input.duration, ${input.duration}: a window that opens so late has already ended; shorten it`,
  ];
}
