import { appendFileSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeObject } from '../../api/core.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { findByEnvironment } from '../../sandbox/processes.ts';
import { pauseImage } from '../../sandbox/realNodes/node.ts';
import type { RealNode } from '../../sandbox/realNodes/realNode.ts';
import { eventually } from './eventually.ts';
import type { World } from './world.ts';

/** A line that a process has logged about itself, in the order of the clock that all processes of the node share. */
export interface Entry {
  /** Seconds since the boot of the kernel, which is that of this host. */
  at: number;
  bootId: string;
  name: string;
  what: 'start' | 'term' | 'end';
}

interface HistoryOptions {
  /** The last boot unless given. */
  bootId?: string | undefined;
  /** Only what is later: the clock has steps of 10 ms, and an entry of the same step was there before. */
  from?: number;
}

interface ProcessOptions {
  /** Time that a process takes to end after SIGTERM; 3 s unless given. */
  stopSeconds?: number;
}

interface StaticPodOptions extends ProcessOptions {
  /** Fields of its spec that differ from those of the other pods. */
  spec?: object;
}

/** In the environment of every process. */
const mark = 'NODE_PROCESS';

/** Pods of a real node whose processes log their start, SIGTERM and end on its disk. */
export class NodeProcesses {
  readonly node: RealNode;
  readonly #world: World;
  readonly #log: string;
  readonly #stopSeconds: number;

  constructor(world: World, node: RealNode, { stopSeconds = 3 }: ProcessOptions = {}) {
    this.#world = world;
    this.node = node;
    this.#stopSeconds = stopSeconds;
    // The disk of the node: its /var/lib.
    this.#log = join(node.manifests, '..', 'lib', 'processes', 'log');
  }

