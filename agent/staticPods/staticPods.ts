import { watch } from 'node:fs';
import type { Node } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { EVACUATION_NODE_LABEL } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { canonicalJson } from '../../domain/common/canonicalJson.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import {
  controlPlaneOf,
  decideStaticPods,
  decideWithoutNode,
  type Report,
  type StaticPodDecision,
} from '../../domain/staticPods/decide.ts';
import { podKey } from '../../domain/staticPods/manifest.ts';
import { sleep } from '../../kube/abort.ts';
import { backOffMs } from '../../kube/backOff.ts';
import { errorMessage, isKubeError } from '../../kube/errors.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import type { AgentDeps } from '../deps.ts';
import type { NodeWatch } from '../nodeWatch.ts';
import { type FolderPaths, ManifestFolders, type Manifests } from './folders.ts';
import { Reports } from './reports.ts';
import { type NodeEvent, NodeEvents } from './nodeEvents.ts';

export interface StaticPodOptions extends FolderPaths {
  /** Static pods of the control plane are put back when no apiserver has answered for this time. */
  readonly controlPlaneReturnAfterSeconds: number;
  readonly podLogDirectory: string;
}

interface WatchedOptions extends StaticPodOptions {
  readonly watch: NodeWatch;
}

/** State that metrics and the identity Lease of the agent publish. */
export class StaticPodState {
  /** Time since the apiserver last answered, while manifests are held. */
  silentSeconds = 0;
  #held = 0;
  #canHold: boolean | undefined;
  #change = new AbortController();

  /** Number of manifests that are to be put back. */
  get held(): number {
    return this.#held;
  }

  set held(held: number) {
    if (held === this.#held) return;
    this.#held = held;
    this.#changed();
  }

  /** Whether static pods can be stopped: their folder was found, and read. Undefined until it was looked for. */
  get canHold(): boolean | undefined {
    return this.#canHold;
  }

  set canHold(canHold: boolean) {
    if (canHold === this.#canHold) return;
    this.#canHold = canHold;
    this.#changed();
  }

  /** Aborts when `held` or `canHold` changes next. */
  get change(): AbortSignal {
    return this.#change.signal;
  }

  #changed(): void {
    this.#change.abort();
    this.#change = new AbortController();
  }
}

const folderRetryMs = 5_000;
const failureRetryMs = 5_000;
/** Interval while a manifest is held, or an Evacuation asks for one. */
const busyMs = 10_000;
/** Changes wake the loop; this is for what no watch shows. */
const idleMs = 300_000;
/** Interval in which the maintenances are read again while manifests are held. */
const maintenancesMs = 30_000;

/** Back-off while an Evacuation requests a pod that no maintenance targets yet. */
const earlyBackOff = { firstMs: 1_000, capMs: maintenancesMs };
/** Number of such passes before the Evacuation reports it. */
const unreportedEarly = 2;

/** The conditions of a Node under maintenance; the worker writes them from the stage Cordon on. */
const maintenanceConditions = ['MaintenanceInProgress', 'DrainInProgress', 'Drained'];

/**
 * Stops and starts the static pods of the node as its maintenances and Evacuations ask, by moving their manifests, until the signal aborts. Without a
 * folder of static pods, it waits for one. Rejects with an Error that names the setting if manifests cannot be held.
 */
export async function runStaticPods(
  deps: AgentDeps,
  options: WatchedOptions,
  state: StaticPodState,
  signal: AbortSignal,
): Promise<void> {
  const folders = new ManifestFolders(options, deps.log);
  for (let isReported = false; !(await folders.prepare()); isReported = true) {
    if (!isReported)
      deps.log.info('Static pods are not managed until their folder exists', { path: options.staticPodPath });
    state.canHold = false;
    await sleep(folderRetryMs, signal);
    if (signal.aborted) return;
  }
  await new StaticPods(deps, { folders, options, state }).run(signal);
}

interface Parts {
  readonly folders: ManifestFolders;
  readonly options: WatchedOptions;
  readonly state: StaticPodState;
}

/**
 * Contract:
 *
 * 1. It decides each time from what the folders contain and what the apiserver says; nothing is remembered elsewhere.
 * 2. Without an answer of the apiserver it changes nothing, with one exception: the control plane is put back after a time. A deleted Node
 *    counts as an answer; a Node that was never seen and a rejected token do not.
 * 3. It watches its Node, and Evacuations only while the Node is in maintenance.
 */
class StaticPods {
  readonly #deps: AgentDeps;
  readonly #folders: ManifestFolders;
  readonly #options: WatchedOptions;
  readonly #state: StaticPodState;
  readonly #reports: Reports;
  readonly #events: NodeEvents;
  #evacuations: { readonly informer: Informer<Evacuation>; readonly stop: AbortController } | undefined;
  #wake = Promise.withResolvers<void>();
  #maintenances: { readonly items: readonly NodeMaintenance[]; readonly readAtMs: number } | undefined;
  /** Time of the last answer of an apiserver, by the monotonic clock. The start of the agent counts as one. */
  #answeredAtMs = performance.now();
  /** Number of passes in a row in which an Evacuation asked for a pod that no maintenance targets. */
  #early = 0;
  #failure: string | undefined;
  /** Held files that could not be put back, and were reported. */
  readonly #notReturned = new Set<string>();
  #isNodeDeleted = false;

