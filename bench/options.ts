import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { contenderNames, type ContenderName } from './contender.ts';
import { parseWork, type Work } from './works.ts';

export interface Options {
  works: Work[];
  contenders: ContenderName[];
  /** Of ours and of the floor. */
  runs: number;
  /** Of kubectl, which takes minutes and hardly varies. */
  kubectlRuns: number;
  /** File of the results. */
  json: string;
  /** Directory for the CPU profiles of the worker. */
  profile?: string;
  strict: boolean;
}

const defaultWorks = '1x250,10x70,pdb,budget,history,readiness:200x3';

/** Ends the process for `--help` (exit 0) and for arguments that make no sense (exit 2). */
export function parseOptions(argv: readonly string[], now: Date): Options {
  const file = `bench/results/${now.toISOString().slice(0, 19).replaceAll(':', '')}.json`;
  const command = new Command('npm run bench --')
    .description(
      'Drains nodes of a sandbox of its own: this project beside kubectl drain and bare evictions.',
    )
    .addOption(
      new Option(
        '--work <list>',
        'NODESxPODS (pods of each node), pdb, budget, history, readiness:NODESxGATES',
      )
        .argParser(parseWorks)
        .default(parseWorks(defaultWorks), defaultWorks),
    )
    .addOption(
      new Option('--only <list>', `of ${contenderNames.join()}`)
        .argParser(parseContenders)
        .default([...contenderNames], 'all'),
    )
    .option('--runs <number>', 'of ours and of the floor; the median is shown', positive, 3)
    .option('--kubectl-runs <number>', 'of kubectl: it takes up to 142 s and hardly varies', positive, 1)
    .option('--json <file>', 'where the results go', file)
    .option('--profile <dir>', 'write CPU profiles of the worker there, one for each run')
    .option('--strict', 'exit 1 when a bar is missed', false)
    .exitOverride();
  try {
    command.parse(argv, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    throw error;
  }
  const { work, only, ...rest } = command.opts<Omit<Options, 'works' | 'contenders'> & Lists>();
  return { works: work, contenders: only, ...rest };
}

interface Lists {
  work: Work[];
  only: ContenderName[];
}

function parseWorks(text: string): Work[] {
  return text.split(',').map((name) => {
    const work = parseWork(name);
    if (work === undefined)
      throw new InvalidArgumentError(
        `"${name}" is none of 10x70 (nodes x pods), pdb, budget, history, readiness:200x3 (nodes x gates).`,
      );
    return work;
  });
}

function parseContenders(text: string): ContenderName[] {
  const asked = text.split(',');
  const unknown = asked.find((name) => !(contenderNames as readonly string[]).includes(name));
  if (unknown !== undefined)
    throw new InvalidArgumentError(`"${unknown}" is none of ${contenderNames.join()}.`);
  return contenderNames.filter((name) => asked.includes(name));
}

function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1) throw new InvalidArgumentError('A whole number, 1 or more.');
  return number;
}
