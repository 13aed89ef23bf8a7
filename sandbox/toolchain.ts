import { createHash } from 'node:crypto';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { availableParallelism, homedir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { hasCode, SandboxError } from './errors.ts';
import { goBuild, requireGo } from './go.ts';
import { commandName, identify, type Lock, tryLock } from './processes.ts';
import { until } from './until.ts';

export const binaryNames = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubectl',
  'kwok',
  'temporal',
] as const;
export type BinaryName = (typeof binaryNames)[number];

/** The path of each binary. */
export type Toolchain = Record<BinaryName, string>;

/** One Go module under sandbox/toolchain/: its go.mod pins the versions, its tools.go the packages. */
interface Module {
  name: string;
  packages: Partial<Record<BinaryName, string>>;
  /** The required module whose version the binaries report. */
  versionOf: string;
  /** Linker settings for that version; without them every binary says that it is v0.0.0. */
  versionSettings(version: string): string[];
  /** Seconds of a first build on two cores, measured, for the estimate. */
  coldBuild: number;
}

const modules: readonly Module[] = [
  {
    name: 'kubernetes',
    packages: {
      etcd: 'go.etcd.io/etcd/server/v3',
      'kube-apiserver': 'k8s.io/kubernetes/cmd/kube-apiserver',
      'kube-controller-manager': 'k8s.io/kubernetes/cmd/kube-controller-manager',
      'kube-scheduler': 'k8s.io/kubernetes/cmd/kube-scheduler',
      kubectl: 'k8s.io/kubernetes/cmd/kubectl',
    },
    versionOf: 'k8s.io/kubernetes',
    versionSettings: kubernetesVersion,
    coldBuild: 420,
  },
  {
    name: 'kwok',
    packages: { kwok: 'sigs.k8s.io/kwok/cmd/kwok' },
    versionOf: 'sigs.k8s.io/kwok',
    versionSettings: (version) => [`sigs.k8s.io/kwok/pkg/consts.Version=${version.slice(1)}`],
    coldBuild: 80,
  },
  {
    name: 'temporal',
    packages: { temporal: 'github.com/temporalio/cli/cmd/temporal' },
    versionOf: 'github.com/temporalio/cli',
    versionSettings: (version) => [`github.com/temporalio/cli/temporalcli.Version=${version.slice(1)}`],
    coldBuild: 155,
  },
];

function kubernetesVersion(version: string): string[] {
  const [, major, minor] = /^v(\d+)\.(\d+)/.exec(version) ?? [];
  return ['k8s.io/component-base/version', 'k8s.io/client-go/pkg/version'].flatMap((path) => [
    `${path}.gitVersion=${version}`,
    `${path}.gitMajor=${major}`,
    `${path}.gitMinor=${minor}`,
  ]);
}

