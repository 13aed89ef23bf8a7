import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { commandLine, errorOutputOf } from './kubectl.ts';
import { type Screen, wrap } from '../cli/terminal/screen.ts';
import type { Environment } from './environment.ts';
import { untilCompleted } from './waiting.ts';
import type { DemoProcess } from './program.ts';

/** Output functions that all scenarios share. */

/** Creates a function that prints numbered headings. */
export function headings({ print, colors }: Screen): (title: string) => void {
  let number = 0;
  return (title) => {
    number += 1;
    print();
    print(`${colors.cyan(`${number}.`)} ${colors.bold(title)}`);
  };
}

/** Prints a line that starts with the elapsed time. */
export type Note = (text: string, paint?: (text: string) => string) => void;

/** Creates a Note function whose clock starts now. */
export function notes(screen: Screen): { note: Note; seconds(): number } {
  const startedAtMs = performance.now();
  const seconds = () => (performance.now() - startedAtMs) / 1000;
  const note: Note = (text, paint = (same) => same) => {
    const time = `   ${seconds().toFixed(1).padStart(5)} s  `;
    for (const [index, words] of linesOf(screen, text, time.length).entries()) {
      screen.print(`${index === 0 ? time : ' '.repeat(time.length)}${paint(words)}`);
    }
  };
  return { note, seconds };
}

/** Wraps text in a terminal. In a pipe, a sentence stays on one line. */
function linesOf(screen: Screen, text: string, margin: number): string[] {
  return screen.isLive ? wrap(text, screen.width() - margin) : [text];
}

export function printCommand({ print, colors }: Screen, command: string): void {
  print(`   ${colors.dim('$')} ${colors.cyan(command)}`);
}

/** Prints a kubectl command and runs it. Returns its output without printing it. */
export async function runCommand({ screen, kubectl }: Environment, ...args: string[]): Promise<string> {
  printCommand(screen, commandLine(args));
  return kubectl(...args);
}

/** Prints a kubectl command, runs it, and prints its output. */
export async function runAndPrint(environment: Environment, ...args: string[]): Promise<void> {
  const output = await runCommand(environment, ...args);
  for (const text of output.trimEnd().split('\n')) environment.screen.print(`     ${text.trimEnd()}`);
}

/**
 * Prints and runs a kubectl command that is expected to be rejected, and prints the relevant lines of its error output. Returns
 * these lines; empty if the command succeeded.
 */
export async function runRejectedCommand(
  environment: Environment,
  args: readonly string[],
  isRelevant: (text: string) => boolean = () => true,
): Promise<string[]> {
  const { screen } = environment;
  try {
    await runCommand(environment, ...args);
    return [];
  } catch (error) {
    const relevant = errorOutputOf(error).split('\n').filter(isRelevant);
    const lines = relevant.flatMap((text) => linesOf(screen, text, 5));
    for (const words of lines) screen.print(`     ${screen.colors.yellow(words)}`);
    return relevant;
  }
}

export function startFirstWorker({ screen, sandbox, startWorker }: Environment): DemoProcess {
  printCommand(screen, 'KUBECONFIG=worker.kubeconfig ADMISSION_KUBECONFIG=admission.kubeconfig npm start');
  const worker = startWorker();
  screen.print(`   Process ${worker.pid}. The Temporal UI is at ${sandbox.temporalUi}`);
  return worker;
}

/** Writes a manifest to a file, and prints and runs the command that applies it. */
export async function applyFile(environment: Environment, file: string, yaml: string): Promise<void> {
  writeFileSync(join(environment.sandbox.dir, file), yaml);
  await runCommand(environment, 'apply', '-f', file);
}

/** Prints a manifest, writes it to a file, and prints and runs the command that applies it. */
export async function printAndApply(environment: Environment, file: string, yaml: string): Promise<void> {
  const { screen } = environment;
  printCommand(screen, `cat ${file}`);
  for (const text of yaml.trimEnd().split('\n')) screen.print(`     ${screen.colors.dim(text)}`);
  await applyFile(environment, file, yaml);
}

/** Sets the stage of a maintenance to Complete, and waits until its nodes are uncordoned. */
export async function complete(environment: Environment, maintenance: string): Promise<void> {
  const patch = JSON.stringify({ spec: { stage: 'Complete' } });
  await runCommand(environment, 'patch', 'nodemaintenance', maintenance, '--type', 'merge', '-p', patch);
  await untilCompleted(environment, maintenance);
}
