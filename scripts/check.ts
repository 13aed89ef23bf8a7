import { spawn } from 'node:child_process';
import { jestOptions, root, toolEnvironment } from './tools.ts';

/** `npm run check`: runs every check that needs no server. Prints the output of each step that fails, and exits 1 then. */

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

/** The steps in the order of their start, the longest first. */
const steps: readonly Step[] = [
  { name: 'domain tests', command: ['jest', 'test/domain'] },
  { name: 'types', command: ['tsc', '--noEmit'] },
  { name: 'lint, import directions', command: ['oxlint'] },
  { name: 'unused code', command: ['knip', '--treat-config-hints-as-errors'] },
  { name: 'dependencies', command: ['node', 'scripts/dependencies.ts'] },
  { name: 'generated files', command: ['node', 'scripts/generate.ts', '--verify'] },
  { name: 'format', command: ['biome', 'format'] },
];

/** The number of steps that run at the same time: the smallest supported machine has two cores. */
const concurrency = 2;

const longestName = Math.max(...steps.map(({ name }) => name.length));

async function runStep(step: Step): Promise<Outcome> {
  const startedAt = performance.now();
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
  return { step, ok, seconds: secondsSince(startedAt), output: Buffer.concat(chunks).toString() };
}

function show({ step, ok, seconds, output }: Outcome): void {
  console.log(
    `${ok ? 'ok    ' : 'failed'}  ${step.name.padEnd(longestName)}  ${seconds.toFixed(1).padStart(5)} s`,
  );
  if (!ok) console.log(`\n$ ${step.command.join(' ')}\n${output.trimEnd()}\n`);
}

/** Runs steps from the queue until it is empty. */
async function runSteps(queue: Step[]): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (let step = queue.shift(); step !== undefined; step = queue.shift()) {
    const outcome = await runStep(step);
    show(outcome);
    outcomes.push(outcome);
  }
  return outcomes;
}

function secondsSince(startedAt: number): number {
  return (performance.now() - startedAt) / 1000;
}

const startedAt = performance.now();
const queue = [...steps];
const outcomes = (await Promise.all(Array.from({ length: concurrency }, () => runSteps(queue)))).flat();
const failed = outcomes.filter(({ ok }) => !ok).map(({ step }) => step.name);
const duration = `${secondsSince(startedAt).toFixed(1)} s`;
if (failed.length > 0) {
  console.log(`${failed.length} of ${steps.length} steps failed in ${duration}: ${failed.join('; ')}`);
  process.exitCode = 1;
} else {
  console.log(`All ${steps.length} steps passed in ${duration}.`);
}
