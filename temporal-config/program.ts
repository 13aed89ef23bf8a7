import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { Command } from 'commander';
import { escapeUnprintable } from '../api/text.ts';
import { type Change, type Comparison, compare } from './changes.ts';
import { SettingsError, temporalSettings, type TemporalSettings } from './connection.ts';
import { explainFailure, oneLine } from './connectionErrors.ts';
import { InvalidFilesError, readDesiredConfig, type DesiredConfig } from './desiredConfig.ts';

interface Options {
  profile?: string;
  configFile?: string;
  dir: string;
  prune: boolean;
  shortenRetention: boolean;
}

/** Exit codes other than 0. A diff that fails has another code than one that finds differences, like kubectl diff. */
const Exit = { Differs: 1, ApplyFailed: 1, Invalid: 2, DiffFailed: 2 } as const;

const ownFolder = fileURLToPath(new URL('.', import.meta.url));

/** Creates the command line. `exit` receives the exit code of the command. */
export function commandLine(exit: (code: number) => void): Command {
  const program = new Command('npm run temporal-config --')
    .description('Compares a Temporal namespace with the files in temporal-config/ and applies them.')
    .addHelpText(
      'after',
      `
Exit codes of diff: 0 no differences, 1 differences, 2 failed. Exit codes of apply: 0 Temporal matches the files, 1 rejected or
failed, 2 files or settings are invalid and nothing was changed.
TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE... and temporal.toml select the server, as for the worker: see temporal-config/README.md.`,
    )
    .helpCommand(false)
    .exitOverride();
  const verbs = {
    diff: 'show what apply would change',
    apply: 'create or update namespace, search attributes and Schedules',
  };
  for (const [verb, description] of Object.entries(verbs))
    program
      .command(verb)
      .description(description)
      .option('--profile <name>', 'profile of temporal.toml; overrides TEMPORAL_PROFILE')
      .option('--config-file <file>', 'path of temporal.toml; overrides TEMPORAL_CONFIG_FILE')
      .option('--dir <folder>', 'folder with namespace.yaml and schedules/', ownFolder)
      .option(
        '--prune',
        'delete Schedules that apply created, on a task queue of the files, and that no file defines any more',
        false,
      )
      .option(
        '--shorten-retention',
        'shorten a retention that is longer than in namespace.yaml, for the histories of runs that end from then on',
        false,
      )
      .action(async (options: Options) => exit(await run(verb, options)));
  return program;
}

async function run(verb: string, options: Options): Promise<number> {
  try {
    const desired = readDesiredConfig(options.dir, Date.now());
    const settings = temporalSettings({ profile: options.profile, file: options.configFile });
    return await withTemporal(settings, options, async (deps) => {
      const comparison = await compare(deps, desired);
      printComparison(settings, comparison, desired);
      return verb === 'diff' ? reportDifferences(comparison) : await apply(comparison);
    });
  } catch (error) {
    const isInvalid = error instanceof InvalidFilesError || error instanceof SettingsError;
    const lines = isInvalid ? error.message.split('\n') : [oneLine(error)];
    for (const line of lines) console.error(`error: ${line}`);
    if (isInvalid) return Exit.Invalid;
    return verb === 'diff' ? Exit.DiffFailed : Exit.ApplyFailed;
  }
}

async function withTemporal(
  settings: TemporalSettings,
  { prune, shortenRetention }: Options,
  work: (deps: Parameters<typeof compare>[0]) => Promise<number>,
): Promise<number> {
  const { connectionOptions, namespace, dataConverter } = settings;
  const connection = await explainFailure(settings, () => Connection.connect(connectionOptions));
  try {
    const client = new Client({ connection, namespace, dataConverter });
    return await explainFailure(settings, () =>
      work({ connection, client, namespace, prune, shortenRetention }),
    );
  } finally {
    await connection.close();
  }
}

function printComparison(
  { address, source, namespace }: TemporalSettings,
  comparison: Comparison,
  { schedules }: DesiredConfig,
): void {
  const { changes, conflicts, notes } = comparison;
  console.log(`Temporal at ${address}, namespace ${namespace} (${source})`);
  // Any user of the namespace may have written the Schedules that are compared.
  for (const { subject, lines } of changes)
    console.log([subject, ...lines.map((line) => `  ${line}`)].map(escapeUnprintable).join('\n'));
  for (const conflict of conflicts) console.error(escapeUnprintable(`conflict: ${conflict}`));
  for (const note of notes) console.error(escapeUnprintable(`note: ${note}`));
  if (changes.length + conflicts.length === 0)
    console.log(
      notes.length > 0
        ? 'Nothing to change.'
        : `Nothing differs: retention, search attributes and ${counted(schedules.length, 'Schedule')}.`,
    );
}

function reportDifferences({ changes, conflicts }: Comparison): number {
  const count = changes.length + conflicts.length;
  if (count > 0) console.log(`${counted(count, 'thing')} ${count === 1 ? 'differs' : 'differ'}.`);
  return count === 0 ? 0 : Exit.Differs;
}

async function apply({ changes, conflicts }: Comparison): Promise<number> {
  if (conflicts.length > 0) {
    console.error('error: nothing was changed because of the conflicts above');
    return Exit.ApplyFailed;
  }
  let rejected = 0;
  for (const change of changes) {
    const problem = await applyChange(change);
    const subject = escapeUnprintable(change.subject);
    console.log(`${subject}: ${problem === undefined ? 'done' : 'failed'}`);
    if (problem === undefined) continue;
    console.error(`error: ${subject}: ${problem}`);
    rejected += 1;
  }
  return rejected === 0 ? 0 : Exit.ApplyFailed;
}

/** Returns why a change failed. The remaining changes are still applied: Temporal Cloud does not allow some of them this way. */
async function applyChange({ subject, apply: execute }: Change): Promise<string | undefined> {
  try {
    await execute();
    return undefined;
  } catch (error) {
    const remedy = subject.startsWith('Schedule')
      ? 'check the permissions of the credentials and retry'
      : 'check that the credentials may administer the namespace; in Temporal Cloud use its UI or tcld';
    return `${oneLine(error)}: ${remedy}`;
  }
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
