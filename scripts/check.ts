import { spawn } from 'node:child_process';
import { jestOptions, root, toolEnvironment } from './tools.ts';

/**
 * `npm run check`: all that can be known without a server. Every step runs, whatever the others say; exit 1 if one
 * fails, and then its output is shown.
 */

interface Step {
  name: string;
  command: readonly [string, ...string[]];
}

interface Outcome {
  step: Step;
  ok: boolean;
  seconds: number;
  output: string;
}

/** Where to start, the longest first. */
const steps: readonly Step[] = [
  { name: 'domain tests', command: ['jest', 'test/domain'] },
  { name: 'types', command: ['tsc', '--noEmit'] },
  { name: 'lint, import directions', command: ['oxlint'] },
  { name: 'unused code', command: ['knip', '--treat-config-hints-as-errors'] },
  { name: 'generated files', command: ['node', 'scripts/generate.ts', '--verify'] },
  { name: 'format', command: ['biome', 'format'] },
];

/** Two cores are what the smallest machine has; more steps at a time would only get in each other's way. */
const lanes = 2;

const longestName = Math.max(...steps.map(({ name }) => name.length));

async function runStep(step: Step): Promise<Outcome> {
  const began = performance.now();
  const [command, ...args] = step.command;
  const child = spawn(command, args, {
    cwd: root,
    env: toolEnvironment({ ...jestOptions, ...(process.stdout.isTTY ? { FORCE_COLOR: '1' } : {}) }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const chunks: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => chunks.push(chunk));
  const ok = await new Promise<boolean>((resolve) => {
    child.once('error', (error) => {
      chunks.push(Buffer.from(`${error.message}: run npm ci first\n`));
      resolve(false);
    });
    child.once('close', (code) => resolve(code === 0));
  });
  return { step, ok, seconds: secondsSince(began), output: Buffer.concat(chunks).toString() };
}

function show({ step, ok, seconds, output }: Outcome): void {
  console.log(
    `${ok ? 'ok    ' : 'failed'}  ${step.name.padEnd(longestName)}  ${seconds.toFixed(1).padStart(5)} s`,
  );
  if (!ok) console.log(`\n$ ${step.command.join(' ')}\n${output.trimEnd()}\n`);
}

/** Takes steps from the queue until it is empty. */
async function runLane(queue: Step[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (let step = queue.shift(); step !== undefined; step = queue.shift()) {
    const outcome = await runStep(step);
    show(outcome);
    outcomes.push(outcome);
  }
  return outcomes;
}

function secondsSince(began: number): number {
  return (performance.now() - began) / 1000;
}

const began = performance.now();
const queue = [...steps];
const outcomes = (await Promise.all(Array.from({ length: lanes }, () => runLane(queue)))).flat();
const failed = outcomes.filter(({ ok }) => !ok).map(({ step }) => step.name);
const took = `${secondsSince(began).toFixed(1)} s`;
if (failed.length > 0) {
  console.log(`${failed.length} of ${steps.length} steps failed in ${took}: ${failed.join('; ')}`);
  process.exitCode = 1;
} else {
  console.log(`All ${steps.length} steps passed in ${took}.`);
}