export interface ToolchainOptions {
  /** Where PATH, HOME, XDG_CACHE_HOME, KUBEBUILDER_ASSETS and TEMPORAL_CLI are read; process.env unless given. */
  env?: NodeJS.ProcessEnv | undefined;
  /** Takes lines that stay. */
  report?: ((line: string) => void) | undefined;
  /** Takes the state of the build about every second, each replacing the last; without it, `report` hears now and then. */
  progress?: ((line: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Every binary that a sandbox runs: those that KUBEBUILDER_ASSETS and TEMPORAL_CLI name, the others from a cache of
 * this user that is filled by building them. Throws SandboxError.
 */
export async function ensureToolchain(options: ToolchainOptions = {}): Promise<Toolchain> {
  const env = options.env ?? process.env;
  const found = { ...kubebuilderAssets(env), ...temporalCli(env) };
  const missing = modules.filter((module) => missingPackages(module, found, env).length > 0);
  if (missing.length > 0) await buildAll(missing, found, { ...options, env });
  const cached = modules.flatMap((module) =>
    Object.keys(module.packages).map((name) => [name, join(cacheDirectory(module, env), name)] as const),
  );
  return { ...Object.fromEntries(cached), ...found } as Toolchain;
}

function cacheDirectory(module: Module, env: NodeJS.ProcessEnv): string {
  return join(cacheRoot(env), cacheName(module.name, sourceOf(module), buildFlags(module)));
}

/**
 * The name of the directory that a module's binaries are kept in. It changes with everything that changes the binaries,
 * so a checkout with other versions builds its own and two checkouts with the same share.
 */
export function cacheName(name: string, source: string, flags: readonly string[]): string {
  const hash = createHash('sha256');
  for (const file of ['go.mod', 'go.sum', 'tools.go']) hash.update(readFileSync(join(source, file)));
  hash.update([...flags, process.platform, process.arch].join('\n'));
  return `${name}-${hash.digest('hex').slice(0, 16)}`;
}

/** Directory of what is built or unpacked once for this user. */
export function cacheRoot(env: NodeJS.ProcessEnv): string {
  const caches = env['XDG_CACHE_HOME'] || join(env['HOME'] || homedir(), '.cache');
  return join(caches, 'node-maintenance', 'toolchain');
}

function sourceOf(module: Module): string {
  return fileURLToPath(new URL(`./toolchain/${module.name}/`, import.meta.url));
}

function buildFlags(module: Module): string[] {
  const settings = module.versionSettings(pinnedVersion(module)).map((setting) => `-X ${setting}`);
  return ['-trimpath', `-ldflags=-s -w ${settings.join(' ')}`];
}

function pinnedVersion(module: Module): string {
  const goMod = readFileSync(join(sourceOf(module), 'go.mod'), 'utf8');
  const version = new RegExp(`^(?:require)?\\s+${module.versionOf} (v\\S+)`, 'm').exec(goMod)?.[1];
  if (!version) throw new SandboxError(`${sourceOf(module)}go.mod does not require ${module.versionOf}`);
  return version;
}

/** envtest's variable: a directory with etcd, kube-apiserver and kubectl. What else is there is used too. */
function kubebuilderAssets(env: NodeJS.ProcessEnv): Partial<Toolchain> {
  const assets = env['KUBEBUILDER_ASSETS'];
  if (!assets) return {};
  const there = binaryNames.filter((name) => name !== 'temporal' && isExecutable(join(assets, name)));
  if (there.length === 0) {
    const remedy = 'name a directory with etcd, kube-apiserver and kubectl, or unset it to have them built';
    throw new SandboxError(`KUBEBUILDER_ASSETS is ${assets}, where no such program is: ${remedy}`);
  }
  return Object.fromEntries(there.map((name) => [name, resolve(assets, name)]));
}

function temporalCli(env: NodeJS.ProcessEnv): Partial<Toolchain> {
  const temporal = env['TEMPORAL_CLI'];
  if (!temporal) return {};
  if (!isExecutable(temporal)) {
    const remedy = 'name the temporal program, or unset it to have one built';
    throw new SandboxError(`TEMPORAL_CLI is ${temporal}, which is not a program: ${remedy}`);
  }
  return { temporal: resolve(temporal) };
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The packages of a module that nobody has provided and that are not in the cache. */
function missingPackages(
  module: Module,
  found: Partial<Toolchain>,
  env: NodeJS.ProcessEnv,
): [BinaryName, string][] {
  const cache = cacheDirectory(module, env);
  const packages = Object.entries(module.packages) as [BinaryName, string][];
  return packages.filter(([name]) => !found[name] && !existsSync(join(cache, name)));
}

type BuildOptions = ToolchainOptions & { env: NodeJS.ProcessEnv };

async function buildAll(missing: Module[], found: Partial<Toolchain>, options: BuildOptions): Promise<void> {
  const go = await requireGo(sourceOf(missing[0] as Module), options.env);
  const names = missing.flatMap((module) =>
    missingPackages(module, found, options.env).map(([name]) => name),
  );
  const seconds = missing.reduce((sum, module) => sum + estimate(module), 0);
  options.report?.(`Building ${names.join(', ')} with ${go}: up to ${spell(seconds)}, once`);
  options.report?.(`They are kept in ${cacheRoot(options.env)}`);
  for (const module of missing) await buildUnderLock(module, found, options);
}

/**
 * One builder at a time, because two would need twice as long. The lock only saves time: every binary is put in its
 * place by a rename, so two builders that meet all the same leave the same whole files.
 */
async function buildUnderLock(
  module: Module,
  found: Partial<Toolchain>,
  options: BuildOptions,
): Promise<void> {
  const target = cacheDirectory(module, options.env);
  const lock = await withDisk(module, options.env, () => waitForLock(module, target, options));
  try {
    removeAbandoned(target);
    const packages = missingPackages(module, found, options.env);
    if (packages.length > 0) await build(module, packages, options);
  } finally {
    lock.release();
  }
}

/** Clears away what builders left that were killed. */
function removeAbandoned(target: string): void {
  for (const name of readdirSync(dirname(target))) {
    const pid = new RegExp(`^${basename(target)}\\.building-(\\d+)$`).exec(name)?.[1];
    if (pid && !identify(Number(pid))) rmSync(join(dirname(target), name), { recursive: true, force: true });
  }
}

async function waitForLock(module: Module, target: string, options: BuildOptions): Promise<Lock> {
  mkdirSync(target, { recursive: true });
  let lock: Lock | undefined;
  let told = false;
  const take = () => {
    const attempt = tryLock(`${target}.lock`);
    if ('release' in attempt) {
      lock = attempt;
      return undefined;
    }
    const holder = `process ${attempt.holder.pid} (${commandName(attempt.holder.pid)})`;
    if (!told) options.report?.(`Waiting for ${holder}, which is building ${module.name}`);
    told = true;
    return `${holder} still builds`;
  };
  await until(`the build of ${module.name}`, take, { within: 3_600_000, signal: options.signal });
  return lock as Lock;
}

async function build(module: Module, packages: [BinaryName, string][], options: BuildOptions): Promise<void> {
  const target = cacheDirectory(module, options.env);
  const staging = `${target}.building-${process.pid}`;
  const names = packages.map(([name]) => name).join(', ');
  const ticker = startTicker(names, estimate(module), options);
  try {
    await withDisk(module, options.env, async () => {
      mkdirSync(staging, { recursive: true });
      await goBuild({
        source: sourceOf(module),
        packages: packages.map(([, path]) => path),
        flags: buildFlags(module),
        output: staging,
        log: join(dirname(target), `${module.name}.log`),
        what: names,
        env: options.env,
        onPackage: () => ticker.count(),
        signal: options.signal,
      });
      for (const [name, path] of packages) renameSync(join(staging, outputName(path)), join(target, name));
    });
    options.report?.(`Built ${names} in ${spell(ticker.elapsed())}`);
  } finally {
    ticker.stop();
    rmSync(staging, { recursive: true, force: true });
  }
}

/** The name that `go build -o DIRECTORY/` gives a package: its last element that is not a major version. */
function outputName(path: string): string {
  const elements = path.split('/').filter((element) => !/^v\d+$/.test(element));
  return elements.at(-1) as string;
}

/** Tells a full disk, wherever it is noticed, from everything else. */
async function withDisk<T>(module: Module, env: NodeJS.ProcessEnv, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!hasCode(error, 'ENOSPC')) throw error;
    const remedy = 'free 8 GB, or set XDG_CACHE_HOME (and TMPDIR, for what Go puts there) to a larger disk';
    throw new SandboxError(`The disk is full while building ${module.name} in ${cacheRoot(env)}: ${remedy}`, {
      cause: error,
    });
  }
}

/** Seconds that a first build may take here. */
function estimate(module: Module): number {
  return Math.ceil((module.coldBuild * 2) / Math.max(1, availableParallelism()));
}

interface Ticker {
  count(): void;
  /** Seconds so far. */
  elapsed(): number;
  stop(): void;
}

/** Says how the build goes: every second to a terminal, every 15 seconds to a log. */
function startTicker(names: string, seconds: number, options: BuildOptions): Ticker {
  const began = performance.now();
  let compiled = 0;
  const elapsed = () => Math.round((performance.now() - began) / 1000);
  const say = options.progress ?? options.report;
  const tick = () => {
    const left = seconds - elapsed();
    const rest = left > 0 ? `at most about ${spell(left)} left` : 'longer than usual';
    say?.(`  ${spell(elapsed())}, ${compiled} packages compiled, ${rest}: ${names}`);
  };
  const timer = setInterval(tick, options.progress ? 1000 : 15_000);
  return { count: () => void compiled++, elapsed, stop: () => clearInterval(timer) };
}

function spell(seconds: number): string {
  return seconds < 90 ? `${seconds} s` : `${Math.ceil(seconds / 60)} min`;
}
