import { InvalidArgumentError, Option } from 'commander';
import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { type Structured, UsageError } from './output.ts';

/** Options that several verbs have. */

export interface WaitOptions {
  readonly wait?: boolean | undefined;
  /** Milliseconds; 0 is for ever. */
  readonly timeout?: number | undefined;
}

/** Milliseconds; throws a UsageError for what cannot be meant. */
export function timeoutOf({ wait, timeout }: WaitOptions): number {
  if (timeout !== undefined && wait !== true) throw new UsageError('--timeout is of --wait: give that too');
  return timeout ?? 0;
}

export function waitOptions(): Option[] {
  return [
    new Option(
      '--wait',
      'until that stage has done its work; after Complete, until the nodes take pods again',
    ),
    new Option(
      '--timeout <duration>',
      'of --wait, such as 90s, 10m or 1h30m; 0, as without it, is for ever',
    ).argParser(duration),
  ];
}

export function outputOption(): Option {
  return new Option('-o, --output <format>').choices(['json', 'yaml'] satisfies Structured[]);
}

export function stageOption(flags: string, description: string, stages: NodeMaintenanceStage[]): Option {
  return new Option(flags, description).choices(stages);
}

const unitsMs: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1_000 };

/** Milliseconds of a duration as Go writes it: `1h30m`, `90s`, `0`. */
function duration(text: string): number {
  if (text === '0') return 0;
  const parts = [...text.matchAll(/(\d+)([hms])/g)];
  const isWhole = text !== '' && parts.map(([part]) => part).join('') === text;
  if (!isWhole) throw new InvalidArgumentError('expected a duration such as 90s, 10m or 1h30m');
  return parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (unitsMs[unit] ?? 0), 0);
}
