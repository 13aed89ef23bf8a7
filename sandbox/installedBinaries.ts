import { execFile } from 'node:child_process';
import { accessSync, constants, realpathSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { type BinaryName, binaryNames, binarySources, nodeBinaryNames, pinnedVersion } from './binaries.ts';
import { SandboxError } from './errors.ts';

/** Paths of binaries that were found. */
type Binaries = Partial<Record<BinaryName, string>>;

/**
 * Returns those of the binaries that the user names with KUBEBUILDER_ASSETS and TEMPORAL_CLI, whatever their versions. Throws
 * SandboxError for a variable that names none, and if the user also selects a version of Kubernetes.
 */
export function namedBinaries(
  names: readonly BinaryName[],
  env: NodeJS.ProcessEnv,
  kubernetes?: string,
): Binaries {
  const named = Object.entries({ ...kubebuilderAssets(env, kubernetes), ...temporalCli(env) });
  return Object.fromEntries(named.filter(([name]) => names.includes(name as BinaryName)));
}

/** KUBEBUILDER_ASSETS is envtest's variable: a directory with etcd, kube-apiserver and kubectl. Others in it are used too. */
function kubebuilderAssets(env: NodeJS.ProcessEnv, kubernetes?: string): Binaries {
  const assets = env['KUBEBUILDER_ASSETS'];
  if (!assets) return {};
  if (kubernetes !== undefined) {
    const remedy = 'unset it, or leave out the version';
    throw new SandboxError(
      `KUBEBUILDER_ASSETS names the Kubernetes of ${assets}, and Kubernetes ${kubernetes} is asked for: ${remedy}`,
    );
  }
  const names = [...binaryNames, ...nodeBinaryNames].filter(
    (name) => name !== 'temporal' && isExecutable(join(assets, name)),
  );
  if (names.length === 0) {
    const remedy = 'name a directory with etcd, kube-apiserver and kubectl, or unset it to have them built';
    throw new SandboxError(
      `KUBEBUILDER_ASSETS is ${assets}, which contains none of these programs: ${remedy}`,
    );
  }
  return Object.fromEntries(names.map((name) => [name, resolve(assets, name)]));
}

function temporalCli(env: NodeJS.ProcessEnv): Binaries {
  const temporal = env['TEMPORAL_CLI'];
  if (!temporal) return {};
  if (!isExecutable(temporal)) {
    const remedy = 'name the temporal program, or unset it to have one built';
    throw new SandboxError(`TEMPORAL_CLI is ${temporal}, which is not an executable: ${remedy}`);
  }
  return { temporal: resolve(temporal) };
}

/**
 * Returns those of the binaries that are on PATH in the pinned version. Reports each binary that it finds, and why it does
 * not use one of another version.
 */
export async function binariesOnPath(
  source: string,
  names: readonly BinaryName[],
  env: NodeJS.ProcessEnv,
  report: (line: string) => void,
): Promise<Binaries> {
  const found = await Promise.all(names.map((name) => binaryOnPath(name, source, env, report)));
  return Object.fromEntries(found.flat());
}

async function binaryOnPath(
  name: BinaryName,
  source: string,
  env: NodeJS.ProcessEnv,
  report: (line: string) => void,
): Promise<[BinaryName, string][]> {
  const directories = (env['PATH'] ?? '').split(delimiter).filter((directory) => directory !== '');
  const file = directories.map((directory) => resolve(directory, name)).find(isExecutable);
  if (file === undefined) return [];
  const pinned = pinnedVersion(name, source);
  const version = await versionOf(name, file);
  if (version !== pinned) {
    report(`Not using ${file}: its version is ${version ?? 'unknown'}, the sandbox needs ${pinned}`);
    return [];
  }
  report(`Using ${file}, version ${version}`);
  // A sandbox replaces the links in its own bin directory, which may be on PATH.
  return [[name, realpathSync(file)]];
}

/**
 * Runs a binary as a sandbox does, without the user's environment: a wrapper that cannot run like this is of no use. Returns
 * the version with a leading v, or undefined when the binary does not print one.
 */
async function versionOf(name: BinaryName, file: string): Promise<string | undefined> {
  const args = [...binarySources[name].versionArgs];
  try {
    const { stdout } = await run(file, args, { env: { HOME: tmpdir() }, timeout: versionTimeoutMs });
    const version = /\bv?(\d+\.\d+\.\d+\S*)/.exec(stdout)?.[1];
    return version === undefined ? undefined : `v${version}`;
  } catch {
    return undefined;
  }
}

const run = promisify(execFile);
const versionTimeoutMs = 10_000;

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}
