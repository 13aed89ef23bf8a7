import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, statSync } from 'node:fs';
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve as absolute } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { commandName, findByEnvironment, kill } from '../sandbox/processes.ts';
import { sandboxStatus, startSandbox, stopSandbox } from '../sandbox/sandbox.ts';
import { compare, problemsOf } from './permissions/compare.ts';
import { readPermissions, readRequests } from './permissions/files.ts';
import { bundleKubernetesClient } from './bundle.ts';
import { writeApplication } from './image/application.ts';
import { jestOptions, root, toolEnvironment } from './tools.ts';

/**
 * `npm test [-- <arguments of jest>]` runs tests in shards side by side, because most of a test's time is waiting.
 * A shard is a process of Jest with a sandbox: it takes the longest file that is left, as soon as it is free. Nothing
 * keeps running, however the run ends.
 * Without arguments it leaves out the files `*.slow.test.ts`, which take longer than all others together, and `*.long.test.ts`. `npm run test:all` runs
 * the slow ones, too, and also fails if deploy/ grants a permission to the worker that none of its processes used. Of its files, a few that fail are run
 * again. `npm run test:long` runs the long ones.
 * NM_TEST_KUBERNETES runs them with another version of Kubernetes, such as 1.34.
 * The last line is `<n> passed, <n> failed`, as counted by Jest, and `, <n> skipped` if this machine lacks what tests need (test/kit/requirements.ts). A
 * file that could not be run counts as one failed test; so does, once, a problem of the run as a whole.
 */

/** The fields of Jest's `--json` that count. */
interface JestResult {
  success: boolean;
  numPassedTests: number;
  numFailedTests: number;
  /** Tests that were skipped. */
  numPendingTests: number;
  /** Files that failed before their first test or after their last. */
  numRuntimeErrorTestSuites: number;
  testResults: readonly FileResult[];
}

interface FileResult {
  /** Its path. */
  name: string;
  status: 'passed' | 'failed';
  assertionResults: readonly { status: string }[];
}

/** The files of a run. */
interface Run {
  dir: string;
  /** Temporary directories of tests, with sandboxes of their own among them. */
  temporary: string;
  /** Parent of the shards' sandboxes, which are named by the number of the shard. */
  sandboxes: string;
  /** The audit logs of all sandboxes, those of tests among them. Undefined: none are written. */
  auditLogs: string | undefined;
  /** The programs of the image: they start in half the time, and are what users run. */
  application: string;
  /** Jest's result. */
  result: string;
}

/** More than two processors, because tests wait for servers and for time. Each needs some 1.5 GB of memory. */
const shardCount = shardsOf(process.env['NM_TEST_SHARDS']);

function shardsOf(count = '4'): number {
  if (!/^[1-9]$/.test(count)) throw new Error(`NM_TEST_SHARDS: expected 1 to 9 (got "${count}")`);
  return Number(count);
}

/** Tests in these folders and files need no server, or start their own: to run only them, no sandbox is started. */
const selfSufficient = new RegExp(
  `^test/(?:${[
    'static/',
    'cli/hostileText',
    'cli/(?:maintenance|report|terminal)/',
    'cli/windows/windows(?:Block|View)',
    'demo/',
    'domain/',
    'evacuator-kit/(?:defaultLog|example)',
    'fuzz/',
    'http/',
    'node-lease/example',
    'replay/',
    'sandbox/',
    'scripts/',
  ].join('|')})`,
);

/** Runs every file: only that uses every permission. */
const wholeOption = '--all';
/** Options of Jest. */
const withoutSlow = ['--testPathIgnorePatterns', String.raw`\.(?:slow|long)\.test\.ts$`];
const withoutLong = ['--testPathIgnorePatterns', String.raw`\.long\.test\.ts$`];

/** Maximum number of files that are run again: if more fail in a whole run, none is. */
const maxRepeatedFiles = 6;

/** Variable in the environment of every process that descends from Jest; its value is the directory of the run. */
const mark = 'NM_TEST_RUN';

/**
 * Variable in the environment of Jest: where sandboxes write their audit logs. A user sets it to keep the logs of a run, for
 * `node scripts/verbs.ts`.
 */
const auditLogs = 'NM_AUDIT_LOGS';

/** Variable in the environment of a run: the file to which it copies the result of Jest. */
const report = 'NM_TEST_REPORT';

/** Time within which Jest must end after it has written its result. */
const jestEndsWithinMs = 20_000;

/** Jest prints this, and carries on, when a shard does not end after its last test. */
const shardWasKilled = 'A worker process has failed to exit gracefully';

const jest = join(root, 'node_modules', 'jest', 'bin', 'jest.js');
const shardExit = pathToFileURL(join(root, 'scripts', 'shardExit.ts')).href;

/** Compiled code of the worker and the command line, kept from run to run: it halves the time in which they start. */
const compileCache = join(root, 'node_modules', '.cache', 'node-compile');

/** The part of the Kubernetes client that kube/ imports, in one module instead of a thousand. Beside its packages, which it imports. */
const kubernetesClient = join(root, 'node_modules', '.cache', 'kubernetesClient.mjs');

