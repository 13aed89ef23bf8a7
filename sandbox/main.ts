import { Command, InvalidArgumentError } from 'commander';
import { SandboxError } from './errors.ts';
import { type PortName, portOptions } from './ports.ts';
import {
  attachSandbox,
  purgeSandbox,
  type Sandbox,
  sandboxStatus,
  startSandbox,
  stopSandbox,
} from './sandbox.ts';

/** npm run sandbox -- up | down | status */

interface DirOption {
  dir: string;
}

type UpOptions = DirOption & { nodes: number; install: boolean } & Partial<Record<`${PortName}Port`, number>>;

const program = new Command('sandbox')
  .description(
    'Temporal and Kubernetes on this machine, without containers: for trying, developing and testing',
  )
  .helpCommand(false);

const dirOption = ['--dir <dir>', 'directory of everything that the sandbox writes', '.sandbox'] as const;

const up = program
  .command('up')
  .description('start it; what it needs is built once, from source')
  .option(...dirOption)
  .option('--nodes <number>', 'kwok nodes', nodeCount, 3)
  .option('--no-install', 'leave out what deploy/ holds: CRDs, policies, permissions');
for (const option of Object.values(portOptions)) up.option(`${option} <port>`, 'instead of a free one', port);
up.action(start);

program
  .command('down')
  .description('stop it; its data stays for the next up')
  .option(...dirOption)
  .option('--purge', 'delete the directory too', false)
  .action(stop);

program
  .command('status')
  .description('show each server; exit 1 if one is dead')
  .option(...dirOption)
  .action(showStatus);

async function start(options: UpOptions): Promise<void> {
  const { kind } = sandboxStatus(options.dir);
  if (kind === 'Up') {
    say(`The sandbox in ${options.dir} is up already.`);
    return showAddresses(await attachSandbox(options.dir), options.dir);
  }
  if (kind === 'Broken') {
    say(`The sandbox in ${options.dir} is not whole: what runs of it is stopped, its data stays.`);
    await stopSandbox(options.dir);
  }
  say(
    `Starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kwok and Temporal in ${options.dir}`,
  );
  const sandbox = await startSandbox({
    ...options,
    ports: askedPorts(options),
    report: say,
    ...(process.stdout.isTTY ? { progress: sayInPlace } : {}),
    signal: interruption(),
  });
  showAddresses(sandbox, options.dir);
}

function askedPorts(options: UpOptions): Partial<Record<PortName, number>> {
  const asked = (Object.keys(portOptions) as PortName[]).map(
    (name) => [name, options[portAttribute(name)]] as const,
  );
  return Object.fromEntries(asked.filter(([, number]) => number !== undefined));
}

function portAttribute(name: PortName): `${PortName}Port` {
  return `${name}Port`;
}

/** Ctrl-C and SIGTERM end a start that is under way, so that it can clear up after itself. */
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
  say(`
  Kubernetes    KUBECONFIG=${sandbox.kubeconfig}
  the worker's  KUBECONFIG=${sandbox.workerKubeconfig}
  Temporal      ${sandbox.temporalAddress}, namespace ${sandbox.temporalNamespace}
  Temporal UI   ${sandbox.temporalUi}

Use it here:    . ${dir}/env
Stop it:        npm run sandbox -- down${forDir}`);
}

async function stop({ dir, purge }: DirOption & { purge: boolean }): Promise<void> {
  const stopped = await stopSandbox(dir);
  say(stopped.length > 0 ? `Stopped ${stopped.join(', ')}.` : `Nothing of a sandbox runs in ${dir}.`);
  if (purge) {
    purgeSandbox(dir);
    say(`Deleted ${dir}.`);
  } else if (stopped.length > 0) {
    say(`Its data stays in ${dir} for the next up; down --purge deletes it.`);
  }
}

function showStatus({ dir }: DirOption): void {
  const status = sandboxStatus(dir);
  if (status.kind !== 'Up') process.exitCode = 1;
  if (status.kind === 'Down') {
    say(`Nothing of a sandbox runs in ${dir}.`);
    return;
  }
  for (const { name, pid, port: number } of status.servers) {
    const state = pid === undefined ? 'dead' : 'alive';
    say(`${name.padEnd(24)} ${state.padEnd(6)} pid ${String(pid ?? '-').padEnd(8)} port ${number ?? '-'}`);
  }
}

function nodeCount(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 0) throw new InvalidArgumentError('A whole number, 0 or more.');
  return number;
}

function port(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 65_535)
    throw new InvalidArgumentError('1 to 65535.');
  return number;
}

/** True while the last line on the terminal is one that the next replaces. */
let inPlace = false;

function say(line: string): void {
  if (inPlace) process.stdout.write('\r\x1b[K');
  inPlace = false;
  process.stdout.write(`${line}\n`);
}

function sayInPlace(line: string): void {
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