  /** Creates a pod that no controller owns. */
  async pod(name: string): Promise<void> {
    await this.#world.kube.create(resources.pods, {
      metadata: { name, namespace: 'default' },
      spec: { ...this.#podSpec(name, this.#stopSeconds), nodeName: this.node.name },
    } as RawPod);
  }

  /** Creates a DaemonSet for real nodes. */
  async daemonSet(name: string): Promise<void> {
    const spec = {
      ...this.#podSpec(name, this.#stopSeconds),
      nodeSelector: { type: 'real' },
      tolerations: [{ operator: 'Exists' }],
    };
    const labels = { app: name };
    await this.#world.kube.create(resources.daemonSets, {
      metadata: { name, namespace: 'default' },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
    } as KubeObject);
  }

  /** Puts a manifest into the folder of the kubelet. */
  staticPod(name: string, { stopSeconds = this.#stopSeconds, spec = {} }: StaticPodOptions = {}): void {
    const manifest = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: 'default' },
      spec: { ...this.#podSpec(name, stopSeconds), ...spec },
    };
    // On the same file system and outside the folder: the kubelet must not read a part of it.
    const next = join(this.node.manifests, '..', `${name}.next`);
    writeFileSync(next, JSON.stringify(manifest));
    renameSync(next, join(this.node.manifests, `${name}.yaml`));
  }

  /** The names of the manifests in the folder of the kubelet. */
  manifests(): string[] {
    return readdirSync(this.node.manifests).toSorted();
  }

  entries(): Entry[] {
    let text: string;
    try {
      text = readFileSync(this.#log, 'utf8');
    } catch {
      return [];
    }
    return text
      .trim()
      .split('\n')
      .map((line) => {
        const [at = '', bootId = '', name = '', what] = line.split(' ');
        return { at: Number(at), bootId, name, what: what as Entry['what'] };
      });
  }

  /** The names of the processes that run, as far as they have logged. */
  running(): string[] {
    const last = new Map(this.entries().map(({ bootId, name, what }) => [name, { bootId, what }]));
    const isRunning = ([, { bootId, what }]: [string, { bootId: string; what: string }]) =>
      bootId === this.node.bootId() && what !== 'end';
    return [...last]
      .filter(isRunning)
      .map(([name]) => name)
      .toSorted();
  }

  /** Logs the end of processes that were killed, which could not. */
  logKilled(): void {
    for (const name of this.running())
      if (findByEnvironment(mark, this.#markOf(name)).length === 0)
        appendFileSync(this.#log, `${uptime()} ${this.node.bootId()} ${name} end\n`);
  }

  async eventuallyRunning(names: readonly string[]): Promise<void> {
    await eventually(`${names.join(', ')} to run`, () =>
      expect(this.running()).toEqual([...names].toSorted()),
    );
  }

  async eventuallyLogs(name: string, what: Entry['what'], from: number): Promise<Entry> {
    return eventually(`${what} of ${name}`, () => {
      const found = this.entries().find(
        (entry) => entry.name === name && entry.what === what && entry.at > from,
      );
      if (found === undefined)
        throw new Error(JSON.stringify(this.entries().map(({ name: of, what: did }) => [of, did])));
      return found;
    });
  }

  /** Returns what this process has logged in this boot, after `from`. */
  history(name: string, { bootId = this.node.bootId(), from = 0 }: HistoryOptions = {}): Entry['what'][] {
    return this.entries()
      .filter((entry) => entry.name === name && entry.bootId === bootId && entry.at > from)
      .map(({ what }) => what);
  }

  /** Fails unless the tiers of the default drain plan ended one after the other after `from`. */
  async expectEndedTierByTier(from: number): Promise<void> {
    const at = async (name: string, what: Entry['what']) => (await this.eventuallyLogs(name, what, from)).at;
    const order = [
      await at('default', 'end'),
      await at('daemon', 'term'),
      await at('daemon', 'end'),
      await at('static', 'term'),
      await at('static', 'end'),
      await at('critical', 'term'),
    ];
    expect(order).toEqual(order.toSorted((a, b) => a - b));
  }

  /** Fails if a process was started while the same one ran: between two starts in a boot there is an end. */
  expectNoneStartedTwice(): void {
    const running = new Set<string>();
    const twice = this.entries().filter(({ bootId, name, what }) => {
      const key = `${bootId} ${name}`;
      const isTwice = what === 'start' && running.has(key);
      if (what === 'start') running.add(key);
      if (what === 'end') running.delete(key);
      return isTwice;
    });
    expect(twice).toEqual([]);
  }

  /** Returns a mark by which the host finds a process: other nodes have processes of the same name. */
  #markOf(name: string): string {
    return `${name} of ${this.#log}`;
  }

  #podSpec(name: string, stopSeconds: number): object {
    const log = (what: Entry['what']) =>
      `read -r now _ </proc/uptime; echo "$now $(/bin/busybox cat /boot_id) ${name} ${what}" >>/processes/log`;
    const script = [
      `trap '${log('term')}; /bin/sleep ${stopSeconds}; ${log('end')}; exit 0' TERM`,
      log('start'),
      'while true; do /bin/sleep 1 & wait $!; done',
    ].join('\n');
    return {
      terminationGracePeriodSeconds: 30,
      containers: [
        {
          name: 'main',
          image: pauseImage,
          imagePullPolicy: 'IfNotPresent',
          command: ['/bin/sh', '-c', script],
          env: [{ name: mark, value: this.#markOf(name) }],
          volumeMounts: [
            { name: 'processes', mountPath: '/processes' },
            { name: 'boot-id', mountPath: '/boot_id', readOnly: true },
          ],
        },
      ],
      volumes: [
        { name: 'processes', hostPath: { path: '/var/lib/processes', type: 'DirectoryOrCreate' } },
        { name: 'boot-id', hostPath: { path: '/run/boot_id', type: 'File' } },
      ],
    };
  }
}

/** Returns the time on the clock of the processes. */
export function uptime(): number {
  return Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]);
}
