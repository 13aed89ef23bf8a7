import { Command, CommanderError, Option, type OutputConfiguration } from 'commander';
import { type ScenarioName, scenarioNames, scenarios } from './scenarios.ts';

export interface Options {
  scenario: ScenarioName;
  keep: boolean;
}

/** The options, or the exit code after help or an error was printed. */
export type Parsed =
  | { readonly kind: 'Options'; readonly options: Options }
  | { readonly kind: 'Exit'; readonly code: 0 | 2 };

/** Parses the arguments of `npm run demo`. */
export function parseOptions(args: readonly string[], output: OutputConfiguration = {}): Parsed {
  const program = programWith(output);
  try {
    return { kind: 'Options', options: program.parse(args, { from: 'user' }).opts<Options>() };
  } catch (error) {
    if (error instanceof CommanderError) return { kind: 'Exit', code: error.exitCode === 0 ? 0 : 2 };
    throw error;
  }
}

function programWith(output: OutputConfiguration): Command {
  return new Command('npm run demo --')
    .configureOutput(output)
    .description(
      'Runs a scenario with the real worker on a Kubernetes cluster that it starts on this machine, and verifies the result. ' +
        'Stops everything at the end.',
    )
    .addOption(
      new Option('--scenario <name>', 'scenario to run')
        .choices(scenarioNames)
        .default('drain' satisfies ScenarioName),
    )
    .option(
      '--keep',
      'keep the directory with logs, data and the cluster, for `npm run sandbox -- up --dir`',
      false,
    )
    .addHelpText(
      'after',
      [
        '\nScenarios:',
        ...scenarioNames.map((name) => `  ${name.padEnd(10)} ${scenarios[name].summary}`),
        '\nThe first run builds the toolchain from source, which takes minutes. Exit status: 0 verified, 1 failed, 2 usage error.',
      ].join('\n'),
    )
    .exitOverride();
}
