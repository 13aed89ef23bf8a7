import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SandboxError } from '../errors.ts';
import type { Layout } from '../layout.ts';

/** Programs that real nodes run, by the Debian package that contains them. */
const programs = {
  buildah: ['buildah'],
  containerd: ['containerd', 'ctr'],
  dbus: ['dbus-daemon', 'dbus-send'],
  iproute2: ['ip'],
  iptables: ['iptables'],
  runc: ['runc'],
  socat: ['socat'],
  systemd: ['systemctl', 'systemd-inhibit'],
  'util-linux': ['nsenter', 'setpriv', 'unshare'],
  'xdg-dbus-proxy': ['xdg-dbus-proxy'],
} as const;

const busyboxPackage = 'busybox-static';
const pluginsPackage = 'containernetworking-plugins';
const logindPackage = 'python3-dbusmock';
const logindTemplate = '/usr/lib/python3/dist-packages/dbusmock/templates/logind.py';

/** Folders in which administrators of nodes look for programs, and which PATH of a user may lack. */
export const nodePath = `/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;

/** Returns what real nodes need and this machine lacks, with the remedy; undefined if it has everything. */
export function realNodeProblem(): string | undefined {
  if (process.platform !== 'linux') return 'real nodes need Linux';
  if (process.getuid?.() !== 0) return 'real nodes need root: run this command as root';
  const missing = missingPackages();
  if (missing.length > 0) {
    const remedy = `apt-get install ${missing.join(' ')}`;
    return `real nodes need programs of these packages: ${missing.join(', ')} (on Debian: ${remedy})`;
  }
  const forbidden = forbiddenByThisMachine();
  return forbidden === undefined
    ? undefined
    : `real nodes need what this machine forbids (${forbidden}): use another one, or run this with more privileges`;
}

function missingPackages(): string[] {
  const missing: string[] = Object.entries(programs)
    .filter(([, names]) => names.some((name) => !isOnPath(name)))
    .map(([debianPackage]) => debianPackage);
  if (busybox() === undefined) missing.push(busyboxPackage);
  if (pluginFolder() === undefined) missing.push(pluginsPackage);
  if (!existsSync(logindTemplate)) missing.push(logindPackage);
  return missing.toSorted();
}

function isOnPath(name: string): boolean {
  return nodePath.split(delimiter).some((folder) => isExecutable(join(folder, name)));
}

/** Returns the path of a statically linked busybox. */
export function busybox(): string | undefined {
  return ['/bin/busybox', '/usr/bin/busybox'].find(isExecutable);
}

/** Returns the folder of the CNI plugins. */
export function pluginFolder(): string | undefined {
  return ['/usr/lib/cni', '/opt/cni/bin'].find((folder) => isExecutable(join(folder, 'bridge')));
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Returns the first message of a trial that fails. */
function forbiddenByThisMachine(): string | undefined {
  const script = fileURLToPath(new URL('./trial.sh', import.meta.url));
  const { status, stderr, error } = spawnSync('bash', [script, busybox() ?? ''], {
    encoding: 'utf8',
    env: { PATH: nodePath },
    timeout: trialTimeoutMs,
  });
  if (status === 0) return undefined;
  return error?.message ?? (stderr.trim().split('\n')[0] || `exit code ${status}`);
}

const trialTimeoutMs = 30_000;

/** Folders that a node replaces by its own. */
const replaced = ['/var/lib', '/var/log', '/run'];

/** Throws SandboxError if real nodes cannot run here. */
export function requireRealNodes({ dir }: Layout): void {
  const problem = realNodeProblem();
  if (problem !== undefined) throw new SandboxError(problem);
  // A node runs programs of the repository.
  for (const used of [dir, root]) {
    const hidden = replaced.find((folder) => used.startsWith(`${folder}/`));
    if (hidden !== undefined)
      throw new SandboxError(`${used}: a real node has a ${hidden} of its own: choose a directory elsewhere`);
  }
}

/** The root directory of the repository. */
export const root = fileURLToPath(new URL('../..', import.meta.url));
