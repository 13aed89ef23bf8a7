import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import type { EvictionApi } from './scenario.ts';

export interface Options {
  runs: number;
  /** Seed of the first run; the others have the numbers after it. */
  seed: number;
  /** The steps that are done, by their numbers; undefined: all. */
  steps: number[] | undefined;
  /** Shortens the times, as the runs of npm test do. */
  short: boolean;
  /** Shows the scenarios and runs nothing. */
  show: boolean;
  keep: boolean;
  /** API by which the workers ask pods to leave. */
  evictionApi: EvictionApi;
  json: string | undefined;
}

/** Parses the command line. Ends the process for `--help` (exit 0) and for invalid arguments (exit 2). */
export function parseOptions(argv: readonly string[], seed: number): Options {
  const command = new Command('npm run chaos --')
    .description(
      'Maintains the nodes of random worlds while servers, networks and workers fail, and checks what happened by the audit log of the apiserver.',
    )
    .option('--runs <number>', 'number of runs', positive, 10)
    .option('--seed <number>', 'seed of the first run; each later run has the next one', positive, seed)
    .option(
      '--steps <numbers>',
      'do only these steps of the scenario, such as 2,5: to find those that a violation needs',
      numbers,
    )
    .option('--short', 'shorten the times, as the runs of npm test do', false)
    .option('--show', 'print the scenarios and run nothing', false)
    .option('--keep', 'keep the servers and files after a violation, for reading', false)
    .addOption(
      new Option(
        '--eviction-api <api>',
        'by what pods are asked to leave; pods with evacuators have an Evacuation either way. With auto the feature gate of EvictionRequests is switched off and on, too',
      )
        .choices(['evacuation', 'lifecycle', 'auto'] satisfies EvictionApi[])
        .default('evacuation'),
    )
    .option('--json <file>', 'add the results to this file')
    .exitOverride();
  try {
    command.parse(argv, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    throw error;
  }
  const {
    runs,
    seed: first,
    steps,
    short,
    show,
    keep,
    evictionApi,
    json,
  } = command.opts<
    Partial<Options> & Pick<Options, 'runs' | 'seed' | 'short' | 'show' | 'keep' | 'evictionApi'>
  >();
  return { runs, seed: first, steps, short, show, keep, evictionApi, json };
}

/** Parses a value of an option; throws InvalidArgumentError. */
export function positive(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1)
    throw new InvalidArgumentError('Must be a whole number, 1 or more.');
  return number;
}

function numbers(text: string): number[] {
  return text.split(',').map(positive);
}
