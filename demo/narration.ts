import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandLine, complaintOf } from './kubectl.ts';
import { type Screen, wrap } from '../cli/screen.ts';
import type { Setting } from './setting.ts';
import { untilFinished } from './waiting.ts';
import type { DemoProcess } from './program.ts';

/** How a story is told, whichever it is. */

/** Numbered headings. */
export function chapters({ say, colors }: Screen): (title: string) => void {
  let number = 0;
  return (title) => {
    number += 1;
    say();
    say(`${colors.cyan(`${number}.`)} ${colors.bold(title)}`);
  };
}

/** Leaves a line that begins with the time. */
export type Note = (text: string, paint?: (text: string) => string) => void;

/** The time is counted from now. */
export function notes(screen: Screen): { note: Note; seconds(): number } {
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  const note: Note = (text, paint = (same) => same) => {
    const time = `   ${seconds().toFixed(1).padStart(5)} s  `;
    for (const [index, words] of linesOf(screen, text, time.length).entries()) {
      screen.say(`${index === 0 ? time : ' '.repeat(time.length)}${paint(words)}`);
    }
  };
  return { note, seconds };
}

/** In a pipe a sentence is one line, however long. */
function linesOf(screen: Screen, text: string, margin: number): string[] {
  return screen.isLive ? wrap(text, screen.width() - margin) : [text];
}

export function sayCommand({ say, colors }: Screen, command: string): void {
  say(`   ${colors.dim('$')} ${colors.cyan(command)}`);
}

/** Types a kubectl command where everybody sees it; what it prints stays hidden. */
export async function type({ screen, kubectl }: Setting, ...args: string[]): Promise<string> {
  sayCommand(screen, commandLine(args));
  return kubectl(...args);
}

/** Types a kubectl command and says what it printed. */
export async function show(setting: Setting, ...args: string[]): Promise<void> {
  const output = await type(setting, ...args);
  for (const text of output.trimEnd().split('\n')) setting.screen.say(`     ${text.trimEnd()}`);
}

/**
 * Types a kubectl command that is going to be refused, and says why: those lines of its complaint that tell something.
 * Resolves with them; empty if it was not refused.
 */
export async function showRefusal(
  setting: Setting,
  args: readonly string[],
  isTelling: (text: string) => boolean = () => true,
): Promise<string[]> {
  const { screen } = setting;
  try {
    await type(setting, ...args);
    return [];
  } catch (error) {
    const telling = complaintOf(error).split('\n').filter(isTelling);
    const lines = telling.flatMap((text) => linesOf(screen, text, 5));
    for (const words of lines) screen.say(`     ${screen.colors.yellow(words)}`);
    return telling;
  }
}

export function startFirstWorker({ screen, sandbox, startWorker }: Setting): DemoProcess {
  sayCommand(screen, 'KUBECONFIG=worker.kubeconfig npm start');
  const worker = startWorker();
  screen.say(`   Process ${worker.pid}. The Temporal UI is at ${sandbox.temporalUi}`);
  return worker;
}

/** Writes a file where kubectl's user would have it, and types the command that applies it. */
export async function applyFile(setting: Setting, file: string, yaml: string): Promise<void> {
  writeFileSync(join(setting.sandbox.dir, file), yaml);
  await type(setting, 'apply', '-f', file);
}

/** The same, when the file is of interest itself. */
export async function showAndApply(setting: Setting, file: string, yaml: string): Promise<void> {
  const { screen } = setting;
  sayCommand(screen, `cat ${file}`);
  for (const text of yaml.trimEnd().split('\n')) screen.say(`     ${screen.colors.dim(text)}`);
  await applyFile(setting, file, yaml);
}

/** Types what ends a maintenance, and waits until it has given its nodes back. */
export async function complete(setting: Setting, maintenance: string): Promise<void> {
  const patch = JSON.stringify({ spec: { stage: 'Complete' } });
  await type(setting, 'patch', 'nodemaintenance', maintenance, '--type', 'merge', '-p', patch);
  await untilFinished(setting, maintenance);
}
