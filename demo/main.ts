import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { errorMessage, SandboxError } from '../sandbox/errors.ts';
import { createScreen, type Screen } from '../cli/terminal/screen.ts';
import { type Options, parseOptions } from './options.ts';
import { scenarios } from './scenarios.ts';
import { drawVerification, type Section } from './table.ts';

/** npm run demo */

const exitCodes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/** Stops the demo early, with an exit status. */
interface Interruption {
  signal: AbortSignal;
  exitCode(): number;
}

/** Aborts on Ctrl-C, on a closed terminal or pipe, and on uncaught exceptions, so that everything is stopped again. */
function interruption(): Interruption {
  const controller = new AbortController();
  let exitCode = 1;
  const interrupt = (error: Error, code = 1) => {
    if (controller.signal.aborted) return;
    exitCode = code;
    controller.abort(error);
  };
  // Not `once`: libraries that handle signals exit the process when there is no other listener.
  for (const [signal, code] of Object.entries(exitCodes)) {
    process.on(signal, () => interrupt(new SandboxError(`Interrupted by ${signal}`), code));
  }
  process.stdout.on('error', () => interrupt(new SandboxError('The output is closed')));
  process.on('uncaughtException', interrupt);
  return { signal: controller.signal, exitCode: () => exitCode };
}

async function main({ scenario, keep }: Options): Promise<number> {
  const startedAtMs = performance.now();
  const screen = createScreen(process.stdout);
  const { signal, exitCode } = interruption();
  const dir = await mkdtemp(join(tmpdir(), 'node-maintenance-demo-'));
  const undo: (() => Promise<unknown>)[] = [() => removeDirectory(screen, dir, keep)];
  try {
    const sections = await scenarios[scenario].run({ dir, screen, signal, undo });
    for (const text of drawVerification(sections, screen.colors, screen.width())) screen.print(text);
    await undoAll(undo);
    return printSummary(screen, sections, (performance.now() - startedAtMs) / 1000);
  } catch (error) {
    screen.clear();
    await undoAll(undo);
    process.stderr.write(`${describeError(signal.aborted ? signal.reason : error)}\n`);
    return exitCode();
  }
}

/** Runs the clean-up steps in reverse order. A failed step does not prevent the others. */
async function undoAll(undo: (() => Promise<unknown>)[]): Promise<void> {
  for (let step = undo.pop(); step !== undefined; step = undo.pop()) {
    await step().catch((error: unknown) => process.stderr.write(`${describeError(error)}\n`));
  }
}

async function removeDirectory({ print }: Screen, dir: string, keep: boolean): Promise<void> {
  if (!keep) return rm(dir, { recursive: true, force: true });
  print();
  print(`Kept ${dir}: logs/ has the log of each process.`);
  print(`To inspect the cluster: npm run sandbox -- up --dir ${dir}`);
}

function printSummary({ print, colors }: Screen, sections: readonly Section[], seconds: number): number {
  const rows = sections.flatMap((section) => section.rows);
  const failed = rows.filter(({ holds }) => !holds);
  print();
  for (const { fact, expected, actual } of failed)
    print(colors.red(`✗ ${fact}: expected ${expected}, actual ${actual}`));
  const result =
    failed.length === 0
      ? colors.green(`✓ All ${rows.length} facts hold.`)
      : colors.red(`✗ ${failed.length} of ${rows.length} facts do not hold.`);
  print(`${result} ${seconds.toFixed(0)} s in total; all processes are stopped.`);
  return failed.length === 0 ? 0 : 1;
}

/** Returns one line for an error that users can fix, and a stack trace for a bug. */
function describeError(error: unknown): string {
  if (error instanceof SandboxError) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : errorMessage(error);
}

const parsed = parseOptions(process.argv.slice(2));
process.exit(parsed.kind === 'Exit' ? parsed.code : await main(parsed.options));
