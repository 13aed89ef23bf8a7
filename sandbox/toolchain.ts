import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import {
  type BinaryName,
  buildFlags,
  type Toolchain,
  type ToolchainPart,
  toolchainParts,
  type ToolchainSelection,
} from './binaries.ts';
import { type BuildOptions, buildBinaries } from './build.ts';
import { hasCode, SandboxError } from './errors.ts';
import { requireGo } from './go.ts';
import { binariesOnPath, namedBinaries } from './installedBinaries.ts';
import { commandName, identify, type Lock, tryLock } from './processes.ts';
import { until } from './until.ts';

export interface ToolchainOptions extends ToolchainSelection {
  /** PATH, HOME, XDG_CACHE_HOME, KUBEBUILDER_ASSETS and TEMPORAL_CLI are read from it; process.env by default. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Receives messages for the user. */
  report?: ((line: string) => void) | undefined;
  /** Receives the progress of the build every second, each line replacing the last; by default `report` gets some of them. */
  progress?: ((line: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Returns every binary that a sandbox runs: those that KUBEBUILDER_ASSETS and TEMPORAL_CLI name, else those in the user's
 * cache, else those on PATH in the pinned version. Builds the others into the cache. Throws SandboxError.
 */
export async function ensureToolchain(options: ToolchainOptions = {}): Promise<Toolchain> {
  const env = options.env ?? process.env;
  const report = options.report ?? (() => undefined);
  const found: Partial<Record<BinaryName, string>> = {};
  for (const part of toolchainParts(options))
    Object.assign(found, await ensureBinaries(part, { ...options, env, report }));
  return found as Toolchain;
}

async function ensureBinaries(
  part: ToolchainPart,
  options: BuildOptions & ToolchainSelection,
): Promise<Partial<Record<BinaryName, string>>> {
  const { env, report } = options;
  const named = namedBinaries(part.names, env, options.kubernetes);
  const onPath = await binariesOnPath(part.source, missingBinaries(part, env, named), env, report);
  const installed = { ...onPath, ...named };
  if (missingBinaries(part, env, installed).length > 0) await buildMissing(part, installed, options);
  const cache = cacheDirectory(part.source, env);
  return Object.fromEntries(part.names.map((name) => [name, installed[name] ?? join(cache, name)]));
}

/** Returns the binaries that are neither installed nor in the cache. */
function missingBinaries(
  { source, names }: ToolchainPart,
  env: NodeJS.ProcessEnv,
  installed: Partial<Record<BinaryName, string>>,
): BinaryName[] {
  const cache = cacheDirectory(source, env);
  return names.filter((name) => !installed[name] && !existsSync(join(cache, name)));
}

function cacheDirectory(source: string, env: NodeJS.ProcessEnv): string {
  return join(cacheRoot(env), cacheName(source, buildFlags(source)));
}

/**
 * Returns the name of the directory for binaries of these sources and flags. Checkouts with the same versions share it; any
 * change that affects the binaries gives another one.
 */
export function cacheName(source: string, flags: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum', 'tools.go']) hash.update(readFileSync(join(source, file)));
  hash.update([...flags, process.platform, process.arch].join('\n'));
  return `servers-${hash.digest('hex').slice(0, 16)}`;
}

/** Returns the directory of everything that is built or unpacked once per user. */
export function cacheRoot(env: NodeJS.ProcessEnv): string {
  const caches = env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache');
  return join(caches, 'node-maintenance', 'toolchain');
}

/**
 * Builds everything that is missing. A lock lets one process build at a time, because two would take twice as long. It only
 * saves time: each binary is moved to its place by a rename, so two builders would leave the same complete files.
 */
async function buildMissing(
  part: ToolchainPart,
  installed: Partial<Record<BinaryName, string>>,
  options: BuildOptions,
): Promise<void> {
  const { source } = part;
  const target = cacheDirectory(source, options.env);
  const go = await requireGo(source, options.env);
  await explainFullDisk(options.env, async () => {
    const lock = await waitForLock(target, options);
    try {
      removeAbandonedBuilds(target);
      const names = missingBinaries(part, options.env, installed);
      if (names.length > 0) await buildBinaries({ source, names }, target, go, options);
    } finally {
      lock.release();
    }
  });
}

/** Removes the temporary directories of builders that were killed. */
function removeAbandonedBuilds(target: string): void {
  for (const name of readdirSync(dirname(target))) {
    const pid = new RegExp(`^${basename(target)}\\.building-(\\d+)$`).exec(name)?.[1];
    if (pid && !identify(Number(pid))) rmSync(join(dirname(target), name), { recursive: true, force: true });
  }
}

async function waitForLock(target: string, { report, signal }: BuildOptions): Promise<Lock> {
  mkdirSync(target, { recursive: true });
  let lock: Lock | undefined;
  let isReported = false;
  const take = () => {
    const attempt = tryLock(`${target}.lock`);
    if ('release' in attempt) {
      lock = attempt;
      return undefined;
    }
    const holder = `process ${attempt.holder.pid} (${commandName(attempt.holder.pid)})`;
    if (!isReported) report(`Waiting for ${holder}, which is building the same servers`);
    isReported = true;
    return `${holder} is still building`;
  };
  await until("the build of the sandbox's servers", take, { timeoutMs: lockTimeoutMs, signal });
  return lock as Lock;
}

const lockTimeoutMs = 3_600_000;

/** Replaces the error of a full disk, whichever step meets it, by one that names the remedy. */
async function explainFullDisk<T>(env: NodeJS.ProcessEnv, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!hasCode(error, 'ENOSPC')) throw error;
    const remedy =
      'free 8 GB, or set XDG_CACHE_HOME (and GOCACHE, GOMODCACHE, TMPDIR for Go) to a larger disk';
    throw new SandboxError(`The disk is full while building in ${cacheRoot(env)}: ${remedy}`, {
      cause: error,
    });
  }
}
