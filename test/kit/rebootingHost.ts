import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type NodeWatch, watchNode } from '../../agent/nodeWatch.ts';
import { runReboot } from '../../agent/reboot/reboot.ts';
import type { Lease } from '../../api/core.ts';
import { AGENT_LEASE_NAMESPACE, IdentityAnnotation } from '../../api/names.ts';
import { sleep } from '../../kube/abort.ts';
import type { Kube } from '../../kube/client.ts';
import { EventRecorder } from '../../kube/events.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { silentLog } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';

/** A reboot of the host. */
export interface Reboot {
  bootId: string;
  unschedulable: boolean;
  drained: boolean;
}

interface HostOptions {
  kube: Kube;
  node: string;
  /** The environment of kubectl. */
  env: Readonly<Record<string, string>>;
}

/**
 * The host of a simulated node. It runs the node agent's part for reboots; the reboot command gives the Node a new boot ID, as its kubelet would, and
 * removes the sentinel. The agent is then started again.
 */
export class RebootingHost {
  readonly #options: HostOptions;
  readonly #dir: string;
  /** Whether its logind has a shutdown in progress. */
  isShuttingDown = false;
  #bootId: string;
  #end = new AbortController();
  #running: Promise<void> = Promise.resolve();

  private constructor(options: HostOptions, dir: string, bootId: string) {
    this.#options = options;
    this.#dir = dir;
    this.#bootId = bootId;
  }

  /** Gives the Node a boot ID and its agent a current Lease, and starts the agent. */
  static async start(options: HostOptions): Promise<RebootingHost> {
    const host = new RebootingHost(options, await mkdtemp(join(tmpdir(), 'host-')), crypto.randomUUID());
    await writeFile(host.#file('script'), host.#script());
    await writeFile(host.#file('reboots'), '');
    await host.reported(host.#bootId);
    await host.leased();
    host.startAgent();
    return host;
  }

  get bootId(): string {
    return this.#bootId;
  }

  get sentinel(): string {
    return this.#file('reboot-required');
  }

  /** The host says by its sentinel that it needs a reboot. */
  async needsReboot(packages: string): Promise<void> {
    await writeFile(`${this.sentinel}.pkgs`, packages);
    await writeFile(this.sentinel, '*** System restart required ***\n');
  }

  async noLongerNeedsReboot(): Promise<void> {
    await rm(this.sentinel);
  }

  /** The next runs of the reboot command fail, until this is called with false. */
  async commandFails(fails: boolean): Promise<void> {
    if (fails) await writeFile(this.#file('fails'), '');
    else await rm(this.#file('fails'));
  }

  /** From now on the reboot command succeeds, but the host is not rebooted. */
  async ignoresReboots(): Promise<void> {
    await writeFile(this.#file('ignores'), '');
  }

  /** Returns what the reboot command has observed, once for each time it ran. */
  async reboots(): Promise<Reboot[]> {
    const lines = (await readFile(this.#file('reboots'), 'utf8')).split('\n').filter((line) => line !== '');
    return lines.map((line) => {
      const [bootId = '', unschedulable, drained] = line.split(' ');
      return { bootId, unschedulable: unschedulable === 'true', drained: drained === 'True' };
    });
  }

  /** The host is rebooted by something else than its agent. */
  async crash(): Promise<void> {
    await this.stopAgent();
    this.#bootId = crypto.randomUUID();
    await writeFile(this.#file('booted'), this.#bootId);
    await this.reported(this.#bootId);
    this.startAgent();
  }

  async reported(bootID: string): Promise<void> {
    const { kube, node: name } = this.#options;
    const body = { status: { nodeInfo: { bootID } } };
    await kube.mergePatch(resources.nodes, { name }, body, { subresource: 'status' });
  }

  /** The agent has renewed its Lease this many seconds ago. */
  async leased(secondsAgo = 0, capabilities = 'reboot'): Promise<void> {
    const { kube, node: name } = this.#options;
    const renewTime = microTime(new Date(kube.now().getTime() - secondsAgo * 1_000));
    const spec = { holderIdentity: name, leaseDurationSeconds: 3_600, renewTime };
    const annotations = { [IdentityAnnotation.Capabilities]: capabilities };
    const lease: Lease = { metadata: { namespace: AGENT_LEASE_NAMESPACE, name, annotations }, spec };
    await kube.apply(resources.leases, lease, { fieldManager: 'test', force: true });
  }

  startAgent(): void {
    this.#end = new AbortController();
    this.#running = this.#runAgent(this.#end.signal);
  }

  async stopAgent(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  async close(): Promise<void> {
    await this.stopAgent();
    await rm(this.#dir, { recursive: true });
  }

  /** Runs one agent for each boot. */
  async #runAgent(signal: AbortSignal): Promise<void> {
    const { kube, node } = this.#options;
    const events = new EventRecorder({ kube, component: 'node-maintenance-agent', log: silentLog });
    while (!signal.aborted) {
      const bootId = this.#bootId;
      const boot = new AbortController();
      const isOver = AbortSignal.any([signal, boot.signal]);
      const watch: NodeWatch = watchNode({ kube, node, log: silentLog }, isOver);
      const deps = { kube, node, bootId, events, log: silentLog };
      const options = {
        watch,
        command: `sh ${this.#file('script')}`,
        sentinel: this.sentinel,
        sentinelIntervalMs: 200,
        isShuttingDown: () => this.isShuttingDown,
      };
      const agent = runReboot(deps, options, isOver);
      await this.#rebooted(bootId, signal);
      boot.abort();
      await agent;
    }
    await events.flush(5_000);
  }

  async #rebooted(bootId: string, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && this.#bootId === bootId) {
      await sleep(50, signal).catch(() => undefined);
      const booted = await readFile(this.#file('booted'), 'utf8').catch(() => bootId);
      if (booted !== '') this.#bootId = booted;
    }
  }

  #file(name: string): string {
    return join(this.#dir, name);
  }

  /** The shell does what a reboot does. The new boot ID is known to the host first, then to the Node. */
  #script(): string {
    const { node, env } = this.#options;
    const { KUBECONFIG = '', PATH = '' } = env;
    const state =
      '{.status.nodeInfo.bootID} {.spec.unschedulable} {.status.conditions[?(@.type=="Drained")].status}{"\\n"}';
    return [
      'set -eu',
      `export KUBECONFIG='${KUBECONFIG}' PATH='${PATH}'`,
      `if [ -e '${this.#file('fails')}' ]; then echo 'Failed to connect to bus' >&2; exit 4; fi`,
      `kubectl get node ${node} -o jsonpath='${state}' >>'${this.#file('reboots')}'`,
      `if [ -e '${this.#file('ignores')}' ]; then exit 0; fi`,
      `new=$(cat /proc/sys/kernel/random/uuid)`,
      `rm -f '${this.sentinel}' '${this.sentinel}.pkgs'`,
      `printf %s "$new" >'${this.#file('booted.new')}'`,
      `mv '${this.#file('booted.new')}' '${this.#file('booted')}'`,
      `kubectl patch node ${node} --subresource=status --type=merge -p '{"status":{"nodeInfo":{"bootID":"'"$new"'"}}}'`,
      '',
    ].join('\n');
  }
}
