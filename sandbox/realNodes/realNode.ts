import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SandboxError } from '../errors.ts';
import type { Layout, RealNodeName, SandboxState } from '../layout.ts';
import * as processes from '../processes.ts';
import { launchServer, realNodeReadiness, runningServer, stepTimeoutMs } from '../servers.ts';
import { until } from '../until.ts';
import { startAgent } from './agent.ts';
import { bootIdOf, type NodeFiles, nodeFiles, type NodeService } from './node.ts';
import { nodePath } from './requirements.ts';

/** A node that runs containers, as the person in front of the machine sees it. */
export class RealNode {
  readonly name: RealNodeName;
  /** The folder of the kubelet with the manifests of static pods. */
  readonly manifests: string;
  /** The folder in which the agent holds manifests. */
  readonly hold: string;
  readonly #layout: Layout;
  readonly #state: SandboxState;
  readonly #files: NodeFiles;

  /** Throws SandboxError if the sandbox has no node with this name. */
  constructor(layout: Layout, state: SandboxState, name: RealNodeName) {
    if (state.servers[name] === undefined)
      throw new SandboxError(`The sandbox in ${layout.dir} has no node ${name}`);
    this.name = name;
    this.#layout = layout;
    this.#state = state;
    this.#files = nodeFiles(layout, name);
    this.manifests = this.#files.manifests;
    this.hold = this.#files.hold;
  }

  /** Returns the file with what a service has printed. */
  log(service: NodeService): string {
    return this.#files.log(service);
  }

  /** Returns the ID of the last boot; undefined until the node has booted. */
  bootId(): string | undefined {
    return bootIdOf(this.#layout, this.name);
  }

  isOn(): boolean {
    return this.#machine() !== undefined;
  }

  /** Waits until the Node is Ready since the last boot. */
  ready(): Promise<void> {
    const notReady = realNodeReadiness(this.name);
    return until(`${this.name} to be Ready`, () => notReady(this.#layout, this.#state), wait);
  }

  /** Runs a command in the namespaces of the node, and returns its standard output. Rejects if it fails. */
  async run(command: string, ...args: string[]): Promise<string> {
    const init = this.#init();
    if (init === undefined) throw new SandboxError(`${this.name} is off`);
    const namespaces = ['--mount', '--pid', '--uts', '--ipc', '--net'];
    const env = { PATH: nodePath, HOME: '/root', DBUS_SYSTEM_BUS_ADDRESS: systemBus };
    const inside = [`--target=${init}`, ...namespaces, '--', command, ...args];
    const { stdout } = await promisify(execFile)('nsenter', inside, { env });
    return stdout;
  }

  /** Returns the process ID of a service in the node; undefined while it does not run. */
  pid(service: NodeService): number | undefined {
    const init = this.#init();
    const file = join('/proc', String(init), 'root', 'run', 'services', service);
    return init !== undefined && existsSync(file) ? Number(readFileSync(file, 'utf8')) : undefined;
  }

  /** Ends a service with SIGKILL, as a crash does. The node starts it again after a second. */
  kill(service: NodeService): Promise<void> {
    return this.#end(service, 'KILL');
  }

  /** Stops a service with SIGTERM. It does not run again until it is enabled, not even after a boot. */
  async disable(service: NodeService): Promise<void> {
    writeFileSync(this.#files.disabled(service), '');
    await this.#end(service, 'TERM');
  }

  /** The service runs until the node ends, and after the next boot only when it is enabled. */
  disableFromNextBoot(service: NodeService): void {
    writeFileSync(this.#files.disabled(service), '');
  }

  /** Starts a service that is disabled. */
  async enable(service: NodeService): Promise<void> {
    rmSync(this.#files.disabled(service), { force: true });
    await until(`${service} to start`, () => (this.pid(service) ? undefined : 'it does not run'), wait);
  }

  /** Gives the agent a new token, and starts it, as `up` does unless `agent` or `install` is false. */
  startAgent(args?: readonly string[]): Promise<void> {
    return startAgent({ layout: this.#layout, state: this.#state, wait }, this.name, args);
  }

  /** Boots the node again without asking logind: SIGTERM, SIGKILL, and a new boot ID. Returns when the next boot has started. */
  async reboot(): Promise<void> {
    const before = this.bootId();
    await this.run('kill', '-TERM', '1');
    await this.#booted(before);
  }

  /** Asks logind for a shutdown, as `systemctl reboot` and `systemctl poweroff` do, and does not wait for it. */
  async shutdown(action: 'Reboot' | 'PowerOff'): Promise<void> {
    const method = `org.freedesktop.login1.Manager.${action}`;
    const destination = ['--dest=org.freedesktop.login1', '/org/freedesktop/login1'];
    await this.run('dbus-send', '--system', '--print-reply', ...destination, method, 'boolean:false');
  }

  /** Ends everything in the node at once. Only its disk remains. */
  async powerLoss(): Promise<void> {
    const machine = this.#machine();
    if (machine !== undefined) await processes.kill(machine);
  }

  /** Boots the node after a power failure or a shutdown. Returns when the boot has started. */
  async powerOn(): Promise<void> {
    if (this.isOn()) return;
    launchServer(this.#layout, this.#state, this.name);
    await this.#booted(undefined);
  }

  async #end(service: NodeService, signal: 'KILL' | 'TERM'): Promise<void> {
    const running = this.pid(service);
    if (running === undefined) return;
    // It may have ended by itself.
    await this.run('kill', `-${signal}`, String(running)).catch(() => undefined);
    const ended = () => (this.pid(service) === running ? 'it is running' : undefined);
    await until(`${service} to end`, ended, wait);
  }

  async #booted(before: string | undefined): Promise<void> {
    const notBooted = () => {
      const bootId = this.bootId();
      return bootId === undefined || bootId === before ? `its boot ID is ${bootId}` : undefined;
    };
    await until(`${this.name} to boot (its log is ${this.#layout.log(this.name)})`, notBooted, wait);
  }

  #machine(): processes.ProcessIdentity | undefined {
    return runningServer(this.#layout, this.name);
  }

  /** Returns the first process of the node (node.sh), as this host sees it: the child of unshare, which is the child of machine.sh. */
  #init(): number | undefined {
    const machine = this.#machine();
    const [unshare] = machine === undefined ? [] : processes.childrenOf(machine.pid);
    return unshare === undefined ? undefined : processes.childrenOf(unshare)[0];
  }
}

const wait = { timeoutMs: stepTimeoutMs };
const systemBus = 'unix:path=/run/dbus/system_bus_socket';
