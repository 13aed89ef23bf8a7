import * as z from 'zod';
import { type Parsed, parseStrictly } from './maintenanceInput.ts';
import { objectName } from './schema.ts';

const durationError = 'expected a duration such as 4h, 90m or 1h30m';

/** The input of workflow `maintenanceWindow`: one JSON object, the same from a Schedule of ours and from one made by hand. */
export const WindowInput = z.strictObject({
  name: objectName(),
  /** How long it is open, in place of the window's own duration. */
  duration: z
    .string({ error: durationError })
    .regex(/^(?=.)([0-9]+h)?([0-9]+m)?([0-9]+s)?$/, { error: durationError })
    .optional(),
});
export type WindowInput = z.infer<typeof WindowInput>;

export function parseWindowInput(value: unknown): Parsed<WindowInput> {
  return parseStrictly(WindowInput, value);
}

/** The payload of `approve`: a node, several, or none for the whole window; and of `advance`: the node whose turn is to end. */
export interface NodesRequest {
  node?: string;
  nodes?: string[];
}
