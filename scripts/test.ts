import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { text } from 'node:stream/consumers';
import { commandName, findByEnvironment, kill } from '../sandbox/processes.ts';
import { sandboxStatus, startSandbox, stopSandbox } from '../sandbox/sandbox.ts';
import { jestOptions, root, toolEnvironment } from './tools.ts';

/**
 * `npm test [-- <arguments of jest>]`: every test, on a sandbox of its own that the test files share. Whatever happens,
 * nothing keeps running. The last line is `<n> passed, <n> failed`, as Jest counted. A file that could not be run counts
 * as failed; so does, once, what goes wrong with the run as a whole.
 */

/** The parts of Jest's `--json` that count. */
interface JestResult {
  success: boolean;
  numPassedTests: number;
  numFailedTests: number;
  /** Files that failed before their first test or after their last. */
  numRuntimeErrorTestSuites: number;
}

/** Everything that a run puts on disk. */
interface Run {
  dir: string;
  /** Of the shared sandbox. */
  sandbox: string;
  /** Where tests make their temporary directories, sandboxes of their own among them. */
  temporary: string;
  result: string;
}

/** Tests in these folders need no server: to run only them, no sandbox is started. */
const serverless = ['test/desk/', 'test/domain/'];

/** In the environment of every process that descends from Jest; its value is the directory of the run. */
const mark = 'NM_TEST_RUN';

/** Milliseconds that Jest may stay after it has written its result. */
const jestLeavesWithin = 20_000;

async function main(args: readonly string[]): Promise<number> {
  const stop = interruption();
  const run = await makeRun();
  const problems: string[] = [];
  try {
    await runTests(run, args, stop);
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
  }
  const result = await readResult(run);
  const leftovers = await clearUp(run);
  // An interrupted test had no chance to clear up after itself.
  if (leftovers.length > 0 && !stop.aborted)
    problems.push(`Tests left these running, which are stopped now: ${leftovers.join(', ')}`);
  return conclude(result, problems);
}

/** Aborted by Ctrl-C and its relatives, which are no longer fatal: everything is stopped first. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(name, () => controller.abort(new Error(`Interrupted by ${name}`)));
  return controller.signal;
}

async function makeRun(): Promise<Run> {
  const dir = await mkdtemp(join(tmpdir(), 'nm-test-'));
  const temporary = join(dir, 'tmp');
  await mkdir(temporary);
  return { dir, temporary, sandbox: join(dir, 'sandbox'), result: join(dir, 'result.json') };
}

async function runTests(run: Run, args: readonly string[], stop: AbortSignal): Promise<void> {
  const files = await listTests(args);
  if (files.length === 0) throw new Error(`No test file matches: ${args.join(' ')}`);
  const isServerless = (file: string) => serverless.some((folder) => file.startsWith(folder));
  if (!files.every(isServerless)) {
    console.log('Starting the sandbox that the tests share');
    await startSandbox({ dir: run.sandbox, nodes: 3, report: (line) => console.log(line), signal: stop });
  }
  stop.throwIfAborted();
  await runJest(run, args, stop);
}

/** Paths of the test files that these arguments choose, relative to the root of the repository. */
async function listTests(args: readonly string[]): Promise<string[]> {
  const child = spawn('jest', ['--listTests', ...args], {
    cwd: root,
    env: toolEnvironment(jestOptions),
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [output] = await Promise.all([text(child.stdout), ended(child)]);
  const lines = output.split('\n').filter((line) => line !== '');
  return lines.map((file) => relative(root, file));
}

/** Returns when Jest has ended, with whatever result; throws when it had to be ended. */
async function runJest(run: Run, args: readonly string[], stop: AbortSignal): Promise<void> {
  const env = toolEnvironment({
    ...jestOptions,
    [mark]: run.dir,
    TMPDIR: run.temporary,
    ...(existsSync(run.sandbox) ? { NM_TEST_SANDBOX_DIR: run.sandbox } : {}),
  });
  const child = spawn('jest', ['--json', `--outputFile=${run.result}`, ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  stop.addEventListener('abort', () => child.kill('SIGKILL'));
  let overdue = false;
  const watch = setInterval(() => {
    overdue = isOverdue(run);
    if (overdue) child.kill('SIGKILL');
  }, 1_000);
  await ended(child).finally(() => clearInterval(watch));
  stop.throwIfAborted();
  if (overdue) throw new Error('Jest did not end after its last test: what a test started keeps it alive');
}

function isOverdue(run: Run): boolean {
  const written = statSync(run.result, { throwIfNoEntry: false })?.mtimeMs;
  return written !== undefined && Date.now() - written > jestLeavesWithin;
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new Error(`${error.message}: run npm ci first`, { cause: error })));
    child.once('close', () => resolve());
  });
}

/** All zero when Jest did not get as far as to write one. */
async function readResult({ result }: Run): Promise<JestResult> {
  if (!existsSync(result))
    return { success: false, numPassedTests: 0, numFailedTests: 0, numRuntimeErrorTestSuites: 0 };
  return JSON.parse(await readFile(result, 'utf8')) as JestResult;
}

/** Ends all that the run started and removes its files. Returns the names of what should have been gone already. */
async function clearUp(run: Run): Promise<string[]> {
  const leftovers = [...(await stopDescendants(run)), ...(await stopOwnSandboxes(run))];
  if (existsSync(run.sandbox)) {
    const stopped = await stopSandbox(run.sandbox);
    if (stopped.length > 0) console.log(`Stopped the sandbox: ${stopped.join(', ')}`);
  }
  const isClear = sandboxStatus(run.sandbox).kind === 'Down' && findByEnvironment(mark, run.dir).length === 0;
  if (!isClear) leftovers.push('something that could not be stopped');
  await rm(run.dir, { recursive: true, force: true });
  if (isClear) console.log('Nothing is left running.');
  return leftovers;
}

async function stopDescendants(run: Run): Promise<string[]> {
  const running = findByEnvironment(mark, run.dir);
  const names = running.map(({ pid }) => commandName(pid));
  await Promise.all(running.map(kill));
  return names;
}

/** The servers of a sandbox inherit no environment: they are found by the sandbox's own file. */
async function stopOwnSandboxes(run: Run): Promise<string[]> {
  const files = await readdir(run.temporary, { recursive: true });
  const dirs = files.filter((file) => basename(file) === 'sandbox.json').map(dirname);
  const stopped = await Promise.all(dirs.map((dir) => stopSandbox(join(run.temporary, dir))));
  return stopped.flat();
}

/** Prints what went wrong, then the counts; returns the exit code. */
function conclude(result: JestResult, problems: string[]): number {
  const passed = result.numPassedTests;
  const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
  if (problems.length === 0 && passed + failed === 0) problems.push('No test was run');
  for (const problem of problems) console.error(problem);
  const isWhole = problems.length === 0 && result.success;
  console.log(`${passed} passed, ${isWhole ? 0 : Math.max(failed, 1)} failed`);
  return isWhole ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
