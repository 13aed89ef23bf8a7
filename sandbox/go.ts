import { spawn } from 'node:child_process';
import { createWriteStream, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { buffer } from 'node:stream/consumers';
import { hasCode, messageOf, SandboxError } from './errors.ts';

/**
 * The version of Go that builds the module in `source`, such as `go1.26.8`. Throws SandboxError when there is no Go or
 * one that the module cannot be built with. A Go that may fetch a newer one by itself (GOTOOLCHAIN) counts as that.
 */
export async function requireGo(source: string, env: NodeJS.ProcessEnv): Promise<string> {
  const needed = /^go (\d+)\.(\d+)/m.exec(readFileSync(join(source, 'go.mod'), 'utf8'));
  const wanted = `${needed?.[1]}.${needed?.[2]}`;
  const remedy = `install Go ${wanted} or later from https://go.dev/dl and put it on PATH`;
  const version = await goVersion(source, env).catch((error: unknown) => {
    const reason = hasCode(error, 'ENOENT') ? 'there is no go on PATH' : messageOf(error);
    throw new SandboxError(`The sandbox's servers are built by Go, and ${reason}: ${remedy}`, {
      cause: error,
    });
  });
  const has = /^go(\d+)\.(\d+)/.exec(version);
  const isOlder = has && compare(has, needed) < 0;
  if (isOlder) throw new SandboxError(`Go is ${version}, and Go ${wanted} is needed: ${remedy}`);
  return version;
}

function compare(has: RegExpExecArray, needed: RegExpExecArray | null): number {
  return Number(has[1]) - Number(needed?.[1]) || Number(has[2]) - Number(needed?.[2]);
}

async function goVersion(source: string, env: NodeJS.ProcessEnv): Promise<string> {
  const go = spawn('go', ['env', 'GOVERSION'], { cwd: source, env: goEnvironment(env) });
  const [out, err, code] = await Promise.all([buffer(go.stdout), buffer(go.stderr), exitOf(go)]);
  if (code !== 0) throw new Error(`go env failed (${firstLine(err.toString())})`);
  return out.toString().trim();
}

export interface GoBuild {
  /** Directory of the go.mod. */
  source: string;
  packages: string[];
  flags: string[];
  /** Existing directory that receives the binaries. */
  output: string;
  /** File that receives everything Go says. */
  log: string;
  /** What is built, for messages. */
  what: string;
  env: NodeJS.ProcessEnv;
  /** Called for each package that was compiled. */
  onPackage(): void;
  signal?: AbortSignal | undefined;
}

/** Builds static binaries. Throws an error of code ENOSPC when the disk is full, SandboxError when Go fails. */
export async function goBuild(build: GoBuild): Promise<void> {
  const args = ['build', '-v', ...build.flags, '-o', `${build.output}/`, ...build.packages];
  const go = spawn('go', args, {
    cwd: build.source,
    env: goEnvironment(build.env),
    stdio: ['ignore', 'ignore', 'pipe'],
    signal: build.signal,
  });
  const exit = exitOf(go); // listened to from the start, or an early end would be missed
  exit.catch(() => {}); // heard below, when Go has said everything
  const log = createWriteStream(build.log);
  log.on('error', () => {}); // a disk that is too full for the log is too full for the build, which says so
  const complaints: string[] = [];
  for await (const line of createInterface({ input: go.stderr })) {
    log.write(`${line}\n`);
    if (isPackage(line)) build.onPackage();
    else complaints.push(line);
  }
  log.end();
  build.signal?.throwIfAborted();
  const code = await exit;
  if (code !== 0) throw failure(build, complaints);
}

function failure(build: GoBuild, complaints: string[]): Error {
  const text = complaints.join('\n');
  if (/no space left on device|disk quota exceeded/i.test(text)) {
    return Object.assign(new Error(text), { code: 'ENOSPC' });
  }
  const last = complaints.slice(-5).join(' | ') || 'go build said nothing';
  return new SandboxError(`Building ${build.what} failed: ${last} (all of it: ${build.log})`);
}

/** `go build -v` prints the import path of each package; what it complains about holds spaces or a number sign. */
function isPackage(line: string): boolean {
  return /^[\w.~/-]+$/.test(line);
}

/** Nothing that the user set for other projects (GOFLAGS, GOOS, a go.work) may change what is built. */
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

async function exitOf(child: ReturnType<typeof spawn>): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
}

function firstLine(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}
