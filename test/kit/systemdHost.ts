import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { errorMessage } from '../../kube/errors.ts';
import { nodePath, realNodeProblem } from '../../sandbox/realNodes/requirements.ts';
import { eventually } from './eventually.ts';

const script = fileURLToPath(new URL('systemdHost.sh', import.meta.url));
const bootMs = 30_000;

export interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A host with the systemd and the logind of this machine, in namespaces of its own. It shares the network. */
export class SystemdHost {
  /** A folder that the host sees as /mnt. */
  readonly shared: string;
  readonly #dir: string;
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  #init = 0;

  private constructor(dir: string, child: ChildProcess) {
    this.#dir = dir;
    this.shared = join(dir, 'shared');
    this.#child = child;
    this.#exited = once(child, 'exit');
  }

  /** Resolves with the reason why this machine cannot run such a host, or with undefined if it can. It boots one to find out. */
  static async problem(): Promise<string | undefined> {
    const problem = realNodeProblem();
    if (problem !== undefined) return problem;
    try {
      const host = await SystemdHost.boot();
      await host.close();
      return undefined;
    } catch (error) {
      return errorMessage(error);
    }
  }

  /** Resolves when systemd has started. */
  static async boot(): Promise<SystemdHost> {
    const dir = await mkdtemp(join(tmpdir(), 'nm-systemd-'));
    await mkdir(join(dir, 'shared'));
    const stdio = ['ignore', 'ignore', 'pipe'] as const;
    const child = spawn('bash', [script, dir], { env: { PATH: nodePath }, stdio: [...stdio] });
    const host = new SystemdHost(dir, child);
    let output = '';
    child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()));
    try {
      await eventually('systemd to have started', () => host.#started(), { timeoutMs: bootMs });
      return host;
    } catch (error) {
      await host.close();
      const line = output.trim().split('\n')[0] || errorMessage(error);
      throw new Error(`systemd does not start here: ${line}`, { cause: error });
    }
  }

  get isUp(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** Runs a program on the host. */
  async ran(...command: string[]): Promise<Answer> {
    const args = ['--target', String(this.#init), '--all', '--', ...command];
    const options = { env: { PATH: nodePath }, maxBuffer: 10_000_000 };
    return new Promise((resolve) =>
      execFile('nsenter', args, options, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
      ),
    );
  }

  /** Runs a program that must succeed, and returns what it prints. */
  async printed(...command: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.ran(...command);
    if (code !== 0) throw new Error(`${command.join(' ')} failed with ${code}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Ends it as a power loss does. */
  async close(): Promise<void> {
    if (this.#init !== 0 && this.isUp) process.kill(this.#init, 'SIGKILL');
    else this.#child.kill();
    await this.#exited;
    await rm(this.#dir, { recursive: true });
  }

  async #started(): Promise<void> {
    this.#init = (await descendant(this.#child.pid ?? 0, 'systemd')) ?? 0;
    const state = (await this.ran('systemctl', 'is-system-running')).stdout.trim();
    if (!['running', 'degraded'].includes(state)) throw new Error(`its state is ${state}`);
  }
}

/** Returns the id of the first process with this name that the process or one of its children has started. */
async function descendant(pid: number, name: string): Promise<number | undefined> {
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  for (const child of children.trim().split(' ').filter(Boolean).map(Number)) {
    const command = (await readFile(`/proc/${child}/comm`, 'utf8').catch(() => '')).trim();
    const found = command === name ? child : await descendant(child, name);
    if (found !== undefined) return found;
  }
  return undefined;
}
