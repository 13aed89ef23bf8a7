import * as z from 'zod';
import { type Parsed, parseStrictly } from './maintenanceInput.ts';
import { objectName } from './schema.ts';

const durationError = 'expected a duration from 1m to 168h, such as 4h, 90m or 1h30m';
const maxMinutes = 168 * 60;

/** The input of workflow `maintenanceWindow`: one JSON object. The Schedule of a window and a Schedule that a user created give the same input. */
export const WindowInput = z.strictObject({
  name: objectName(),
  /** Overrides the duration of the window. */
  duration: z
    .string({ error: durationError })
    .regex(/^(?=.)([0-9]{1,5}h)?([0-9]{1,5}m)?$/, { error: durationError })
    .refine((duration) => minutesIn(duration) >= 1 && minutesIn(duration) <= maxMinutes, {
      error: durationError,
    })
    .optional(),
});
export type WindowInput = z.infer<typeof WindowInput>;

function minutesIn(duration: string): number {
  const [, hours = 0, minutes = 0] = /^(?:([0-9]+)h)?(?:([0-9]+)m)?$/.exec(duration) ?? [];
  return Number(hours) * 60 + Number(minutes);
}

export function parseWindowInput(value: unknown): Parsed<WindowInput> {
  return parseStrictly(WindowInput, value);
}

/** The payload of `approve`, where no node means the whole window, and of `advance`, which requires a node. */
export interface NodesRequest {
  node?: string;
  nodes?: string[];
}
