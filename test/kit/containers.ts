import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, mkdirSync, openSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from './eventually.ts';

const execute = promisify(execFile);
/** The namespace in which the kubelet looks for images. */
const namespace = 'k8s.io';

interface RunOptions {
  image: string;
  name: string;
  env?: Record<string, string>;
  /** Folders that the container may read, by their path in it. */
  folders?: Record<string, string>;
  /** In place of the image's command. */
  command?: string[];
}

/** containerd, with a folder of its own. */
export class Containerd {
  readonly #dir: string;
  readonly #child: ChildProcess;

  private constructor(dir: string, child: ChildProcess) {
    this.#dir = dir;
    this.#child = child;
  }

  static async start(dir: string): Promise<Containerd> {
    mkdirSync(dir, { recursive: true });
    const config = join(dir, 'config.toml');
    writeFileSync(
      config,
      `version = 2
root = "${dir}/root"
state = "${dir}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "${dir}/containerd.sock"
`,
    );
    const log = openSync(join(dir, 'log'), 'a');
    const child = spawn('containerd', ['--config', config], { stdio: ['ignore', log, log] });
    closeSync(log);
    const containerd = new Containerd(dir, child);
    await eventually('containerd to answer', () => containerd.#ctr('version'));
    return containerd;
  }

  async import(archive: string): Promise<void> {
    await this.#ctr('images', 'import', archive);
  }

  /** Runs a container in the network of this machine, with a file system that cannot be written to, and returns what it prints. */
  async output(options: RunOptions): Promise<string> {
    const { stdout } = await execute('ctr', [...this.#ctrArguments, 'run', '--rm', ...runArguments(options)]);
    return stdout;
  }

  /** Starts such a container, and returns its process id. */
  async start(options: RunOptions): Promise<number> {
    await this.#ctr(
      'run',
      '--detach',
      '--log-uri',
      `file://${this.#dir}/${options.name}.log`,
      ...runArguments(options),
    );
    const tasks = await this.#ctr('tasks', 'list');
    return Number(new RegExp(`^${options.name}\\s+(\\d+)`, 'm').exec(tasks)?.[1]);
  }

  /** Path of the file with what a container has printed. */
  logOf(name: string): string {
    return join(this.#dir, `${name}.log`);
  }

  /** Ends a container, as the kubelet does with SIGTERM. */
  async end(name: string, signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
    await this.#ctr('tasks', 'kill', '--signal', signal, name);
    await eventually(`container ${name} to end`, async () =>
      expect(await this.#running()).not.toContain(name),
    );
    await this.#ctr('tasks', 'delete', name);
    await this.#ctr('containers', 'delete', name);
  }

  /** Ends containerd, and first all containers, which would outlive it. */
  async stop(): Promise<void> {
    for (const name of await this.#running()) await this.end(name, 'SIGKILL');
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await exited;
  }

  async #running(): Promise<string[]> {
    const tasks = await this.#ctr('tasks', 'list');
    return [...tasks.matchAll(/^(\S+)\s+\d+\s+RUNNING/gm)].map(([, name = '']) => name);
  }

  get #ctrArguments(): string[] {
    return ['--address', join(this.#dir, 'containerd.sock'), '--namespace', namespace];
  }

  async #ctr(...args: string[]): Promise<string> {
    const { stdout } = await execute('ctr', [...this.#ctrArguments, ...args]);
    return stdout;
  }
}

function runArguments({ image, name, env = {}, folders = {}, command = [] }: RunOptions): string[] {
  return [
    '--net-host',
    '--read-only',
    ...Object.entries(env).flatMap(([key, value]) => ['--env', `${key}=${value}`]),
    ...Object.entries(folders).flatMap(([path, source]) => [
      '--mount',
      `type=bind,src=${source},dst=${path},options=rbind:ro`,
    ]),
    image,
    name,
    ...command,
  ];
}
