import {
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Addresses } from './ports.ts';

/** The servers of a sandbox, in the order of their start; they stop in the reverse order. */
export const serverNames = [
  'etcd',
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kwok',
  'temporal',
] as const;
/** A real node, with containerd, kubelet and kube-proxy. */
export type RealNodeName = `real-${number}`;
/** Additional servers of a sandbox with real nodes; socat lets their pods connect to Temporal. */
export type AdditionalServerName = RealNodeName | 'socat';
export type ServerName = (typeof serverNames)[number] | AdditionalServerName;

/** The command of a server, sufficient to start it again from another process. */
export interface ServerCommand {
  command: string;
  args: string[];
  /** The port on which it answers; absent for a server without one. */
  port?: number;
}

/** The content of sandbox.json, written before the first process starts. It contains no tokens. */
export interface SandboxState extends Addresses {
  servers: Record<(typeof serverNames)[number], ServerCommand> &
    Partial<Record<AdditionalServerName, ServerCommand>>;
  /** The network of real nodes; absent without any. */
  realNodes?: { network: number; count: number } | undefined;
  /** False until the first complete start; stays false when the launcher is killed. */
  complete: boolean;
}

/** The files of a sandbox. */
export interface Layout {
  dir: string;
  /** Links to the binaries, for PATH. */
  bin: string;
  /** Shell file that points kubectl and temporal here. */
  env: string;
  kubeconfig: string;
  workerKubeconfig: string;
  admissionKubeconfig: string;
  state: string;
  /** The launcher holds this lock while it starts the sandbox. */
  lock: string;
  etcdData: string;
  certificates: string;
  serviceAccountKey: string;
  /** Static bearer tokens (`--token-auth-file`). */
  tokens: string;
  /** AdmissionConfiguration of the apiserver: with which certificate it calls webhooks. */
  admission: string;
  webhookKubeconfig: string;
  /** Authority of that certificate. */
  webhookClientCa: string;
  temporalDatabase: string;
  log(server: ServerName): string;
  pidFile(server: ServerName): string;
}

export function layoutOf(dir: string): Layout {
  const root = canonical(dir);
  return {
    dir: root,
    bin: join(root, 'bin'),
    env: join(root, 'env'),
    kubeconfig: join(root, 'kubeconfig'),
    workerKubeconfig: join(root, 'worker.kubeconfig'),
    admissionKubeconfig: join(root, 'admission.kubeconfig'),
    state: join(root, 'sandbox.json'),
    lock: join(root, 'lock'),
    etcdData: join(root, 'data', 'etcd'),
    certificates: join(root, 'data', 'certificates'),
    serviceAccountKey: join(root, 'data', 'service-account.pem'),
    tokens: join(root, 'data', 'tokens.csv'),
    admission: join(root, 'data', 'admission.yaml'),
    webhookKubeconfig: join(root, 'data', 'webhook.kubeconfig'),
    webhookClientCa: join(root, 'data', 'webhook-client-ca.crt'),
    temporalDatabase: join(root, 'data', 'temporal.db'),
    log: (server) => join(root, 'logs', `${server}.log`),
    pidFile: (server) => join(root, 'run', `${server}.pid`),
  };
}

/** Returns one spelling per directory, because the directory in the environment of our processes is compared as text. */
function canonical(dir: string): string {
  const absolute = resolve(dir);
  if (existsSync(absolute)) return realpathSync(absolute);
  const parent = dirname(absolute);
  return parent === absolute ? absolute : join(canonical(parent), basename(absolute));
}

export function makeDirectories(layout: Layout): void {
  mkdirSync(layout.dir, { recursive: true, mode: 0o700 });
  for (const name of ['bin', 'data', 'logs', 'run']) {
    mkdirSync(join(layout.dir, name), { recursive: true, mode: 0o700 });
  }
}

export function isAdditional(name: ServerName): name is AdditionalServerName {
  return !serverNames.some((one) => one === name);
}

/** Reads the state. Returns undefined when no sandbox was ever started here. */
export function readState(layout: Layout): SandboxState | undefined {
  try {
    return JSON.parse(readFileSync(layout.state, 'utf8')) as SandboxState;
  } catch {
    return undefined;
  }
}

export function writeState(layout: Layout, state: SandboxState): void {
  writePrivate(layout.state, `${JSON.stringify(state, null, 2)}\n`);
}

/** Replaces a file atomically, so that it is never incomplete; only its owner may read it. */
export function writePrivate(file: string, text: string): void {
  const next = `${file}.next`;
  rmSync(next, { force: true });
  writeFileSync(next, text, { mode: 0o600 });
  renameSync(next, file);
}
