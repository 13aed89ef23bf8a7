import { execFile } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { SandboxError } from '../../sandbox/errors.ts';
import { goBuild, requireGo } from '../../sandbox/go.ts';
import { cacheRoot } from '../../sandbox/toolchain.ts';
import type { OperatorName } from '../targetNames.ts';

/** An operator that can be measured. */
export interface BuiltOperator {
  kind: 'Built';
  /** Its binary, and the directory of its sources. */
  command: string;
  source: string;
  /** `git describe` of its sources; undefined when they are no git repository. */
  revision: string | undefined;
}

/** An operator that cannot be measured, and why. */
export interface UnavailableOperator {
  kind: 'Unavailable';
  reason: string;
}

export type OperatorBuild = BuiltOperator | UnavailableOperator;
export type OperatorBuilds = Partial<Record<OperatorName, OperatorBuild>>;

export interface BuildOptions {
  /** PEERS_SOURCE is read from it, and what Go reads. */
  env: NodeJS.ProcessEnv;
  report: (line: string) => void;
  signal: AbortSignal;
}

/** Builds an operator from its public sources in a folder of PEERS_SOURCE, with the Go toolchain that builds the sandbox. */
export async function buildOperator(name: OperatorName, options: BuildOptions): Promise<OperatorBuild> {
  const source = sourceOf(name, options.env);
  if (typeof source !== 'string') return source;
  try {
    options.report(`Building ${name} from ${source}`);
    const command = await build(name, source, options);
    return { kind: 'Built', command, source, revision: await revisionOf(source) };
  } catch (error) {
    if (!(error instanceof SandboxError)) throw error;
    return { kind: 'Unavailable', reason: error.message };
  }
}

/** Returns the directory of the sources of an operator, or why there is none. */
export function sourceOf(name: OperatorName, env: NodeJS.ProcessEnv): string | UnavailableOperator {
  const folder = env['PEERS_SOURCE'];
  const remedy = `name a folder in which ${name}/ contains its public sources`;
  if (!folder) return { kind: 'Unavailable', reason: `PEERS_SOURCE is not set: ${remedy}` };
  const source = resolve(folder, name);
  if (existsSync(join(source, 'go.mod'))) return source;
  return { kind: 'Unavailable', reason: `PEERS_SOURCE is ${folder}, without ${name}/go.mod: ${remedy}` };
}

async function build(name: OperatorName, source: string, { env, signal }: BuildOptions): Promise<string> {
  const output = join(cacheRoot(env), 'peers', name);
  mkdirSync(output, { recursive: true });
  await requireGo(source, env);
  const isVendored = existsSync(join(source, 'vendor', 'modules.txt'));
  const flags = ['-trimpath', '-ldflags=-s -w', ...(isVendored ? ['-mod=vendor'] : [])];
  const log = `${output}.log`;
  await goBuild({ source, packages: ['./cmd'], flags, output, name, log, env, signal, onPackage: () => {} });
  return join(output, 'cmd');
}

const run = promisify(execFile);

/** Sources in a folder of another repository have no revision of their own. */
async function revisionOf(source: string): Promise<string | undefined> {
  if (!existsSync(join(source, '.git'))) return undefined;
  try {
    const { stdout } = await run('git', ['-C', source, 'describe', '--tags', '--always', '--dirty']);
    return stdout.trim();
  } catch {
    return undefined;
  }
}
