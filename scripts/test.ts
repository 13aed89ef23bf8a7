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
 * `npm test [-- <arguments of jest>]`: every test, in lanes side by side, because most of a test's time is waiting.
 * In a lane one file runs after the other, on a sandbox that the files share. Whatever happens, nothing keeps running.
 * The last line is `<n> passed, <n> failed`, as Jest counted. A file that could not be run counts as failed; so does,
 * once, what goes wrong with the run as a whole.
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
  /** Where tests make their temporary directories, sandboxes of their own among them. */
  temporary: string;
}

/** Test files that one Jest runs. */
interface Lane {
  /** Paths relative to the root of the repository. */
  files: string[];
  /** Matches the paths of the other lanes' files. */
  ignore: string;
  /** Directory of the sandbox that the files share. */
  sandbox: string;
  /** Where Jest writes its result. */
  result: string;
}

/** Which files are in which lane, chosen so that each takes about as long as the others; what matches none is in the last. */
const laneFiles = {
  first: 'test/(?:e2e/(?!windowsByClock)[l-z]|api/|cli/|desk/|domain/|kube/|replay/)',
  second: 'test/(?:e2e/|sandbox/|workflows/)',
  third: '',
};

/** Tests in these folders need no server, or start what they need: to run only them, no sandbox is started. */
const selfSufficient = /^test\/(?:desk|domain|e2e|replay|sandbox)\//;

/** In the environment of every process that descends from Jest; its value is the directory of the run. */
const mark = 'NM_TEST_RUN';

/** Milliseconds that Jest may stay after it has written its result. */
const jestLeavesWithin = 20_000;

async function main(args: readonly string[]): Promise<number> {
  const stop = interruption();
  const run = await makeRun();
  const problems: string[] = [];
  let lanes: Lane[] = [];
  try {
    lanes = lanesOf(run, await listTests(args));
    if (lanes.length === 0) throw new Error(`No test file matches: ${args.join(' ')}`);
    await runLanes(run, lanes, args, stop);
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
  }
  const results = await Promise.all(lanes.map(readResult));
  const leftovers = await clearUp(run, lanes);
  // An interrupted test had no chance to clear up after itself.
  if (leftovers.length > 0 && !stop.aborted)
    problems.push(`Tests left these running, which are stopped now: ${leftovers.join(', ')}`);
  return conclude(results, problems);
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
  return { dir, temporary };
}

/** The lanes that have something to do. */
function lanesOf(run: Run, files: readonly string[]): Lane[] {
  const inRoot = `^${root.replaceAll(/\W/g, String.raw`\$&`)}/`;
  const before: string[] = [];
  const lanes = Object.entries(laneFiles).map(([name, pattern]) => {
    const ignore = new RegExp(`${inRoot}(?:${[...before, `(?!${pattern})`].join('|')})`);
    before.push(pattern);
    return {
      files: files.filter((file) => !ignore.test(join(root, file))),
      ignore: ignore.source,
      sandbox: join(run.dir, name, 'sandbox'),
      result: join(run.dir, `${name}.json`),
    };
  });
  return lanes.filter((lane) => lane.files.length > 0);
}

/** Returns when every lane has come to its end; throws if one had to be ended, or its sandbox did not start. */
async function runLanes(run: Run, lanes: Lane[], args: readonly string[], stop: AbortSignal): Promise<void> {
  const ends = await Promise.allSettled(lanes.map((lane) => runLane(run, lane, args, stop)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

async function runLane(run: Run, lane: Lane, args: readonly string[], stop: AbortSignal): Promise<void> {
  if (!lane.files.every((file) => selfSufficient.test(file))) {
    const report = (line: string) => console.log(line);
    report(`Starting a sandbox for ${lane.files.length} test files to share`);
    await startSandbox({ dir: lane.sandbox, nodes: 3, report, signal: stop });
  }
  stop.throwIfAborted();
  await runJest(run, lane, args, stop);
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
async function runJest(run: Run, lane: Lane, args: readonly string[], stop: AbortSignal): Promise<void> {
  const env = toolEnvironment({
    ...jestOptions,
    [mark]: run.dir,
    TMPDIR: run.temporary,
    ...(existsSync(lane.sandbox) ? { NM_TEST_SANDBOX_DIR: lane.sandbox } : {}),
  });
  const own = [`--testPathIgnorePatterns=${lane.ignore}`, '--json', `--outputFile=${lane.result}`];
  const child = spawn('jest', [...own, ...args], {
    cwd: root,
    env,
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  stop.addEventListener('abort', () => child.kill('SIGKILL'));
  let overdue = false;
  const watch = setInterval(() => {
    overdue = isOverdue(lane);
    if (overdue) child.kill('SIGKILL');
  }, 1_000);
  await ended(child).finally(() => clearInterval(watch));
  stop.throwIfAborted();
  if (overdue) throw new Error('Jest did not end after its last test: what a test started keeps it alive');
}

function isOverdue(lane: Lane): boolean {
  const written = statSync(lane.result, { throwIfNoEntry: false })?.mtimeMs;
  return written !== undefined && Date.now() - written > jestLeavesWithin;
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new Error(`${error.message}: run npm ci first`, { cause: error })));
    child.once('close', () => resolve());
  });
}

/** All zero when Jest did not get as far as to write one. */
async function readResult({ result }: Lane): Promise<JestResult> {
  if (!existsSync(result))
    return { success: false, numPassedTests: 0, numFailedTests: 0, numRuntimeErrorTestSuites: 0 };
  return JSON.parse(await readFile(result, 'utf8')) as JestResult;
}

/** Ends all that the run started and removes its files. Returns the names of what should have been gone already. */
async function clearUp(run: Run, lanes: Lane[]): Promise<string[]> {
  const leftovers = [...(await stopDescendants(run)), ...(await stopOwnSandboxes(run))];
  const shared = lanes.map(({ sandbox }) => sandbox).filter((dir) => existsSync(dir));
  const stopped = await Promise.all(shared.map((dir) => stopSandbox(dir)));
  for (const names of stopped) if (names.length > 0) console.log(`Stopped a sandbox: ${names.join(', ')}`);
  const isDown = shared.every((dir) => sandboxStatus(dir).kind === 'Down');
  const isClear = isDown && findByEnvironment(mark, run.dir).length === 0;
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
function conclude(results: JestResult[], problems: string[]): number {
  const count = (of: (result: JestResult) => number) => results.reduce((sum, result) => sum + of(result), 0);
  const passed = count(({ numPassedTests }) => numPassedTests);
  const failed = count((result) => result.numFailedTests + result.numRuntimeErrorTestSuites);
  if (problems.length === 0 && passed + failed === 0) problems.push('No test was run');
  for (const problem of problems) console.error(problem);
  const isWhole = problems.length === 0 && results.every(({ success }) => success);
  console.log(`${passed} passed, ${isWhole ? 0 : Math.max(failed, 1)} failed`);
  return isWhole ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
