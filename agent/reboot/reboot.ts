import type { Node } from '../../api/core.ts';
import { REBOOT_REQUIRED_MANAGER, RebootAnnotation } from '../../api/names.ts';
import { decideReboot, isRequested, decideRequirement } from '../../domain/reboot/agent.ts';
import { backOffMs } from '../../kube/backOff.ts';
import { isFailedTest, isKubeError } from '../../kube/errors.ts';
import type { EventContent } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import { type Requeue, WorkQueue } from '../../kube/workQueue.ts';
import type { AgentDeps } from '../deps.ts';
import type { NodeWatch } from '../nodeWatch.ts';
import { runCommand } from './command.ts';
import { readSentinel } from './sentinel.ts';

export interface RebootOptions {
  readonly watch: NodeWatch;
  /** Run by `/bin/sh -c`; `systemctl reboot` unless given. */
  readonly command?: string;
  /** Path of the file whose existence says that the host needs a reboot; `/var/run/reboot-required` unless given. Empty: none. */
  readonly sentinel?: string;
  /** 60 s unless given. */
  readonly sentinelIntervalMs?: number;
  /** Whether the host is about to end, no matter who has asked for it; unknown unless given. */
  readonly isShuttingDown?: () => boolean;
}

const defaultCommand = 'systemctl reboot';
/** Debian and Ubuntu create it. It is on a tmpfs, so that a reboot removes it. */
const defaultSentinel = '/var/run/reboot-required';
const defaultSentinelIntervalMs = 60_000;
/** Delays between attempts of a command that fails. */
const commandBackOff = { firstMs: 10_000, capMs: 300_000 };
/** logind permits no second shutdown. The first fulfils the request, or is cancelled. */
const shutdownPollMs = 5_000;
/** Events must not delay the reboot for longer. */
const flushEventsMs = 5_000;

/**
 * Reboots the host when its Node asks for that (`RebootAnnotation`), and says on the Node that the host needs a reboot while the sentinel exists.
 * Resolves when the signal aborts.
 */
export async function runReboot(deps: AgentDeps, options: RebootOptions, signal: AbortSignal): Promise<void> {
  const { watch, command = defaultCommand, sentinel = defaultSentinel } = options;
  const { sentinelIntervalMs: requeueAfterMs = defaultSentinelIntervalMs } = options;
  const { isShuttingDown = () => false } = options;
  const requests = new Requests(deps, { watch, command, isShuttingDown });
  const requirement = new Requirement(deps, { watch, sentinel });
  const queue = new WorkQueue('reboot');
  const keys = sentinel === '' ? ['Request'] : ['Request', 'Sentinel'];
  const unsubscribe = watch.subscribe(() => {
    for (const key of keys) queue.add(key);
  });
  const reconcile = async (key: string): Promise<Requeue | undefined> => {
    if (key === 'Request') return requests.reconcile(signal);
    await requirement.reconcile();
    return { requeueAfterMs };
  };
  try {
    await queue.run({ workers: keys.length, reconcile, signal, log: deps.log });
  } finally {
    unsubscribe();
  }
}

type RequestOptions = Required<Pick<RebootOptions, 'watch' | 'command' | 'isShuttingDown'>>;

/**
 * Executes requests. Contract:
 *
 * 1. It acts on a request for this boot only, and only while the Node is cordoned and drained.
 * 2. Before it runs the command, it writes `RebootAnnotation.Started`, which fails if the request was withdrawn. A node whose request was withdrawn
 *    is not rebooted, and a request is not withdrawn after that.
 * 3. The command runs once for a request, unless it fails or the agent is restarted. It does not run while the host shuts down.
 * 4. Before it waits to retry a failed command, it removes `RebootAnnotation.Started`: the request can be withdrawn.
 */
class Requests {
  readonly #deps: AgentDeps;
  readonly #options: RequestOptions;
  #isDone = false;
  #failures = 0;
  /** performance.now() before which the command is not repeated. */
  #notBefore = 0;

