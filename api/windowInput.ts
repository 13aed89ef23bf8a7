import * as z from 'zod';
import { type Parsed, parseStrictly } from './maintenanceInput.ts';
import { objectName } from './schema.ts';

/** The input of workflow `maintenanceWindow`: one JSON object, the same from a Schedule of ours and from one made by hand. */
export const WindowInput = z.strictObject({ name: objectName() });
export type WindowInput = z.infer<typeof WindowInput>;

export function parseWindowInput(value: unknown): Parsed<WindowInput> {
  return parseStrictly(WindowInput, value);
}

/** The payload of `approve`: a node, several, or none for the whole window; and of `advance`: the node whose turn is to end. */
export interface NodesRequest {
  node?: string;
  nodes?: string[];
}
