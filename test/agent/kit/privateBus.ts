import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventuallyHolds } from '../../kit/eventually.ts';
import { Requirement, testsWith } from '../../kit/requirements.ts';
import type { AgentProcessOptions } from './agentProcess.ts';

const bundledModules = new URL('../../kit/bundledModules.ts', import.meta.url).href;

/** Python of Debian's packages, whatever PATH begins with. */
const python = '/usr/bin/python3';

/** Names what this machine lacks for tests of D-Bus; undefined if it has everything. `npm run debian-packages` installs it. */
export const missingForBus = busProblem();

function busProblem(): string | undefined {
  const works = (command: string, ...args: string[]) => spawnSync(command, args).status === 0;
  const missing = [
    ...(works('dbus-daemon', '--version') ? [] : ['dbus']),
    ...(works(python, '-c', 'import dbusmock') ? [] : ['python3-dbusmock']),
    ...(works('systemd-inhibit', '--version') && works('busctl', '--version') ? [] : ['systemd']),
    ...(works('xdg-dbus-proxy', '--version') ? [] : ['xdg-dbus-proxy']),
  ];
  return missing.length === 0 ? undefined : `this machine has no ${missing.join(', ')}: apt-get install them`;
}

/** A test with a D-Bus daemon. */
export const withBus = testsWith(Requirement.Bus, missingForBus);

/** Like that of the system: root and any user may own and send anything, which is more than the system permits. */
const configuration = (socket: string) => `<!DOCTYPE busconfig PUBLIC
  "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path=${socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/><allow own="*"/><allow send_type="method_call"/><allow send_type="signal"/>
    <allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
    <allow receive_type="method_call"/><allow receive_type="method_return"/>
    <allow receive_type="error"/><allow receive_type="signal"/>
  </policy>
</busconfig>
`;

const logind = ['org.freedesktop.login1', '/org/freedesktop/login1'];
const manager = 'org.freedesktop.login1.Manager';
const mock = 'org.freedesktop.DBus.Mock';

export interface Running {
  pid: number;
  output(): string;
  /** Ends it with the signal, and waits for that. */
  end(signal: NodeJS.Signals): Promise<void>;
}

/** A system bus of its own with a mocked logind, on which a test shuts the machine down. */
export class PrivateBus {
  readonly dir: string;
  readonly #programs: Running[] = [];
  #daemon: Running | undefined;
  #logind: Running | undefined;

  private constructor(dir: string) {
    this.dir = dir;
  }

  static async start({ inhibitDelayMaxSeconds = 60 } = {}): Promise<PrivateBus> {
    const bus = new PrivateBus(await mkdtemp(join(tmpdir(), 'nm-bus-')));
    await writeFile(join(bus.dir, 'bus.conf'), configuration(join(bus.dir, 'bus')));
    await bus.#startDaemon({ inhibitDelayMaxSeconds });
    return bus;
  }

  get address(): string {
    return `unix:path=${join(this.dir, 'bus')}`;
  }

  /** Where the kubelet connects. */
  get proxyAddress(): string {
    return `unix:path=${join(this.dir, 'proxy')}`;
  }