  constructor(deps: AgentDeps, { folders, options, state }: Parts) {
    this.#deps = deps;
    this.#folders = folders;
    this.#options = options;
    this.#state = state;
    this.#reports = new Reports(deps, options);
    this.#events = new NodeEvents(deps);
  }

  async run(signal: AbortSignal): Promise<void> {
    let last: Readonly<Node> | undefined;
    const unsubscribe = this.#options.watch.subscribe((node) => {
      if (node === undefined || last === undefined || !isSameNode(node, last)) this.#changed();
      last = node;
      this.#isNodeDeleted = node === undefined;
    });
    this.#watchFolder(signal);
    while (!signal.aborted) {
      const waitMs = await this.#reconcile(signal);
      const pause = new AbortController();
      const onAbort = () => pause.abort();
      signal.addEventListener('abort', onAbort, { once: true });
      if (!signal.aborted) await Promise.race([sleep(waitMs, pause.signal), this.#wake.promise]);
      signal.removeEventListener('abort', onAbort);
      pause.abort();
      this.#wake = Promise.withResolvers<void>();
    }
    unsubscribe();
    this.#evacuations?.stop.abort();
  }

  /** Watches the folder, so that a new manifest of a held pod is moved away before the kubelet has started much of it. Otherwise the next pass does. */
  #watchFolder(signal: AbortSignal): void {
    const watcher = watch(this.#options.staticPodPath, { persistent: false, signal });
    watcher.on('change', () => this.#wake.resolve());
    watcher.on('error', (error) => {
      this.#deps.log.warn('Folder of static pods is not watched', { reason: errorMessage(error) });
    });
  }

  #changed(): void {
    this.#maintenances = undefined;
    this.#wake.resolve();
  }

  /** Returns the time until it is called again without a change. */
  async #reconcile(signal: AbortSignal): Promise<number> {
    try {
      const manifests = await this.#read();
      const exempt = await this.#folders.exempt();
      this.#report(manifests);
      const node = this.#options.watch.current();
      const inMaintenance = maintenanceConditions.some((type) => isTrue(node?.status?.conditions, type));
      this.#watchEvacuations(inMaintenance, signal);
      if (!inMaintenance && manifests.held.length === 0 && exempt.size === 0) {
        this.#answeredAtMs = performance.now();
        return idleMs;
      }
      if (this.#isNodeDeleted) {
        // Its token has ended with the Node: it can write no Events.
        this.#events.hold();
        return await this.#act(decideWithoutNode(manifests), exempt, signal);
      }
      const decision = await this.#decide(manifests, exempt, signal);
      if (decision === undefined) {
        this.#events.hold();
        return await this.#waitForAnswer(manifests);
      }
      this.#answeredAtMs = performance.now();
      this.#events.flush(node);
      return await this.#act(decision, exempt, signal);
    } catch (error) {
      if (!signal.aborted) this.#fail(errorMessage(error));
      return failureRetryMs;
    }
  }

