import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { Command } from 'commander';
import { type Change, type Comparison, compare } from './changes.ts';
import { SettingsError, temporalSettings, type TemporalSettings } from './connection.ts';
import { explained, oneLine } from './reach.ts';
import { BadFiles, readWanted, type Wanted } from './wanted.ts';

interface Options {
  profile?: string;
  configFile?: string;
  dir: string;
  prune: boolean;
}

/** 0: done, or nothing differs. As kubectl diff has it, a diff that failed is not one that differs. */
const Exit = { Differs: 1, Failed: 1, NotMeant: 2, NotKnown: 2 } as const;

const ownFolder = fileURLToPath(new URL('.', import.meta.url));

/** `exit` is told the exit code, where it is not 0. */
export function commandLine(exit: (code: number) => void): Command {
  const program = new Command('npm run temporal-config --')
    .description(
      'Says how a namespace of Temporal differs from the files of temporal-config/, and makes it so.',
    )
    .addHelpText(
      'after',
      `
diff exits with 0 when nothing differs, 1 when something does, 2 when it cannot tell. apply exits with 0 when Temporal is as
the files say, 1 when it refused or failed, 2 when files or settings cannot be meant: then nothing was changed.
Temporal is the one of TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE... and temporal.toml, as for the worker: README.md has them.`,
    )
    .helpCommand(false)
    .exitOverride();
  const verbs = {
    diff: 'show what apply would change; changes nothing',
    apply: 'make namespace, search attributes and Schedules as the files say',
  };
  for (const [verb, description] of Object.entries(verbs))
    program
      .command(verb)
      .description(description)
      .option('--profile <name>', 'of temporal.toml, in place of TEMPORAL_PROFILE')
      .option('--config-file <file>', 'a temporal.toml, in place of TEMPORAL_CONFIG_FILE')
      .option('--dir <folder>', 'with namespace.yaml and schedules/, as temporal-config/ has them', ownFolder)
      .option(
        '--prune',
        'delete Schedules that apply once made, and of which there is no file any more',
        false,
      )
      .action(async (options: Options) => exit(await run(verb, options)));
  return program;
}

async function run(verb: string, options: Options): Promise<number> {
  try {
    const wanted = readWanted(options.dir, Date.now());
    const settings = temporalSettings({ profile: options.profile, file: options.configFile });
    return await withTemporal(settings, options, async (deps) => {
      const comparison = await compare(deps, wanted);
      tell(settings, comparison, wanted);
      return verb === 'diff' ? differs(comparison) : await apply(comparison);
    });
  } catch (error) {
    const isNotMeant = error instanceof BadFiles || error instanceof SettingsError;
    const lines = isNotMeant ? error.message.split('\n') : [oneLine(error)];
    for (const line of lines) console.error(`error: ${line}`);
    if (isNotMeant) return Exit.NotMeant;
    return verb === 'diff' ? Exit.NotKnown : Exit.Failed;
  }
}

/** Milliseconds. */
const answersWithin = 5_000;

async function withTemporal(
  settings: TemporalSettings,
  { prune }: Options,
  work: (deps: Parameters<typeof compare>[0]) => Promise<number>,
): Promise<number> {
  const { connectionOptions, namespace } = settings;
  const connection = await explained(settings, () =>
    Connection.connect({ ...connectionOptions, connectTimeout: answersWithin }),
  );
  try {
    const client = new Client({ connection, namespace });
    return await explained(settings, () => work({ connection, client, namespace, prune }));
  } finally {
    await connection.close();
  }
}

function tell(
  { address, source, namespace }: TemporalSettings,
  comparison: Comparison,
  { schedules }: Wanted,
): void {
  const { changes, conflicts, notes } = comparison;
  console.log(`Temporal at ${address}, namespace ${namespace} (${source})`);
  for (const { about, lines } of changes)
    console.log([about, ...lines.map((line) => `  ${line}`)].join('\n'));
  for (const conflict of conflicts) console.error(`conflict: ${conflict}`);
  for (const note of notes) console.error(`note: ${note}`);
  if (changes.length + conflicts.length === 0)
    console.log(
      `Nothing differs: retention, search attributes and ${counted(schedules.length, 'Schedule')}.`,
    );
}

function differs({ changes, conflicts }: Comparison): number {
  const count = changes.length + conflicts.length;
  if (count > 0) console.log(`${counted(count, 'thing')} ${count === 1 ? 'differs' : 'differ'}.`);
  return count === 0 ? 0 : Exit.Differs;
}

async function apply({ changes, conflicts }: Comparison): Promise<number> {
  if (conflicts.length > 0) {
    console.error('error: nothing was changed, because of the conflicts above');
    return Exit.Failed;
  }
  let refused = 0;
  for (const change of changes) {
    const problem = await applied(change);
    console.log(`${change.about}: ${problem === undefined ? 'done' : 'refused'}`);
    if (problem === undefined) continue;
    console.error(`error: ${change.about}: ${problem}`);
    refused += 1;
  }
  return refused === 0 ? 0 : Exit.Failed;
}

/** Why it was refused, if it was. What follows is tried all the same: Temporal Cloud has other ways for some of it. */
async function applied({ about, apply: act }: Change): Promise<string | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    const remedy = about.startsWith('Schedule')
      ? 'see that the credentials may do so, and repeat it'
      : 'see that the credentials may administer the namespace; in Temporal Cloud it is done in its UI, or by tcld';
    return `${oneLine(error)}: ${remedy}`;
  }
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
