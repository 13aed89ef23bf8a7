import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Parsed } from '../api/maintenanceInput.ts';
import { type AttributeType, declaredNamespace, type Namespace, parseNamespace } from './namespace.ts';
import { parseScheduleFile, type ScheduleFile } from './scheduleFile.ts';

/** The desired configuration of a Temporal namespace, as the files of a folder declare it. */
export interface DesiredConfig {
  /** Retention of the namespace, such as `30d` or `72h`. */
  retention: string;
  searchAttributes: Readonly<Record<string, AttributeType>>;
  schedules: readonly { file: string; schedule: ScheduleFile }[];
}

/** The files of a folder are invalid. The message has a line for each problem. */
export class InvalidFilesError extends Error {
  override readonly name = 'InvalidFilesError';
}

/**
 * Reads namespace.yaml and schedules/*.yaml, *.yml and *.json. Throws an InvalidFilesError that names file, field and remedy of every
 * problem: nothing is applied unless all files are valid.
 */
export function readDesiredConfig(folder: string, nowMs: number): DesiredConfig {
  const problems: string[] = [];
  const read = <T>(file: string, check: (value: unknown) => Parsed<T>): T | undefined => {
    const parsed = parseFile(join(folder, file), check);
    if (parsed.ok) return parsed.input;
    problems.push(...parsed.problems.map((problem) => `${join(folder, file)}: ${problem}`));
    return undefined;
  };
  const namespace = read('namespace.yaml', parseNamespaceFile);
  const schedules = scheduleFiles(folder).flatMap((name) => {
    const file = join('schedules', name);
    const schedule = read(file, (value) => parseScheduleFile(value, nowMs));
    return schedule === undefined ? [] : [{ file, schedule }];
  });
  for (const [index, { file, schedule }] of schedules.entries()) {
    const first = schedules.findIndex((one) => one.schedule.id === schedule.id);
    if (first < index)
      problems.push(
        `${join(folder, file)}: id: "${schedule.id}" is also the id of ${schedules[first]?.file}: change one of them`,
      );
  }
  if (problems.length > 0 || namespace === undefined) throw new InvalidFilesError(problems.join('\n'));
  return { ...namespace, schedules };
}

/** Parses namespace.yaml and adds the search attributes that the workflows of this release require. */
function parseNamespaceFile(value: unknown): Parsed<Namespace> {
  const parsed = parseNamespace(value);
  if (!parsed.ok) return parsed;
  const required = declaredNamespace().searchAttributes;
  const { searchAttributes } = parsed.input;
  const problems = Object.entries(required).flatMap(([name, type]) => {
    const declared = searchAttributes[name];
    return declared === undefined || declared === type
      ? []
      : [
          `searchAttributes.${name}: the workflows require type ${type} (got ${declared}): correct or remove it`,
        ];
  });
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, input: { ...parsed.input, searchAttributes: { ...required, ...searchAttributes } } };
}

function parseFile<T>(path: string, check: (value: unknown) => Parsed<T>): Parsed<T> {
  try {
    return check(parse(readFileSync(path, 'utf8')));
  } catch (error) {
    const [message = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    return { ok: false, problems: [`cannot be read: ${message}`] };
  }
}

function scheduleFiles(folder: string): string[] {
  try {
    return readdirSync(join(folder, 'schedules'))
      .filter((name) => /\.(ya?ml|json)$/.test(name))
      .toSorted();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}
