import * as z from 'zod';
import { parseStrictly } from '../api/maintenanceInput.ts';
import { WindowSchedule } from '../api/maintenanceWindow.ts';
import { TASK_QUEUE, windowWorkflowIdOf } from '../api/names.ts';
import { WindowInput } from '../api/windowInput.ts';
import { durationMs, scheduleProblems } from '../domain/windowSchedule.ts';

/** A Schedule that people keep in a file, beside those that the controller of windows makes: in Temporal's words, as YAML or JSON. */

const text = (most: number, such: string) =>
  z
    .string({ error: `expected a text such as ${such}` })
    .min(1)
    .max(most);

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
        'expected Skip or BufferOne: what else Temporal has ends a window that still has nodes, or lets openings pile up',
    }),
    catchupWindow: duration(),
  }),
  action: z.strictObject({
    workflowType: z.literal('maintenanceWindow', {
      error: 'expected maintenanceWindow: a nodeMaintenance has one run, which a Schedule cannot repeat',
    }),
    workflowId: text(200, 'maintenance-window-os-patch-year-end'),
    taskQueue: z.literal(TASK_QUEUE, { error: `expected ${TASK_QUEUE}, which the workers poll` }),
    input: WindowInput,
  }),
  state: z.strictObject({ paused: z.boolean({ error: 'expected true or false' }).optional() }).optional(),
});
export type ScheduleFile = z.infer<typeof ScheduleFile>;

/** The Schedule of a file; `now` is milliseconds. Problems begin with the field, and name the remedy. */
export function parseScheduleFile(
  value: unknown,
  now: number,
): ReturnType<typeof parseStrictly<typeof ScheduleFile>> {
  const parsed = parseStrictly(ScheduleFile, value);
  if (!parsed.ok) return parsed;
  const problems = rules.flatMap((rule) => rule(parsed.input, now));
  return problems.length === 0 ? parsed : { ok: false, problems };
}

type Rule = (file: ScheduleFile, now: number) => string[];

const rules: readonly Rule[] = [
  idIsNotTheControllers, // it would set the Schedule back within a minute
  opensAtTimes,
  workflowIsOfItsWindow, // the run would refuse to open it
  catchesUpWithSomething,
];

function idIsNotTheControllers({ id }: ScheduleFile): string[] {
  const reserved = windowWorkflowIdOf('');
  if (!id.startsWith(reserved)) return [];
  return [
    `id: "${id}" is kept by the controller of windows, for MaintenanceWindow "${id.slice(reserved.length)}": give the file another id, or edit the MaintenanceWindow`,
  ];
}

function opensAtTimes({ spec, action }: ScheduleFile, now: number): string[] {
  // As long as it takes, for openings that overlap each other.
  const schedule = { ...spec, duration: action.input.duration ?? '1m' };
  return scheduleProblems(schedule, now).map((problem) =>
    problem.replace(/^schedule\.duration/, 'action.input.duration').replace(/^schedule/, 'spec'),
  );
}

function workflowIsOfItsWindow({ action: { workflowId, input } }: ScheduleFile): string[] {
  const expected = windowWorkflowIdOf(input.name);
  if (workflowId === expected || workflowId.startsWith(`${expected}-`)) return [];
  return [
    `action.workflowId: expected "${expected}-" and a word of your own, for the window "${input.name}" (got "${workflowId}")`,
  ];
}

/** Temporal's shortest. */
const shortestCatchup = durationMs('1m');

function catchesUpWithSomething({ policies: { catchupWindow }, action: { input } }: ScheduleFile): string[] {
  const ms = durationMs(catchupWindow);
  if (ms < shortestCatchup) return [`policies.catchupWindow: expected 1m or more (got "${catchupWindow}")`];
  if (input.duration === undefined || ms <= durationMs(input.duration)) return [];
  return [
    `policies.catchupWindow: ${catchupWindow} is longer than action.input.duration, ${input.duration}: a window that opens so late is over already; shorten it`,
  ];
}
