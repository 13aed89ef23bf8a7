import { execFileSync } from 'node:child_process';
import { accessSync, constants, existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { SandboxError } from '../errors.ts';
import type { Layout } from '../layout.ts';

/** Programs that real nodes run, by the Debian package that contains them. */
const programs = {
  buildah: ['buildah'],
  containerd: ['containerd', 'ctr'],
  iproute2: ['ip'],
  iptables: ['iptables'],
  runc: ['runc'],
  socat: ['socat'],
  'util-linux': ['nsenter', 'unshare'],
} as const;

const busyboxPackage = 'busybox-static';
const pluginsPackage = 'containernetworking-plugins';

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
  return mayUnshare()
    ? undefined
    : 'real nodes need new namespaces, which this machine forbids: use another one, or a container with more privileges';
}

function missingPackages(): string[] {
  const missing: string[] = Object.entries(programs)
    .filter(([, names]) => names.some((name) => !isOnPath(name)))
    .map(([debianPackage]) => debianPackage);
  if (busybox() === undefined) missing.push(busyboxPackage);
  if (pluginFolder() === undefined) missing.push(pluginsPackage);
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

function mayUnshare(): boolean {
  try {
    execFileSync('unshare', ['--mount', '--net', '--pid', '--ipc', '--uts', '--fork', 'true'], {
      stdio: 'ignore',
      env: { PATH: nodePath },
    });
    return existsSync('/sys/fs/cgroup');
  } catch {
    return false;
  }
}

/** Folders that a node replaces by its own. */
const replaced = ['/var/lib', '/var/log', '/run'];

/** Throws SandboxError if real nodes cannot run here. */
export function requireRealNodes({ dir }: Layout): void {
  const problem = realNodeProblem();
  if (problem !== undefined) throw new SandboxError(problem);
  const hidden = replaced.find((folder) => dir.startsWith(`${folder}/`));
  if (hidden !== undefined)
    throw new SandboxError(`${dir}: a real node has a ${hidden} of its own: choose a directory elsewhere`);
}