  constructor(deps: AgentDeps, options: RequestOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  async reconcile(signal: AbortSignal): Promise<Requeue | undefined> {
    const { bootId, node: name, events, log } = this.#deps;
    const node = this.#options.watch.current();
    const step = decideReboot(node, bootId);
    // A host may survive a command that succeeded: the next request of the same boot runs it again.
    if (node !== undefined && !isRequested(node, bootId)) this.#isDone = false;
    if (this.#isDone || node === undefined || step === 'Idle') return undefined;
    const waitMs = this.#notBefore - performance.now();
    if (waitMs > 0) return { requeueAfterMs: waitMs };
    const { command, isShuttingDown } = this.#options;
    if (isShuttingDown()) return { requeueAfterMs: shutdownPollMs };
    const started = await this.#start(node);
    if (started === undefined || decideReboot(started, bootId) !== 'Reboot' || signal.aborted)
      return undefined;
    this.#record(node, { type: 'Normal', reason: 'RebootStarted', message: `Rebooting: ${command}` });
    log.warn('Reboot started', { node: name, command, bootId });
    await events.flush(flushEventsMs);
    const problem = await runCommand(command);
    if (problem === undefined) {
      this.#isDone = true;
      log.info('Reboot command succeeded', { node: name, command });
      return undefined;
    }
    // For example, the command of a restarted agent fails because the one of its predecessor is still running.
    if (isShuttingDown()) return { requeueAfterMs: shutdownPollMs };
    return this.#failed(node, problem);
  }

  /** Returns the Node with the annotation, which this or an earlier process has written; undefined if the request was withdrawn. */
  async #start(node: Node): Promise<Node | undefined> {
    const { Requested, Started } = RebootAnnotation;
    const { kube, bootId } = this.#deps;
    const operations = [
      { op: 'test', path: '/metadata/uid', value: node.metadata.uid },
      { op: 'test', path: annotationPath(Requested), value: bootId },
      { op: 'add', path: annotationPath(Started), value: bootId },
    ] as const;
    try {
      return await kube.jsonPatch(resources.nodes, { name: node.metadata.name }, operations);
    } catch (error) {
      if (isFailedTest(error) || isKubeError(error, 'NotFound')) return undefined;
      throw error;
    }
  }

  async #failed(node: Node, problem: string): Promise<Requeue> {
    const { kube, bootId, log, node: name } = this.#deps;
    const { command } = this.#options;
    const delayMs = backOffMs(this.#failures, commandBackOff);
    this.#failures += 1;
    this.#notBefore = performance.now() + delayMs;
    const message = `The reboot command (${command}) failed, and is retried: ${problem}. Check it on the node (--reboot-command of the node agent).`;
    this.#record(node, { type: 'Warning', reason: 'RebootFailed', message });
    log.warn('Reboot command failed', { node: name, command, problem });
    const path = annotationPath(RebootAnnotation.Started);
    const operations = [
      { op: 'test', path, value: bootId },
      { op: 'remove', path },
    ] as const;
    try {
      await kube.jsonPatch(resources.nodes, { name: node.metadata.name }, operations);
    } catch (error) {
      if (!isFailedTest(error) && !isKubeError(error, 'NotFound')) throw error;
    }
    return { requeueAfterMs: delayMs };
  }

  #record({ metadata: { name, uid } }: Node, event: EventContent): void {
    this.#deps.events.record({ apiVersion: 'v1', kind: 'Node', name, uid }, event);
  }
}

function annotationPath(key: string): string {
  return `/metadata/annotations/${key.replaceAll('/', '~1')}`;
}

/** Keeps the annotation `RebootAnnotation.Required` in sync with the sentinel file. */
class Requirement {
  readonly #deps: AgentDeps;
  readonly #options: Required<Pick<RebootOptions, 'watch' | 'sentinel'>>;
  /** The value that a user has written. */
  #foreign: string | undefined;

  constructor(deps: AgentDeps, options: Required<Pick<RebootOptions, 'watch' | 'sentinel'>>) {
    this.#deps = deps;
    this.#options = options;
  }

  async reconcile(): Promise<void> {
    const { node: name, log } = this.#deps;
    const reason = await readSentinel(this.#options.sentinel);
    const node = this.#options.watch.current();
    if (node === undefined) return;
    const step = decideRequirement(node, { reason, foreign: this.#foreign });
    if (step.kind === 'None') return;
    const applied = await this.#apply(node, step.kind === 'Require' ? step.reason : undefined);
    const value = (applied ?? node).metadata.annotations?.[RebootAnnotation.Required];
    this.#foreign = value === reason ? undefined : value;
    if (value === reason) log.info('Reboot requirement changed', { node: name, reason });
  }

  /** Applies as the only owner of the annotation. Undefined if a user owns another value, or the Node was replaced. */
  async #apply({ metadata: { name, uid } }: Node, reason: string | undefined): Promise<Node | undefined> {
    const annotations = reason === undefined ? {} : { [RebootAnnotation.Required]: reason };
    const object = { metadata: { name, uid, annotations } };
    try {
      return await this.#deps.kube.apply(resources.nodes, object as Node, {
        fieldManager: REBOOT_REQUIRED_MANAGER,
      });
    } catch (error) {
      if (isKubeError(error, 'Conflict', 'NotFound')) return undefined;
      throw error;
    }
  }
}
