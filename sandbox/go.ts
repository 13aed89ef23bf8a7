import { type ChildProcess, spawn } from 'node:child_process';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import { errorMessage, hasCode, SandboxError } from './errors.ts';

/**
 * Returns the version of Go that builds the module in `source`, such as `go1.26.8`. Throws SandboxError when Go is missing
 * or too old. With GOTOOLCHAIN, an older Go may download a newer one, which then counts.
 */
export async function requireGo(source: string, env: NodeJS.ProcessEnv): Promise<string> {
  const needed = /^go (\d+)\.(\d+)/m.exec(readFileSync(join(source, 'go.mod'), 'utf8'));
  const wanted = `${needed?.[1]}.${needed?.[2]}`;
  const remedy = `install Go ${wanted} or later from https://go.dev/dl and put it on PATH`;
  const version = await goVersion(source, env).catch((error: unknown) => {
    const reason = hasCode(error, 'ENOENT') ? 'there is no go on PATH' : errorMessage(error);
    throw new SandboxError(`The sandbox's servers are built by Go, and ${reason}: ${remedy}`, {
      cause: error,
    });
  });
  const installed = /^go(\d+)\.(\d+)/.exec(version);
  const isOlder = installed && compare(installed, needed) < 0;
  if (isOlder) throw new SandboxError(`Go is ${version}, and Go ${wanted} is needed: ${remedy}`);
  return version;
}

function compare(installed: RegExpExecArray, needed: RegExpExecArray | null): number {
  return Number(installed[1]) - Number(needed?.[1]) || Number(installed[2]) - Number(needed?.[2]);
}

async function goVersion(source: string, env: NodeJS.ProcessEnv): Promise<string> {
  const go = spawn('go', ['env', 'GOVERSION'], { cwd: source, env: goEnvironment(env) });
  const [out, err, code] = await Promise.all([buffer(go.stdout), buffer(go.stderr), exitOf(go)]);
  if (code !== 0) throw new Error(`go env failed (${firstLine(err.toString())})`);
  return out.toString().trim();
}

/** One run of the go command in a module. */
export interface GoRun {
  /** Directory of the go.mod. */
  source: string;
  packages: string[];
  /** File that receives everything that Go prints to standard error. */
  log: string;
  env: NodeJS.ProcessEnv;
  signal?: AbortSignal | undefined;
}

/** A package of the build, as `go list` describes it. */
export interface GoPackage {
  path: string;
  dir: string;
  files: string[];
  imports: string[];
  /** The number of packages that it imports directly and indirectly. */
  dependencies: number;
}

/**
 * Returns every package that the given ones consist of, and downloads their modules. Throws an error of code ENOSPC when
 * the disk is full, SandboxError when Go fails.
 */
export async function listPackages(list: GoRun & { onDownload(): void }): Promise<GoPackage[]> {
  const format = '{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles " "}}\t{{join .Imports " "}}\t{{len .Deps}}';
  const packages: GoPackage[] = [];
  await runGo(list, ['list', '-deps', '-f', format, ...list.packages], {
    failure: 'Downloading Go modules failed',
    onOutput: (line) => {
      const [path = '', dir = '', files = '', imports = '', dependencies] = line.split('\t');
      packages.push({
        path,
        dir,
        files: splitList(files),
        imports: splitList(imports),
        dependencies: Number(dependencies),
      });
    },
    onMessage: (line) => {
      if (!line.startsWith('go: downloading ')) return false;
      list.onDownload();
      return true;
    },
  });
  return packages;
}

function splitList(text: string): string[] {
  return text.split(' ').filter((word) => word !== '');
}

export interface GoBuild extends GoRun {
  flags: string[];
  /** Existing directory that receives the binaries. */
  output: string;
  /** The names of the binaries, for messages. */
  name: string;
  /** Called with the path of each package when Go starts to compile it. */
  onPackage(path: string): void;
}

/** Builds static binaries. Throws an error of code ENOSPC when the disk is full, SandboxError when Go fails. */
export async function goBuild(build: GoBuild): Promise<void> {
  const args = ['build', '-v', ...build.flags, '-o', `${build.output}/`, ...build.packages];
  await runGo(build, args, {
    failure: `Building ${build.name} failed`,
    onOutput: () => undefined,
    onMessage: (line) => {
      if (!isPackage(line)) return false;
      build.onPackage(line);
      return true;
    },
  });
}

interface GoListeners {
  /** Begins the message of a failure. */
  failure: string;
  onOutput(line: string): void;
  /** Returns true for a line of standard error that is part of normal progress. */
  onMessage(line: string): boolean;
}

async function runGo(run: GoRun, args: string[], listeners: GoListeners): Promise<void> {
  const go = spawn('go', args, {
    cwd: run.source,
    env: goEnvironment(run.env),
    stdio: ['ignore', 'pipe', 'pipe'],
    signal: run.signal,
  });
  const exit = exitOf(go); // listens from the start, so that an early end is not missed
  exit.catch(() => {}); // awaited below, after all output
  const log = createWriteStream(run.log, { flags: 'a' });
  log.on('error', () => {}); // a disk too full for the log is too full for the build, which reports it
  const errors: string[] = [];
  const output = forEachLine(go.stdout, listeners.onOutput);
  await forEachLine(go.stderr, (line) => {
    log.write(`${line}\n`);
    if (!listeners.onMessage(line)) errors.push(line);
  });
  await output;
  log.end();
  run.signal?.throwIfAborted();
  const code = await exit;
  if (code !== 0) throw failureOf(listeners.failure, errors, run.log);
}

async function forEachLine(stream: NodeJS.ReadableStream, handle: (line: string) => void): Promise<void> {
  for await (const line of createInterface({ input: stream })) handle(line);
}

function failureOf(failure: string, errors: string[], log: string): Error {
  const text = errors.join('\n');
  if (/no space left on device|disk quota exceeded/i.test(text)) {
    return Object.assign(new Error(text), { code: 'ENOSPC' });
  }
  const last = errors.slice(-5).join(' | ') || 'go printed no message';
  return new SandboxError(`${failure}: ${last} (full log: ${log})`);
}

/** Reports whether a line that `go build -v` prints is an import path. Errors contain spaces or a number sign. */
function isPackage(line: string): boolean {
  return /^[\w.~/-]+$/.test(line);
}

/** Ignores settings that the user made for other projects (GOFLAGS, GOOS, a go.work): they would change the binaries. */
function goEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return {
    ...env,
    CGO_ENABLED: '0',
    GO111MODULE: 'on',
    GOFLAGS: '-mod=readonly -buildvcs=false',
    GOWORK: 'off',
    GOOS: process.platform,
    GOARCH: process.arch === 'x64' ? 'amd64' : process.arch,
  };
}

async function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}
