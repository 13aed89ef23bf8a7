import { Command, InvalidArgumentError, Option } from 'commander';
import { kubernetesVersions } from './binaries.ts';
import { SandboxError } from './errors.ts';
import { type PortName, portOptions } from './ports.ts';
import { maxRealNodes } from './realNodes/network.ts';
import {
  attachSandbox,
  purgeSandbox,
  type Sandbox,
  sandboxStatus,
  startSandbox,
  stopSandbox,
} from './sandbox.ts';
import { ensureToolchain } from './toolchain.ts';

/** npm run sandbox -- up | down | status | build */

interface DirOption {
  dir: string;
}

type UpOptions = DirOption & {
  nodes: number;
  install: boolean;
  evictionRequest?: boolean;
  kubernetes?: string;
  realNode?: number | true;
} & Partial<Record<`${PortName}Port`, number>>;

const program = new Command('sandbox')
  .description(
    'Runs Temporal and Kubernetes on this machine without containers, for evaluation, development and tests',
  )
  .helpCommand(false);

const dirOption = ['--dir <dir>', 'directory for everything that the sandbox writes', '.sandbox'] as const;

const up = program
  .command('up')
  .description('start it; missing binaries are built from source first, once per user and version')
  .option(...dirOption)
  .option('--nodes <number>', 'number of kwok nodes', nodeCount, 3)
  .option(
    '--real-node [number]',
    'also start this many nodes, 1 by default, that run containers; needs root and Linux',
    realNodeCount,
  )
  .addOption(kubernetesOption())
  .option(
    '--eviction-request',
    'serve EvictionRequests, and let the worker act on them (EVICTION_REQUEST_CONTROLLER=true); needs Kubernetes 1.37',
  )
  .option('--no-install', 'do not apply deploy/ (CRDs, policies, permissions)');
for (const option of Object.values(portOptions))
  up.option(`${option} <port>`, 'use this port instead of a free one', port);
up.action(start);

program
  .command('down')
  .description('stop it; its data is kept for the next up')
  .option(...dirOption)
  .option('--purge', 'delete the directory too', false)
  .action(stop);

program
  .command('status')
  .description('show each server; exit 1 if one does not run')
  .option(...dirOption)
  .action(showStatus);

program
  .command('build')
  .description('build missing binaries now, so that the first up, demo or test starts at once')
  .addOption(kubernetesOption())
  .option('--real-node', 'also what real nodes need', false)
  .action(build);

async function start(options: UpOptions): Promise<void> {
  const { kind } = sandboxStatus(options.dir);
  if (kind === 'Up') {
    print(`The sandbox in ${options.dir} is already running.`);
    return showAddresses(await attachSandbox(options.dir), options.dir);
  }
  if (kind === 'Degraded') {
    print(`The sandbox in ${options.dir} is incomplete: stopping its remaining servers; its data is kept.`);
    await stopSandbox(options.dir);
  }
  print(
    `Starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and Temporal in ${options.dir}`,
  );
  const sandbox = await startSandbox({
    ...options,
    realNodes: Number(options.realNode ?? 0),
    ports: requestedPorts(options),
    ...reporting(),
  });
  showAddresses(sandbox, options.dir);
}

function kubernetesOption(): Option {
  const versions = kubernetesVersions();
  const description = `version of Kubernetes; ${versions.at(-1)} by default`;
  return new Option('--kubernetes <version>', description).choices(versions);
}

async function build(options: { kubernetes?: string; realNode: boolean }): Promise<void> {
  const { kubernetes, realNode: realNodes } = options;
  const binaries = await ensureToolchain({ ...reporting(), kubernetes, realNodes });
  print("The sandbox's binaries are available:");
  for (const [name, path] of Object.entries(binaries)) print(`  ${name.padEnd(24)} ${path}`);
}

/** Returns the options that show progress and make a start or build interruptible. */
function reporting() {
  return {
    report: print,
    ...(process.stdout.isTTY ? { progress: printInPlace } : {}),
    signal: interruption(),
  };
}

function requestedPorts(options: UpOptions): Partial<Record<PortName, number>> {
  const requested = (Object.keys(portOptions) as PortName[]).map(
    (name) => [name, options[portAttribute(name)]] as const,
  );
  return Object.fromEntries(requested.filter(([, number]) => number !== undefined));
}

function portAttribute(name: PortName): `${PortName}Port` {
  return `${name}Port`;
}

/** Returns a signal that Ctrl-C and SIGTERM abort, so that a start in progress can clean up. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () =>
      controller.abort(new SandboxError('Interrupted; everything is stopped again')),
    );
  }
  return controller.signal;
}

function showAddresses(sandbox: Sandbox, dir: string): void {
  const forDir = dir === dirOption[2] ? '' : ` --dir ${dir}`;
  print(`
  Kubernetes    KUBECONFIG=${sandbox.kubeconfig}
  the worker's  KUBECONFIG=${sandbox.workerKubeconfig}
  admission's   ADMISSION_KUBECONFIG=${sandbox.admissionKubeconfig}
  Temporal      ${sandbox.temporalAddress}, namespace ${sandbox.temporalNamespace}
  Temporal UI   ${sandbox.temporalUi}${realNodeLines(sandbox)}

Use it here:    . ${dir}/env
Stop it:        npm run sandbox -- down${forDir}`);
}

/** Names the folders in which a user puts static pods, and looks for those that the agent holds. */
function realNodeLines({ realNodes }: Sandbox): string {
  return realNodes
    .map(
      ({ name, manifests, hold }) => `
  ${name.padEnd(13)} static pods: ${manifests}
                held ones:   ${hold}`,
    )
    .join('');
}

async function stop({ dir, purge }: DirOption & { purge: boolean }): Promise<void> {
  const stopped = await stopSandbox(dir);
  print(stopped.length > 0 ? `Stopped ${stopped.join(', ')}.` : `No sandbox is running in ${dir}.`);
  if (purge) {
    purgeSandbox(dir);
    print(`Deleted ${dir}.`);
  } else if (stopped.length > 0) {
    print(`Its data is kept in ${dir} for the next up; down --purge deletes it.`);
  }
}

function showStatus({ dir }: DirOption): void {
  const status = sandboxStatus(dir);
  if (status.kind !== 'Up') process.exitCode = 1;
  if (status.kind === 'Down') {
    print(`No sandbox is running in ${dir}.`);
    return;
  }
  for (const { name, pid, port: number } of status.servers) {
    const state = pid === undefined ? 'stopped' : 'running';
    print(`${name.padEnd(24)} ${state.padEnd(8)} pid ${String(pid ?? '-').padEnd(8)} port ${number ?? '-'}`);
  }
}

function nodeCount(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0)
    throw new InvalidArgumentError('Must be a whole number, 0 or more.');
  return number;
}

function realNodeCount(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > maxRealNodes)
    throw new InvalidArgumentError(`Must be a whole number between 1 and ${maxRealNodes}.`);
  return number;
}

function port(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 65_535)
    throw new InvalidArgumentError('Must be between 1 and 65535.');
  return number;
}

/** True while the next line replaces the last one on the terminal. */
let inPlace = false;

function print(line: string): void {
  if (inPlace) process.stdout.write('\r\x1b[K');
  inPlace = false;
  process.stdout.write(`${line}\n`);
}

function printInPlace(line: string): void {
  inPlace = true;
  process.stdout.write(`\r\x1b[K${line.slice(0, (process.stdout.columns ?? 80) - 1)}`);
}

try {
  await program.parseAsync();
} catch (error) {
  if (!(error instanceof SandboxError)) throw error;
  if (inPlace) process.stdout.write('\n');
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
