import * as z from 'zod';
import { type Parsed, parseStrictly } from './maintenanceInput.ts';
import { objectName } from './schema.ts';

const durationError = 'expected a duration from 1m to 168h, such as 4h, 90m or 1h30m';
/** Minutes. */
const longest = 168 * 60;

/** The input of workflow `maintenanceWindow`: one JSON object, the same from a Schedule of ours and from one made by hand. */
export const WindowInput = z.strictObject({
  name: objectName(),
  /** How long it is open, in place of the window's own duration. */
  duration: z
    .string({ error: durationError })
    .regex(/^(?=.)([0-9]{1,5}h)?([0-9]{1,5}m)?$/, { error: durationError })
    .refine((duration) => minutesIn(duration) >= 1 && minutesIn(duration) <= longest, {
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

/** The payload of `approve`: a node, several, or none for the whole window; and of `advance`: the node whose turn is to end. */
export interface NodesRequest {
  node?: string;
  nodes?: string[];
}
