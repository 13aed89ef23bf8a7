import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import { messageOf, SandboxError } from '../sandbox/errors.ts';
import { createScreen, type Screen } from '../cli/screen.ts';
import { type StoryName, stories, storyNames } from './stories.ts';
import { drawProof, type Section } from './table.ts';

/** npm run demo */

const program = new Command('npm run demo --')
  .description(
    'Plays a story on a Kubernetes cluster that it starts on this machine, with the real worker, and proves that all went ' +
      'well. Nothing is left running.',
  )
  .addOption(
    new Option('--story <name>', 'which one').choices(storyNames).default('drain' satisfies StoryName),
  )
  .option(
    '--keep',
    'keep the directory: logs, data, and the cluster for `npm run sandbox -- up --dir`',
    false,
  )
  .addHelpText(
    'after',
    [
      '\nStories:',
      ...storyNames.map((name) => `  ${name.padEnd(10)} ${stories[name].about}`),
      '\nWhat it runs is built from source the first time, which takes minutes. Exit status: 0 proved, 1 not, 2 misused.',
    ].join('\n'),
  )
  .exitOverride();

interface Options {
  story: StoryName;
  keep: boolean;
}

/** Ends the process for `--help` (exit 0) and for arguments that make no sense (exit 2). */
function parseOptions(): Options {
  try {
    return program.parse().opts<Options & Record<string, unknown>>();
  } catch (error) {
    if (error instanceof CommanderError) process.exit(error.exitCode === 0 ? 0 : 2);
    throw error;
  }
}

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Why the demo ends early, and with which exit status. */
interface Interruption {
  signal: AbortSignal;
  exitCode(): number;
}

/** Ctrl-C, a closed terminal or pipe, and bugs: whatever it is, everything has to be stopped again. */
function interruption(): Interruption {
  const controller = new AbortController();
  let exitCode = 1;
  const interrupt = (error: Error, code = 1) => {
    if (controller.signal.aborted) return;
    exitCode = code;
    controller.abort(error);
  };
  // Not `once`: libraries that clean up on signals end the process when nobody else listens.
  for (const [signal, code] of Object.entries(exitCodes)) {
    process.on(signal, () => interrupt(new SandboxError(`Interrupted by ${signal}`), code));
  }
  process.stdout.on('error', () => interrupt(new SandboxError('Nobody reads the output any more')));
  process.on('uncaughtException', interrupt);
  return { signal: controller.signal, exitCode: () => exitCode };
}

async function main({ story, keep }: Options): Promise<number> {
  const began = performance.now();
  const screen = createScreen(process.stdout);
  const { signal, exitCode } = interruption();
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-demo-'));
  const undo: (() => Promise<unknown>)[] = [() => tidy(screen, dir, keep)];
  try {
    const sections = await stories[story].tell({ dir, screen, signal, undo });
    for (const text of drawProof(sections, screen.colors, screen.width())) screen.say(text);
    await undoAll(undo);
    return conclude(screen, sections, (performance.now() - began) / 1000);
  } catch (error) {
    screen.clear();
    await undoAll(undo);
    process.stderr.write(`${explain(signal.aborted ? signal.reason : error)}\n`);
    return exitCode();
  }
}

/** In reverse order; what cannot be undone keeps nothing else from being undone. */
async function undoAll(undo: (() => Promise<unknown>)[]): Promise<void> {
  for (let step = undo.pop(); step !== undefined; step = undo.pop()) {
    await step().catch((error: unknown) => process.stderr.write(`${explain(error)}\n`));
  }
}

async function tidy({ say }: Screen, dir: string, keep: boolean): Promise<void> {
  if (!keep) return rm(dir, { recursive: true, force: true });
  say();
  say(`Kept ${dir}: logs/ has the log of each process.`);
  say(`To look around:  npm run sandbox -- up --dir ${dir}`);
}

function conclude({ say, colors }: Screen, sections: readonly Section[], seconds: number): number {
  const rows = sections.flatMap((section) => section.rows);
  const failed = rows.filter(({ holds }) => !holds);
  say();
  for (const { fact, expected, seen } of failed)
    say(colors.red(`✗ ${fact}: expected ${expected}, seen ${seen}`));
  const verdict =
    failed.length === 0
      ? colors.green(`✓ All ${rows.length} facts hold.`)
      : colors.red(`✗ ${failed.length} of ${rows.length} facts do not hold.`);
  say(`${verdict} ${seconds.toFixed(0)} s in all; everything is stopped again.`);
  return failed.length === 0 ? 0 : 1;
}

/** One line for what a person can put right, a stack for a bug. */
function explain(error: unknown): string {
  if (error instanceof SandboxError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : messageOf(error);
}

process.exit(await main(parseOptions()));
