import type { Node, Pod } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import { READINESS_TAINT } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { isGivenBack, type MaintenanceSight } from '../domain/maintenanceSummary.ts';
import { stageOf } from '../domain/stage.ts';
import { compareNames } from '../domain/names.ts';
import { namedNodes, selectsNode } from '../domain/nodeSelector.ts';
import { type NodeSight, obstaclesToService } from '../domain/nodeService.ts';
import { hasTaint } from '../domain/toleration.ts';
import { rest } from '../kube/abort.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import { silentLog as log } from '../kube/log.ts';
import { type RawPod, type Resource, resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import type { ContactLines } from './contact.ts';
import { permittedToLook } from './maintenances.ts';

/** So many nodes have a watch of their own pods; with more of them all pods of the cluster are watched. */
const mostNodeWatches = 50;
/** Milliseconds. */
const contactCheckedEvery = 1_000;
/** More of them at once nobody can follow. */
const mostMaintenances = 50;
const byNode = 'node';

export interface Interest {
  /** Names; without it all that are not over: whose nodes are not all back. */
  readonly names?: readonly string[] | undefined;
}

/**
 * Follows maintenances and what happens on their nodes, until the signal aborts. Resolves when everything was read once, and tells
 * `contact` meanwhile why that takes long; rejects with what may not be read, and the remedy.
 */
export async function watchMaintenances(
  kube: Kube,
  interest: Interest,
  { signal, contact }: { signal: AbortSignal; contact: ContactLines },
): Promise<Watching> {
  const kinds = [
    resources.nodeMaintenances,
    resources.nodes,
    resources.nodeReadinesses,
    resources.nodeReadinessPolicies,
    resources.evacuations,
    resources.pods,
  ];
  // Informers try for ever. Whether they may read at all is asked by lists of nothing.
  const nothing = { fieldSelector: 'metadata.name=-', signal };
  await permittedToLook(Promise.all(kinds.map((kind: Resource) => kube.list(kind, nothing))));
  const watching = new Watching(kube, interest, signal);
  const synced = watching.synced().then(() => true);
  const tick = () => watching.rest(contactCheckedEvery).then(() => false);
  while (!(await Promise.race([synced, tick()]))) contact.tell(watching.lostBecause);
  return watching;
}

export class Watching {
  readonly #kube: Kube;
  #interest: Interest;
  /** By maintenance: names of nodes that it is known to have had. */
  readonly #had = new Map<string, Set<string>>();
  readonly #signal: AbortSignal;
  readonly #informers;
  /** By node, or '' for all of them. */
  readonly #pods = new Map<string, Informer<Pod, RawPod>>();
  #change = Promise.withResolvers<void>();

  constructor(kube: Kube, interest: Interest, signal: AbortSignal) {
    this.#kube = kube;
    this.#interest = interest;
    this.#signal = signal;
    this.#informers = {
      maintenances: new Informer({ kube, resource: resources.nodeMaintenances, log }),
      nodes: new Informer<Node>({ kube, resource: resources.nodes, transform: slimNode, log }),
      readinesses: new Informer({ kube, resource: resources.nodeReadinesses, log }),
      policies: new Informer({ kube, resource: resources.nodeReadinessPolicies, log }),
      evacuations: new Informer({ kube, resource: resources.evacuations, log }),
    };
    for (const informer of Object.values(this.#informers)) {
      informer.subscribe(() => this.#tell());
      informer.start(signal);
    }
  }

  async synced(): Promise<void> {
    await Promise.all(Object.values(this.#informers).map((informer) => informer.synced(this.#signal)));
    this.#followPods();
    await Promise.all([...this.#pods.values()].map((informer) => informer.synced(this.#signal)));
  }

  /** Resolves at the next change of anything. */
  changed(): Promise<void> {
    return this.#change.promise;
  }

  /** Milliseconds; ends early when nobody watches any more. */
  async rest(ms: number): Promise<void> {
    await rest(ms, this.#signal);
  }

  /** Why nothing new is to be seen, in the apiserver's words. */
  get lostBecause(): string | undefined {
    const all = [...Object.values(this.#informers), ...this.#pods.values()];
    return all.map(({ lostBecause }) => lostBecause).find((because) => because !== undefined);
  }

  /** Where none were named, follows from now on those of this moment to their end. Returns how many are too many for that. */
  settle(): number {
    if (this.#interest.names !== undefined) return 0;
    const names = this.maintenances().map(({ metadata }) => metadata.name);
    this.#interest = { names: names.slice(0, mostMaintenances) };
    return Math.max(0, names.length - mostMaintenances);
  }

  /** Keeps in mind which nodes a maintenance has, because its record loses those that do not exist. */
  remember({ metadata: { name }, spec, status }: NodeMaintenance): void {
    const recorded = status?.nodeStatuses.map(({ nodeRef }) => nodeRef.name) ?? [];
    const known = this.#had.get(name) ?? [];
    this.#had.set(name, new Set([...known, ...recorded, ...namedNodes(spec.nodeSelector)]));
  }

  /** Those of interest, by name. */
  maintenances(): NodeMaintenance[] {
    const { names } = this.#interest;
    const all = this.#informers.maintenances.list();
    const lastOf = names === undefined ? lastMaintenances(all) : new Map<string, NodeMaintenance>();
    return all
      .filter((one) => names?.includes(one.metadata.name) ?? !this.#isOver(one, lastOf))
      .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name));
  }

  /** By what nodes say themselves, without their pods; a node is of interest to its last maintenance only. */
  #isOver(maintenance: NodeMaintenance, lastOf: ReadonlyMap<string, NodeMaintenance>): boolean {
    if (stageOf(maintenance) !== 'Complete' || !isGivenBack(maintenance)) return false;
    const nobody = { maintenances: [], policies: [] };
    return this.#nodesOf(maintenance)
      .filter(({ metadata }) => (lastOf.get(metadata.name) ?? maintenance) === maintenance)
      .map((node) => ({ ...this.#nodeSight(node), pods: [], readiness: undefined }))
      .every((seen) => obstaclesToService(seen, maintenance, nobody).length === 0);
  }

  maintenance(name: string): NodeMaintenance | undefined {
    return this.#informers.maintenances.get(name);
  }

  /** `maintenance` may be one that is no more, to see what became of its nodes. */
  sightOf(maintenance: NodeMaintenance): MaintenanceSight {
    this.#followPods();
    const { policies, evacuations } = this.#informers;
    const nodes = this.#nodesOf(maintenance);
    const existing = new Set(nodes.map(({ metadata }) => metadata.name));
    const had = [...(this.#had.get(maintenance.metadata.name) ?? [])];
    const byPod = evacuations.list().map((one): [string, Evacuation] => [one.spec.podRef.uid, one]);
    return {
      maintenance,
      maintenances: this.#informers.maintenances.list(),
      policies: policies.list(),
      nodes: nodes.map((node) => this.#nodeSight(node)),
      missing: had.filter((name) => !existing.has(name)).toSorted(compareNames),
      evacuations: new Map(byPod),
      now: this.#kube.now(),
    };
  }

  #nodeSight(node: Node): NodeSight {
    const { name } = node.metadata;
    return {
      node,
      pods: (this.#pods.get(name) ?? this.#pods.get(''))?.byIndex(byNode, name) ?? [],
      readiness: this.#informers.readinesses.get(name),
      isTainted: hasTaint(node, READINESS_TAINT),
    };
  }

  /** Those that it selects; in Complete those that it has had, for others may have come to match since. */
  #nodesOf(maintenance: NodeMaintenance): Node[] {
    const recorded = new Set(maintenance.status?.nodeStatuses.map(({ nodeRef }) => nodeRef.name));
    const had = this.#had.get(maintenance.metadata.name);
    const isOver = stageOf(maintenance) === 'Complete' && recorded.size > 0;
    return this.#informers.nodes
      .list()
      .filter(
        (node) =>
          recorded.has(node.metadata.name) ||
          had?.has(node.metadata.name) === true ||
          (!isOver && selectsNode(maintenance.spec.nodeSelector, node)),
      );
  }

  /** Pods are watched on the nodes of maintenances, and not longer than these are there. */
  #followPods(): void {
    if (this.#pods.has('')) return;
    const nodes = this.maintenances().flatMap((one) => this.#nodesOf(one));
    const names = new Set(nodes.map(({ metadata }) => metadata.name));
    if (names.size > mostNodeWatches) return this.#watchPods('');
    for (const name of names) if (!this.#pods.has(name)) this.#watchPods(name);
  }

  #watchPods(node: string): void {
    const fieldSelector = node === '' ? undefined : `spec.nodeName=${node}`;
    const indexes = { [byNode]: ({ spec }: Pod) => (spec.nodeName === undefined ? [] : [spec.nodeName]) };
    const pods = new Informer<Pod, RawPod>({
      kube: this.#kube,
      resource: resources.pods,
      transform: slimPod,
      fieldSelector,
      indexes,
      log,
    });
    this.#pods.set(node, pods);
    pods.subscribe(() => this.#tell());
    pods.start(this.#signal);
  }

  #tell(): void {
    const { resolve } = this.#change;
    this.#change = Promise.withResolvers<void>();
    resolve();
  }
}

/** Without its images and addresses. */
function slimNode({ apiVersion, kind, metadata, spec, status }: Node): Node {
  const { name, uid, resourceVersion, labels } = metadata;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: JSON.parse(JSON.stringify({ name, uid, resourceVersion, labels })) as Node['metadata'],
    spec: spec ?? {},
    status: { conditions: status?.conditions ?? [] },
  };
}

/** By node: the youngest maintenance that has had it. */
function lastMaintenances(all: readonly NodeMaintenance[]): Map<string, NodeMaintenance> {
  const age = ({ metadata }: NodeMaintenance) => metadata.creationTimestamp ?? '';
  const isOver = (one: NodeMaintenance) => stageOf(one) === 'Complete';
  const oldestFirst = all.toSorted(
    (a, b) => compareNames(age(a), age(b)) || Number(isOver(b)) - Number(isOver(a)),
  );
  return new Map(
    oldestFirst.flatMap((one) =>
      (one.status?.nodeStatuses ?? []).map(({ nodeRef }) => [nodeRef.name, one] as const),
    ),
  );
}
