import type { Node, Pod } from '../../api/core.ts';
import { ElectionLease, READINESS_TAINT } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { MaintenanceSummaryInput } from '../../domain/maintenance/summary.ts';
import { isCompleted, stageOf } from '../../domain/common/stage.ts';
import type { Managed } from '../../domain/common/managedFields.ts';
import { compareNames } from '../../domain/common/names.ts';
import { namedNodes, selectsNode } from '../../domain/common/nodeSelector.ts';
import { type NodeServiceInput, outOfServiceReasons } from '../../domain/maintenance/backInService.ts';
import { evacuationsByPod } from '../../domain/evacuation/evacuation.ts';
import { type RequestedEviction, requestedEviction } from '../../domain/evacuation/evictionRequest.ts';
import { mayHaveRequests } from '../../domain/evacuation/serving.ts';
import { leaderlessSince } from '../../domain/leases/processSummary.ts';
import { hasTaint } from '../../domain/common/toleration.ts';
import { sleep } from '../../kube/abort.ts';
import type { Kube } from '../../kube/client.ts';
import { EvictionInformers } from '../../kube/evictionInformers.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog as log } from '../../kube/log.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { ConnectionStatus } from '../terminal/connectionStatus.ts';
import { permittedToRead } from './maintenances.ts';

/** Up to this number of nodes, pods are watched per node; beyond it, all pods of the cluster are watched. */
const maxNodeWatches = 50;
const connectionCheckMs = 1_000;
const leaderCheckMs = 5_000;
/** Maximum number of maintenances that are watched without being named. */
const maxMaintenances = 50;
const byNode = 'node';

export interface WatchScope {
  /** Names of maintenances. Default: all whose nodes are not all back in service. */
  readonly names?: readonly string[] | undefined;
}

/**
 * Watches maintenances, their nodes and pods until the signal aborts. Resolves after the initial lists, and reports connection
 * errors to `connection` until then; rejects with a remedy if permissions are missing.
 */
export async function watchMaintenances(
  kube: Kube,
  scope: WatchScope,
  { signal, connection }: { signal: AbortSignal; connection: ConnectionStatus },
): Promise<Watching> {
  const kinds = [
    resources.nodeMaintenances,
    resources.nodes,
    resources.nodeReadinesses,
    resources.nodeReadinessPolicies,
    resources.evacuations,
    resources.pods,
  ];
  // Informers retry forever. These empty lists check the permissions first.
  const emptyList = { fieldSelector: 'metadata.name=-', signal };
  await permittedToRead(Promise.all(kinds.map((kind: Resource) => kube.list(kind, emptyList))));
  const watching = new Watching(kube, scope, signal);
  const synced = watching.synced().then(() => true);
  const tick = () => watching.sleep(connectionCheckMs).then(() => false);
  while (!(await Promise.race([synced, tick()]))) connection.report(watching.lastError);
  return watching;
}

export class Watching {
  readonly #kube: Kube;
  #scope: WatchScope;
  /** Nodes that each maintenance has had. */
  readonly #pastNodes = new Map<string, Set<string>>();
  readonly #signal: AbortSignal;
  readonly #informers;
  /** Since when no worker runs the controllers; undefined also while that is unknown. */
  #leaderlessSince: Date | undefined;
  readonly #leaderObserved: Promise<void>;
  /** Only maintenances that may have EvictionRequests need them. */
  readonly #lifecycle: EvictionInformers;
  /** Keyed by node; '' watches all nodes. */
  readonly #pods = new Map<string, Informer<Pod, RawPod>>();
  #change = Promise.withResolvers<void>();

