import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { oneLine } from './text.ts';

/** Guards for values that arrive through Temporal, where a client may send anything: other types, NaN, huge numbers and long strings. */

const stages: readonly unknown[] = ['Idle', 'Cordon', 'Drain', 'Complete'] satisfies NodeMaintenanceStage[];

/** The longest name of an object, and more than the length of a UID. */
const maxNameLength = 253;
const maxShownLength = 80;

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isStage(value: unknown): value is NodeMaintenanceStage {
  return stages.includes(value);
}

/** Returns true for a `.metadata.generation`. */
export function isGeneration(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Returns true for a text that may be the name or the UID of an object. */
export function isNameOrUid(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= maxNameLength;
}

/** Formats a value as JSON on one line, cut so that it can be part of a message. */
export function shown(value: unknown): string {
  return oneLine(JSON.stringify(value) ?? String(value), maxShownLength);
}
