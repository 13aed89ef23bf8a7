import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import type { Parsed } from '../api/maintenanceInput.ts';
import { type AttributeType, declaredNamespace, type Namespace, parseNamespace } from './namespace.ts';
import { parseScheduleFile, type ScheduleFile } from './scheduleFile.ts';

/** What a folder such as this one says that Temporal should have. */
export interface Wanted {
  /** RFC-like text such as 30d. */
  retention: string;
  searchAttributes: Readonly<Record<string, AttributeType>>;
  schedules: readonly { file: string; schedule: ScheduleFile }[];
}

/** Everything that is wrong with the files of a folder, a line each. */
export class BadFiles extends Error {
  override readonly name = 'BadFiles';
}

/**
 * Reads namespace.yaml and schedules/*.yaml, *.yml and *.json. Throws BadFiles with every problem of every file, each with the file,
 * the field and the remedy: nothing is applied unless all of them are right. `now` is milliseconds.
 */
export function readWanted(folder: string, now: number): Wanted {
  const problems: string[] = [];
  const take = <T>(file: string, check: (value: unknown) => Parsed<T>): T | undefined => {
    const parsed = checked(join(folder, file), check);
    if (parsed.ok) return parsed.input;
    problems.push(...parsed.problems.map((problem) => `${join(folder, file)}: ${problem}`));
    return undefined;
  };
  const namespace = take('namespace.yaml', parseOwnNamespace);
  const schedules = scheduleFiles(folder).flatMap((name) => {
    const file = join('schedules', name);
    const schedule = take(file, (value) => parseScheduleFile(value, now));
    return schedule === undefined ? [] : [{ file, schedule }];
  });
  for (const [index, { file, schedule }] of schedules.entries()) {
    const first = schedules.findIndex((one) => one.schedule.id === schedule.id);
    if (first < index)
      problems.push(
        `${join(folder, file)}: id: "${schedule.id}" is that of ${schedules[first]?.file} too: give one of them another`,
      );
  }
  if (problems.length > 0 || namespace === undefined) throw new BadFiles(problems.join('\n'));
  return { ...namespace, schedules };
}

/** What the workflows of this release need is part of every folder's. */
function parseOwnNamespace(value: unknown): Parsed<Namespace> {
  const parsed = parseNamespace(value);
  if (!parsed.ok) return parsed;
  const needed = declaredNamespace().searchAttributes;
  const { searchAttributes } = parsed.input;
  const problems = Object.entries(needed).flatMap(([name, type]) => {
    const given = searchAttributes[name];
    return given === undefined || given === type
      ? []
      : [`searchAttributes.${name}: the workflows need it as ${type} (got ${given}): correct or remove it`];
  });
  if (problems.length > 0) return { ok: false, problems };
  return { ok: true, input: { ...parsed.input, searchAttributes: { ...needed, ...searchAttributes } } };
}

function checked<T>(path: string, check: (value: unknown) => Parsed<T>): Parsed<T> {
  try {
    return check(parse(readFileSync(path, 'utf8')));
  } catch (error) {
    const [words = ''] = (error instanceof Error ? error.message : String(error)).split('\n');
    return { ok: false, problems: [`cannot be read: ${words}`] };
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