  constructor(kube: Kube, scope: WatchScope, signal: AbortSignal) {
    this.#kube = kube;
    this.#scope = scope;
    this.#signal = signal;
    this.#informers = {
      maintenances: new Informer({ kube, resource: resources.nodeMaintenances, log }),
      nodes: new Informer<Node>({ kube, resource: resources.nodes, transform: trimNode, log }),
      readinesses: new Informer({ kube, resource: resources.nodeReadinesses, log }),
      policies: new Informer({ kube, resource: resources.nodeReadinessPolicies, log }),
      evacuations: new Informer({ kube, resource: resources.evacuations, log }),
    };
    this.#leaderObserved = this.#observeLeader();
    void this.#followLeader();
    this.#lifecycle = new EvictionInformers({ kube, log });
    this.#lifecycle.start(signal);
    this.#lifecycle.requests.subscribe(() => this.#notify());
    this.#lifecycle.evictions.subscribe(() => this.#notify());
    this.#informers.maintenances.subscribe(({ object }) => {
      if (mayHaveRequests(object)) this.#lifecycle.use();
    });
    for (const informer of Object.values(this.#informers)) {
      informer.subscribe(() => this.#notify());
      informer.start(signal);
    }
  }

  async synced(): Promise<void> {
    await Promise.all(Object.values(this.#informers).map((informer) => informer.synced(this.#signal)));
    await Promise.all([this.#lifecycle.synced(this.#signal), this.#leaderObserved]);
    this.#ensurePodWatches();
    await Promise.all([...this.#pods.values()].map((informer) => informer.synced(this.#signal)));
  }

  /** Resolves at the next change of anything. */
  changed(): Promise<void> {
    return this.#change.promise;
  }

  /** Resolves after the time, or earlier when the signal aborts. */
  async sleep(ms: number): Promise<void> {
    await sleep(ms, this.#signal);
  }

  /** The current connection error, or undefined while connected. */
  get lastError(): string | undefined {
    const all = [...Object.values(this.#informers), ...this.#pods.values()];
    return all.map(({ lastError }) => lastError).find((error) => error !== undefined);
  }

  /** Restricts the scope to the current maintenances unless names were given. Returns the number of those beyond the limit. */
  pinNames(): number {
    if (this.#scope.names !== undefined) return 0;
    const names = this.maintenances().map(({ metadata }) => metadata.name);
    this.#scope = { names: names.slice(0, maxMaintenances) };
    return Math.max(0, names.length - maxMaintenances);
  }

  /** Remembers the nodes of a maintenance because its status drops nodes that no longer exist. */
  rememberNodes({ metadata: { name }, spec, status }: NodeMaintenance): void {
    const recorded = status?.nodeStatuses.map(({ nodeRef }) => nodeRef.name) ?? [];
    const known = this.#pastNodes.get(name) ?? [];
    this.#pastNodes.set(name, new Set([...known, ...recorded, ...namedNodes(spec.nodeSelector)]));
  }

  /** Returns the maintenances in scope, sorted by name. */
  maintenances(): NodeMaintenance[] {
    const { names } = this.#scope;
    const all = this.#informers.maintenances.list();
    const latestByNode = names === undefined ? latestMaintenances(all) : new Map<string, NodeMaintenance>();
    return all
      .filter((one) => names?.includes(one.metadata.name) ?? !this.#isFinished(one, latestByNode))
      .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  }

  /** Decides by the Node objects, without pods. A node counts for its latest maintenance only. */
  #isFinished(maintenance: NodeMaintenance, latestByNode: ReadonlyMap<string, NodeMaintenance>): boolean {
    if (stageOf(maintenance) !== 'Complete' || !isCompleted(maintenance)) return false;
    const noContext = { maintenances: [], policies: [] };
    return this.#nodesOf(maintenance)
      .filter(({ metadata }) => (latestByNode.get(metadata.name) ?? maintenance) === maintenance)
      .map((node) => ({ ...this.#nodeInput(node), pods: [], readiness: undefined }))
      .every((input) => outOfServiceReasons(input, maintenance, noContext).length === 0);
  }

  maintenance(name: string): NodeMaintenance | undefined {
    return this.#informers.maintenances.get(name);
  }

  /** `maintenance` may be deleted already: the input then describes its previous nodes. */
  summaryInputOf(maintenance: NodeMaintenance): MaintenanceSummaryInput {
    this.#ensurePodWatches();
    const { policies, evacuations } = this.#informers;
    const nodes = this.#nodesOf(maintenance).map((node) => this.#nodeInput(node));
    const existing = new Set(nodes.map(({ node }) => node.metadata.name));
    const pastNames = [...(this.#pastNodes.get(maintenance.metadata.name) ?? [])];
    const pods = nodes.flatMap((one) => one.pods);
    return {
      maintenance,
      maintenances: this.#informers.maintenances.list(),
      policies: policies.list(),
      nodes,
      missing: pastNames.filter((name) => !existing.has(name)).toSorted(compareNames),
      evacuations: evacuationsByPod(pods, evacuations.list()),
      requests: this.#requestsOf(pods),
      now: this.#kube.now(),
      leaderlessSince: this.#leaderlessSince,
    };
  }

  /** Pod UID -> the EvictionRequest of node maintenance. */
  #requestsOf(pods: readonly Pod[]): Map<string, RequestedEviction> {
    const lifecycle = this.#lifecycle;
    const requested = pods.map(({ metadata }): [string, RequestedEviction] => [
      metadata.uid ?? '',
      requestedEviction(lifecycle.requestsOf(metadata), lifecycle.evictionsOf(metadata)),
    ]);
    return new Map(requested.filter(([, { request }]) => request !== undefined));
  }

  #nodeInput(node: Node): NodeServiceInput {
    const { name } = node.metadata;
    return {
      node,
      pods: (this.#pods.get(name) ?? this.#pods.get(''))?.byIndex(byNode, name) ?? [],
      readiness: this.#informers.readinesses.get(name),
      isTainted: hasTaint(node, READINESS_TAINT),
    };
  }

  /** Returns the selected nodes; in Complete the recorded ones because other nodes may match the selector since. */
  #nodesOf(maintenance: NodeMaintenance): Node[] {
    const recorded = new Set(maintenance.status?.nodeStatuses.map(({ nodeRef }) => nodeRef.name));
    const past = this.#pastNodes.get(maintenance.metadata.name);
    const isComplete = stageOf(maintenance) === 'Complete' && recorded.size > 0;
    return this.#informers.nodes
      .list()
      .filter(
        (node) =>
          recorded.has(node.metadata.name) ||
          past?.has(node.metadata.name) === true ||
          (!isComplete && selectsNode(maintenance.spec.nodeSelector, node)),
      );
  }

  /** Starts the watches of pods on the nodes of all maintenances in scope. */
  #ensurePodWatches(): void {
    if (this.#pods.has('')) return;
    const nodes = this.maintenances().flatMap((one) => this.#nodesOf(one));
    const names = new Set(nodes.map(({ metadata }) => metadata.name));
    if (names.size > maxNodeWatches) return this.#watchPods('');
    for (const name of names) if (!this.#pods.has(name)) this.#watchPods(name);
  }

  #watchPods(node: string): void {
    const fieldSelector = node === '' ? undefined : `spec.nodeName=${node}`;
    const indexes = { [byNode]: ({ spec }: Pod) => (spec.nodeName === undefined ? [] : [spec.nodeName]) };
    const pods = new Informer<Pod, RawPod>({
      kube: this.#kube,
      resource: resources.pods,
      transform: trimPod,
      fieldSelector,
      indexes,
      log,
    });
    this.#pods.set(node, pods);
    pods.subscribe(() => this.#notify());
    pods.start(this.#signal);
  }

  async #followLeader(): Promise<void> {
    await this.#leaderObserved;
    while (!this.#signal.aborted) {
      await this.sleep(leaderCheckMs);
      await this.#observeLeader();
    }
  }

  /** Reads the Lease, in whatever namespace the installation is. Without an answer, or without the permission, nothing is known. */
  async #observeLeader(): Promise<void> {
    const fieldSelector = `metadata.name=${ElectionLease.Controllers}`;
    const signal = AbortSignal.any([this.#signal, AbortSignal.timeout(leaderCheckMs)]);
    const read = this.#kube.list(resources.leases, { fieldSelector, signal });
    this.#leaderlessSince = await read.then(
      ({ items }) => leaderlessSince(items, this.#kube.now()),
      () => undefined,
    );
  }

  #notify(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers<void>();
    resolve();
  }
}

/** Removes images and addresses, and the managed fields of nodes that are not cordoned: they say who has cordoned one. */
function trimNode({ apiVersion, kind, metadata, spec, status }: Node & Managed): Node {
  const { name, uid, resourceVersion, labels } = metadata;
  const managedFields = spec?.unschedulable === true ? metadata.managedFields : undefined;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: JSON.parse(
      JSON.stringify({ name, uid, resourceVersion, labels, managedFields }),
    ) as Node['metadata'],
    spec: spec ?? {},
    status: {
      conditions: status?.conditions ?? [],
      ...(status?.nodeInfo?.bootID !== undefined && { nodeInfo: { bootID: status.nodeInfo.bootID } }),
    },
  };
}

/** Returns the latest maintenance of each node. */
function latestMaintenances(all: readonly NodeMaintenance[]): Map<string, NodeMaintenance> {
  const age = ({ metadata }: NodeMaintenance) => metadata.creationTimestamp ?? '';
  const isComplete = (one: NodeMaintenance) => stageOf(one) === 'Complete';
  const oldestFirst = all.toSorted(
    (a, b) => compareNames(age(a), age(b)) || Number(isComplete(b)) - Number(isComplete(a)),
  );
  return new Map(
    oldestFirst.flatMap((one) =>
      (one.status?.nodeStatuses ?? []).map(({ nodeRef }) => [nodeRef.name, one] as const),
    ),
  );
}