/**
 * Lets this process and all that it starts keep a processor for longer at a time, by which a run takes less of them. Another policy than the usual one is
 * the user's choice, and stays. Does nothing where there is no chrt (util-linux).
 */
function scheduleAsBatch(): void {
  const policy = spawnSync('chrt', ['--pid', String(process.pid)], { encoding: 'utf8' });
  if (policy.stdout?.includes('SCHED_OTHER'))
    spawnSync('chrt', ['--batch', '--all-tasks', '--pid', '0', String(process.pid)]);
}

async function main(given: readonly string[]): Promise<number> {
  scheduleAsBatch();
  const isWhole = given.includes(wholeOption);
  const args = argumentsOfJest(given);
  const stop = interruption();
  const run = await makeRun({ isWhole });
  const problems: string[] = [];
  let repeated: JestResult | undefined;
  try {
    const files = await listTests(args);
    if (files.length === 0) throw new Error(`No test file matches: ${args.join(' ')}`);
    const shards = Math.min(shardCount, files.length);
    if (!files.every((file) => selfSufficient.test(file))) await startServers(run, shards, stop);
    problems.push(...(await runJest(run, shards, args, stop)));
    if (isWhole) repeated = await repeatFailed(run, stop, problems);
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error));
  }
  const result = repeated ?? (await readResult(run));
  if (process.env[report] && existsSync(run.result)) await copyFile(run.result, process.env[report]);
  // Tests that failed may not have reached what needs a permission.
  if (isWhole && result.success && problems.length === 0) problems.push(...(await permissionProblems(run)));
  const leftovers = await clearUp(run);
  // An interrupted test had no chance to clear up after itself.
  if (leftovers.length > 0 && !stop.aborted)
    problems.push(`Tests left these running, which are stopped now: ${leftovers.join(', ')}`);
  return conclude(result, problems);
}

function argumentsOfJest(given: readonly string[]): string[] {
  if (given.length === 0) return withoutSlow;
  if (!given.includes(wholeOption)) return [...given];
  return [...given.filter((arg) => arg !== wholeOption), ...withoutLong];
}

/** Aborts on Ctrl-C and its relatives, which do not end the process: everything is stopped first. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(name, () => controller.abort(new Error(`Interrupted by ${name}`)));
  return controller.signal;
}

async function makeRun({ isWhole }: { isWhole: boolean }): Promise<Run> {
  const dir = await mkdtemp(join(tmpdir(), 'nm-test-'));
  const [temporary, sandboxes] = [join(dir, 'tmp'), join(dir, 'sandboxes')];
  const asked = process.env[auditLogs];
  const audited = asked ? absolute(asked) : isWhole ? join(dir, 'audit') : undefined;
  const dirs = [temporary, sandboxes, ...(audited === undefined ? [] : [audited])];
  await Promise.all(dirs.map((path) => mkdir(path, { recursive: true })));
  return {
    dir,
    temporary,
    sandboxes,
    auditLogs: audited,
    application: join(dir, 'application'),
    result: join(dir, 'result.json'),
  };
}

/** Returns the permissions of deploy/ that no process of the tests used, and the requests of these processes that were denied. */
async function permissionProblems({ auditLogs: dir }: Run): Promise<string[]> {
  if (dir === undefined) return [];
  const files = (await readdir(dir)).map((name) => join(dir, name));
  const [granted, requests] = await Promise.all([readPermissions(), readRequests(files)]);
  return problemsOf(compare(granted, requests));
}