  /** Ends the bus and logind with all that delays shutdowns, and restarts them: `preparing` is what logind says then. */
  async restart({ preparing = false, inhibitDelayMaxSeconds = 60 } = {}): Promise<void> {
    endInhibitors(await this.#inhibitors());
    await this.#logind?.end('SIGKILL');
    await this.#daemon?.end('SIGKILL');
    await rm(join(this.dir, 'bus'), { force: true });
    await this.#startDaemon({ preparing, inhibitDelayMaxSeconds });
  }

  /** Starts the proxy with the options of the unit in deploy/agent/systemd. */
  async startProxy(options: readonly string[]): Promise<void> {
    const socket = join(this.dir, 'proxy');
    this.run('xdg-dbus-proxy', [this.address, socket, ...options]);
    await eventuallyHolds(
      'the proxy to listen',
      () => existsSync(socket),
      (exists) => exists,
    );
  }

  /** Starts what behaves as the kubelet does: it needs `seconds` to terminate pods. */
  async startKubelet(address: string, seconds = 0): Promise<Running> {
    const kubelet = this.run(python, [join(import.meta.dirname, 'listener.py'), address, `${seconds}`]);
    await eventuallyHolds(
      'the kubelet to delay shutdowns',
      () => kubelet.output(),
      (text) => text.includes('started'),
    );
    return kubelet;
  }

  startAgent(options: AgentProcessOptions): Running {
    return this.run(process.execPath, [
      '--import',
      bundledModules,
      join(import.meta.dirname, 'agentProcess.ts'),
      JSON.stringify(options),
    ]);
  }

  run(command: string, args: readonly string[]): Running {
    const program = start(command, args, { DBUS_SYSTEM_BUS_ADDRESS: this.address });
    this.#programs.push(program);
    return program;
  }

  /** Begins a shutdown, as `systemctl poweroff` does. */
  async powerOff(): Promise<void> {
    await this.#call(manager, 'PowerOff', 'b', 'false');
  }

  async cancelShutdown(): Promise<void> {
    await this.#call(mock, 'CancelShutdown');
  }

  /** Resolves with why the machine is off, or with an empty text while it is on. */
  async poweredOff(): Promise<string> {
    return /"(.*)"/.exec(await this.#busctl('get-property', ...logind, mock, 'PoweredOff'))?.[1] ?? '';
  }

  /** Resolves with who delays shutdowns, in alphabetical order. */
  async delayedBy(): Promise<string[]> {
    return (await this.#inhibitors()).map(({ who }) => who).toSorted();
  }

  /** Sends PrepareForShutdown from a process that is neither logind nor the agent. */
  async forgeSignal(destination?: string): Promise<void> {
    const to = destination === undefined ? [] : [`--destination=${destination}`];
    await this.#busctl('emit', ...to, logind[1] as string, manager, 'PrepareForShutdown', 'b', 'true');
  }

  /** Does nothing the second time. */
  async stop(): Promise<void> {
    if (!existsSync(this.dir)) return;
    for (const program of this.#programs.toReversed()) await program.end('SIGKILL');
    endInhibitors(await this.#inhibitors());
    await this.#logind?.end('SIGKILL');
    await this.#daemon?.end('SIGKILL');
    await rm(this.dir, { recursive: true, force: true });
  }

  async #startDaemon({ preparing = false, inhibitDelayMaxSeconds = 60 }): Promise<void> {
    this.#daemon = start('dbus-daemon', ['--nofork', `--config-file=${join(this.dir, 'bus.conf')}`], {});
    await eventuallyHolds(
      'the bus to listen',
      () => existsSync(join(this.dir, 'bus')),
      (exists) => exists,
    );
    const template = join(import.meta.dirname, 'logind.py');
    const parameters = `{"PreparingForShutdown": ${preparing ? 'true' : 'false'}, "InhibitDelayMaxUSec": ${inhibitDelayMaxSeconds * 1e6}}`;
    const args = ['-m', 'dbusmock', '--system', '--template', template, '--parameters', parameters];
    this.#logind = start(python, args, { DBUS_SYSTEM_BUS_ADDRESS: this.address });
    await eventuallyHolds(
      'logind to answer',
      () => this.poweredOff().catch(() => undefined),
      (text) => text === '',
    );
  }

  async #inhibitors(): Promise<{ who: string; pid: number }[]> {
    const text = await this.#call(manager, 'ListInhibitors');
    return [...text.matchAll(/"shutdown" "(?<who>[^"]*)" "[^"]*" "delay" \d+ (?<pid>\d+)/g)].map(
      ({ groups = {} }) => ({ who: groups['who'] ?? '', pid: Number(groups['pid']) }),
    );
  }

  async #call(iface: string, member: string, ...args: string[]): Promise<string> {
    return this.#busctl('call', ...logind, iface, member, ...args);
  }

  async #busctl(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)('busctl', [`--address=${this.address}`, ...args]);
    return stdout;
  }
}

/** Ends the inhibitors of agents, which outlive them. */
function endInhibitors(inhibitors: readonly { who: string; pid: number }[]): void {
  for (const { who, pid } of inhibitors) if (who !== 'kubelet') process.kill(pid, 'SIGTERM');
}

function start(command: string, args: readonly string[], env: NodeJS.ProcessEnv): Running {
  const child: ChildProcess = spawn(command, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_OPTIONS: '', ...env },
  });
  const exited = Promise.race([once(child, 'exit'), once(child, 'error')]).catch(() => undefined);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  return {
    pid: child.pid ?? 0,
    output: () => output,
    end: async (signal) => {
      if (child.exitCode === null && child.signalCode === null) child.kill(signal);
      await exited;
    },
  };
}

/** Resolves when the machine is off, for this reason. */
export async function off(bus: PrivateBus, why: string): Promise<void> {
  await eventuallyHolds(
    `the machine to be off (${why})`,
    () => bus.poweredOff(),
    (reason) => reason === why,
  );
}

/** Resolves when a process has printed a text. */
export async function toHaveLogged(process: Running, text: string): Promise<void> {
  await eventuallyHolds(
    `the log to contain ${text}`,
    () => process.output(),
    (output) => output.includes(text),
  );
}
