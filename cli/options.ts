import { InvalidArgumentError, Option } from 'commander';
import { SYSTEM_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { type Structured, UsageError } from './output.ts';

/** Options of several commands. */

export interface WaitOptions {
  readonly wait?: boolean | undefined;
  /** Timeout in milliseconds; 0 disables it. */
  readonly timeout?: number | undefined;
}

/** Returns the timeout in milliseconds. Throws a UsageError if --timeout is set without --wait. */
export function timeoutOf({ wait, timeout }: WaitOptions): number {
  if (timeout !== undefined && wait !== true) throw new UsageError('--timeout requires --wait');
  return timeout ?? 0;
}

export function waitOptions(): Option[] {
  return [
    new Option('--wait', 'wait until the stage is done; for Complete, until the nodes are back in service'),
    new Option(
      '--timeout <duration>',
      'timeout of --wait, such as 90s, 10m or 1h30m; default 0: no timeout',
    ).argParser(duration),
  ];
}

export function outputOption(): Option {
  return new Option('-o, --output <format>').choices(['json', 'yaml'] satisfies Structured[]);
}

/** The option for the namespace of an installation. */
export function namespaceOption(): Option {
  return new Option('-n, --namespace <name>', 'namespace of the installation')
    .argParser(namespaceName)
    .default(SYSTEM_NAMESPACE);
}

export function stageOption(flags: string, description: string, stages: NodeMaintenanceStage[]): Option {
  return new Option(flags, description).choices(stages);
}

const unitsMs: Record<string, number> = { h: 3_600_000, m: 60_000, s: 1_000 };

/** Parses the name of a namespace. */
export function namespaceName(name: string): string {
  const isName = name.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name);
  if (!isName) throw new InvalidArgumentError('expected the name of a namespace');
  return name;
}

/** Parses a Go duration such as `1h30m`, `90s` or `0` to milliseconds. */
export function duration(text: string): number {
  if (text === '0') return 0;
  const parts = [...text.matchAll(/(\d+)([hms])/g)];
  const isWhole = text !== '' && parts.map(([part]) => part).join('') === text;
  const ms = parts.reduce((sum, [, count, unit = '']) => sum + Number(count) * (unitsMs[unit] ?? 0), 0);
  if (!isWhole || !Number.isSafeInteger(ms))
    throw new InvalidArgumentError('expected a duration such as 90s, 10m or 1h30m');
  return ms;
}