/** Starts everything that test files share. Throws the first failure when nothing is being started any more. */
async function startServers(run: Run, shards: number, signal: AbortSignal): Promise<void> {
  console.log(`Starting ${shards} ${shards === 1 ? 'sandbox' : 'sandboxes'} for the test files to share`);
  const started = Array.from({ length: shards }, (_, index) =>
    startSandbox({
      dir: join(run.sandboxes, `${index + 1}`),
      nodes: 3,
      kubernetes: process.env['NM_TEST_KUBERNETES'],
      auditLogs: run.auditLogs,
      commands: commandsIn(run),
      report: (line) => console.log(`${index + 1}: ${line}`),
      signal,
    }),
  );
  const ends = await Promise.allSettled([
    ...started,
    writeApplication(run.application),
    bundleKubernetesClient(kubernetesClient),
  ]);
  signal.throwIfAborted();
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** The commands of cli/. */
function commandsIn(run: Run): string {
  return join(run.application, 'cli');
}

/** Returns the paths of the test files that the arguments choose, relative to the root of the repository. */
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

/** Returns when Jest has ended, with any result: a problem if something kept it or one of its shards from ending. */
async function runJest(
  run: Run,
  shards: number,
  args: readonly string[],
  stop: AbortSignal,
): Promise<string[]> {
  stop.throwIfAborted();
  const options = ['--json', `--outputFile=${run.result}`, ...args];
  const child = spawn(process.execPath, ['--import', shardExit, jest, ...options], {
    cwd: root,
    env: environment(run, shards),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  stop.addEventListener('abort', () => child.kill('SIGKILL'));
  let wasKilled = false;
  child.stderr.on('data', (chunk: Buffer) => {
    process.stderr.write(chunk);
    wasKilled ||= chunk.includes(shardWasKilled);
  });
  const watch = setInterval(() => {
    if (isOverdue(run)) wasKilled = child.kill('SIGKILL');
  }, 1_000);
  await ended(child).finally(() => clearInterval(watch));
  stop.throwIfAborted();
  return wasKilled ? ['Jest did not end after its last test: a test left something running in it'] : [];
}

/**
 * Runs the files that failed again, one after the other: a whole run occupies all processors for an hour, and what a control plane does late then is no
 * fault of ours. What fails twice fails the run. Returns undefined if there is nothing to repeat, or too much for it to be chance.
 */
async function repeatFailed(
  run: Run,
  stop: AbortSignal,
  problems: string[],
): Promise<JestResult | undefined> {
  const first = await readResult(run);
  const failed = first.testResults.filter(({ status }) => status === 'failed');
  if (failed.length === 0 || failed.length > maxRepeatedFiles) return undefined;
  const files = failed.map(({ name }) => relative(root, name));
  console.log(`Failed, and run again without others: ${files.join(', ')}`);
  const second = { ...run, result: join(run.dir, 'repeated.json') };
  problems.push(...(await runJest(second, 1, ['--runTestsByPath', ...files], stop)));
  return combined(first, failed, await readResult(second));
}

/** Returns the result of a run in which these files were run again. */
function combined(first: JestResult, repeated: readonly FileResult[], second: JestResult): JestResult {
  const before = repeated.flatMap(({ assertionResults }) => assertionResults.map(({ status }) => status));
  const count = (...statuses: string[]) => before.filter((status) => statuses.includes(status)).length;
  return {
    ...second,
    numPassedTests: first.numPassedTests - count('passed') + second.numPassedTests,
    numPendingTests: first.numPendingTests - count('pending', 'skipped') + second.numPendingTests,
  };
}

function environment(run: Run, shards: number): NodeJS.ProcessEnv {
  return toolEnvironment({
    ...jestOptions,
    [mark]: run.dir,
    TMPDIR: run.temporary,
    NM_TEST_SHARDS: String(shards),
    NODE_COMPILE_CACHE: compileCache,
    ...(run.auditLogs !== undefined && { [auditLogs]: run.auditLogs }),
    ...(process.stderr.isTTY && { FORCE_COLOR: '1' }),
    ...(existsSync(run.application) && {
      NM_TEST_SANDBOXES: run.sandboxes,
      NM_TEST_WORKER: join(run.application, 'worker', 'main.js'),
      WORKFLOW_BUNDLE: join(run.application, 'worker', 'workflows.js'),
      NM_TEST_COMMANDS: commandsIn(run),
      NM_TEST_KUBERNETES_CLIENT: kubernetesClient,
    }),
  });
}

function isOverdue(run: Run): boolean {
  const written = statSync(run.result, { throwIfNoEntry: false })?.mtimeMs;
  return written !== undefined && Date.now() - written > jestEndsWithinMs;
}

function ended(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new Error(`${error.message}: run npm ci first`, { cause: error })));
    child.once('close', () => resolve());
  });
}

/** Returns zeros when Jest ended before it wrote a result. */
async function readResult({ result }: Run): Promise<JestResult> {
  if (!existsSync(result))
    return {
      success: false,
      numPassedTests: 0,
      numFailedTests: 0,
      numPendingTests: 0,
      numRuntimeErrorTestSuites: 0,
      testResults: [],
    };
  return JSON.parse(await readFile(result, 'utf8')) as JestResult;
}

/** Ends everything that the run started, and deletes its files. Returns the names of what tests should have ended. */
async function clearUp(run: Run): Promise<string[]> {
  const leftovers = [...(await stopDescendants(run)), ...(await stopOwnSandboxes(run))];
  const shared = (await readdir(run.sandboxes)).map((name) => join(run.sandboxes, name));
  const stopped = await Promise.all(shared.map((dir) => stopSandbox(dir)));
  for (const names of stopped) if (names.length > 0) console.log(`Stopped a sandbox: ${names.join(', ')}`);
  const isDown = shared.every((dir) => sandboxStatus(dir).kind === 'Down');
  const isClear = isDown && findByEnvironment(mark, run.dir).length === 0;
  if (!isClear) leftovers.push('a process that could not be stopped');
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

/** Prints the problems and the counts; returns the exit code. */
function conclude(result: JestResult, problems: string[]): number {
  const { numPassedTests: passed, numPendingTests: skipped, success } = result;
  const failed = result.numFailedTests + result.numRuntimeErrorTestSuites;
  if (problems.length === 0 && passed + failed + skipped === 0) problems.push('No test was run');
  for (const problem of problems) console.error(problem);
  const isWhole = problems.length === 0 && success;
  const counts = `${passed} passed, ${isWhole ? 0 : Math.max(failed, 1)} failed`;
  console.log(skipped === 0 ? counts : `${counts}, ${skipped} skipped`);
  return isWhole ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