  async #read(): Promise<Manifests> {
    try {
      return await this.#folders.read();
    } catch (error) {
      this.#state.canHold = false;
      throw error;
    }
  }

  #report({ held }: Manifests): void {
    this.#state.held = held.length;
    this.#state.canHold = true;
    this.#state.silentSeconds =
      held.length === 0 ? 0 : Math.round((performance.now() - this.#answeredAtMs) / 1_000);
  }

  /** Returns undefined while the apiserver has not answered enough. */
  async #decide(
    { present, held }: Manifests,
    exempt: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<StaticPodDecision | undefined> {
    const node = this.#options.watch.current();
    if (node === undefined) return undefined;
    try {
      const maintenances = await this.#currentMaintenances(signal);
      const evacuations = this.#evacuations?.informer.list() ?? [];
      this.#failure = undefined;
      return decideStaticPods({ node, present, held, evacuations, maintenances, exempt });
    } catch (error) {
      if (!signal.aborted) this.#fail(errorMessage(error));
      return undefined;
    }
  }

  async #currentMaintenances(signal: AbortSignal): Promise<readonly NodeMaintenance[]> {
    const known = this.#maintenances;
    if (known !== undefined && performance.now() - known.readAtMs < maintenancesMs) return known.items;
    const items = await this.#listMaintenances(signal);
    this.#maintenances = { items, readAtMs: performance.now() };
    return items;
  }

  async #listMaintenances(signal: AbortSignal): Promise<readonly NodeMaintenance[]> {
    try {
      return (await this.#deps.kube.list(resources.nodeMaintenances, { signal, timeoutMs: 10_000 })).items;
    } catch (error) {
      // Node maintenance was removed from the cluster: nothing drains the node.
      if (isKubeError(error, 'NotFound')) return [];
      throw error;
    }
  }

  /** Puts the control plane back when no apiserver has answered for long: the apiserver may be what is held. */
  async #waitForAnswer({ held }: Manifests): Promise<number> {
    const limitMs = this.#options.controlPlaneReturnAfterSeconds * 1_000;
    const silentMs = performance.now() - this.#answeredAtMs;
    const controlPlane = controlPlaneOf(held);
    if (controlPlane.length === 0) return failureRetryMs;
    if (silentMs < limitMs) return Math.min(failureRetryMs, limitMs - silentMs);
    for (const { file, manifest } of controlPlane) {
      if (manifest === undefined) continue;
      const pod = podKey(manifest);
      await this.#folders.addExempt(pod);
      if (!(await this.#folders.putBack(file))) await this.#setAside(file);
      this.#announce({
        type: 'Warning',
        reason: 'StaticPodReturned',
        message: `Static pod ${pod} was put back because no apiserver has answered for ${this.#options.controlPlaneReturnAfterSeconds} s. It keeps running until the drain ends.`,
      });
    }
    return failureRetryMs;
  }

  async #act(decision: StaticPodDecision, exempt: ReadonlySet<string>, signal: AbortSignal): Promise<number> {
    const { setAside, hold, putBack, reports, isDraining } = decision;
    for (const { file } of setAside) await this.#setAside(file);
    for (const { manifest, maintenance } of hold) {
      // Before the manifest is moved: afterwards the processes may already be gone.
      await this.#reports.observe(manifest);
      if (!(await this.#folders.hold(manifest.file))) continue;
      this.#announce({
        type: 'Normal',
        reason: 'StaticPodHeld',
        message: `Static pod ${podKey(manifest)} is stopped for NodeMaintenance ${maintenance}: its manifest ${manifest.file} is in ${this.#options.holdDirectory}.`,
      });
    }
    for (const { file, manifest } of putBack) {
      if (!(await this.#folders.putBack(file))) {
        this.#reportNotReturned(file);
        continue;
      }
      this.#notReturned.delete(file);
      const pod = manifest === undefined ? '' : ` of static pod ${podKey(manifest)}`;
      this.#announce({
        type: 'Normal',
        reason: 'StaticPodReturned',
        message: `Manifest ${file}${pod} was put back: ${this.#isNodeDeleted ? 'the Node was deleted' : 'no NodeMaintenance drains the node'}.`,
      });
    }
    if (!isDraining) for (const pod of exempt) await this.#folders.removeExempt(pod);
    // An Evacuation may arrive before the status that targets its pod: it is reported only if it persists.
    const isEarly = reports.some(isNotTargeted);
    this.#early = isEarly ? this.#early + 1 : 0;
    const due = this.#early > unreportedEarly ? reports : reports.filter((report) => !isNotTargeted(report));
    await this.#reports.write(due, signal);
    const { held } = await this.#folders.read();
    this.#state.held = held.length;
    if (isEarly) {
      this.#maintenances = undefined;
      return backOffMs(this.#early - 1, earlyBackOff);
    }
    return held.length > 0 || reports.length > 0 ? busyMs : idleMs;
  }

  async #setAside(file: string): Promise<void> {
    const path = await this.#folders.setAside(file);
    this.#announce({
      type: 'Warning',
      reason: 'StaticPodSetAside',
      message: `Manifest ${file} was held when ${this.#options.staticPodPath} got a newer one of the same file or pod. It is kept as ${path}, and not put back.`,
    });
  }

  /** A newer manifest of that name would have been set aside: the kubelet's folder has something else there. */
  #reportNotReturned(file: string): void {
    if (this.#notReturned.has(file)) return;
    this.#notReturned.add(file);
    this.#announce({
      type: 'Warning',
      reason: 'StaticPodNotReturned',
      message: `Manifest ${file} cannot be put back: ${this.#options.staticPodPath} has a file of that name that is no manifest. Remove it, or correct it.`,
    });
  }

  #announce(event: NodeEvent): void {
    const { node, log } = this.#deps;
    const { type, ...fields } = event;
    log[type === 'Normal' ? 'info' : 'warn']('Manifest of a static pod moved', { node, ...fields });
    this.#events.record(this.#options.watch.current(), event);
  }

  /** Logs each reason once, until it changes. */
  #fail(reason: string): void {
    if (this.#failure !== reason)
      this.#deps.log.warn('Static pods could not be reconciled, retrying', { node: this.#deps.node, reason });
    this.#failure = reason;
  }

  #watchEvacuations(isWanted: boolean, signal: AbortSignal): void {
    if (isWanted === (this.#evacuations !== undefined)) return;
    this.#evacuations?.stop.abort();
    this.#evacuations = undefined;
    if (!isWanted) return;
    const { kube, node, log } = this.#deps;
    const labelSelector = `${EVACUATION_NODE_LABEL}=${node}`;
    const informer = new Informer({ kube, resource: resources.evacuations, labelSelector, log });
    const stop = new AbortController();
    informer.subscribe((change) => {
      const isReport = change.type === 'Updated' && isSameRequest(change.object, change.previous);
      if (!isReport) this.#changed();
    });
    signal.addEventListener('abort', () => stop.abort(), { once: true, signal: stop.signal });
    informer.start(stop.signal);
    this.#evacuations = { informer, stop };
  }
}

/** Reports whether nothing changed from which the agent decides: the kubelet writes its Node all the time. */
function isSameNode(a: Readonly<Node>, b: Readonly<Node>): boolean {
  const relevant = ({ metadata, status }: Readonly<Node>) =>
    JSON.stringify([
      metadata.uid,
      canonicalJson(metadata.labels ?? {}),
      maintenanceConditions.map((type) => status?.conditions?.find((one) => one.type === type)),
    ]);
  return relevant(a) === relevant(b);
}

/** Reports whether nothing changed but what evacuators report. */
function isSameRequest(a: Readonly<Evacuation>, b: Readonly<Evacuation>): boolean {
  return (
    a.metadata.deletionTimestamp === b.metadata.deletionTimestamp &&
    a.status?.activeEvacuatorClass === b.status?.activeEvacuatorClass
  );
}

function isNotTargeted(report: Report): boolean {
  return report.kind === 'Left' && report.reason === 'NotTargeted';
}
