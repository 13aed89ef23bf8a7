import type { Node } from '../api/core.ts';
import { FIELD_MANAGER, MAINTENANCE_FINALIZER, UNCORDONED_BY_ANNOTATION } from '../api/names.ts';
import type {
  NodeMaintenance,
  NodeMaintenanceNodeStatus,
  NodeMaintenanceStage,
  NodeMaintenanceStatus,
} from '../api/nodeMaintenance.ts';
import { isCordoned, isRace, unschedulableBefore } from '../domain/cordon.ts';
import { isTouched, withCordon, withNodes } from '../domain/status.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { Interrupted, MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { type HeldView, holdNodes } from './nodeHolds.ts';
import { reconcile } from './reconcile.ts';
import { StatusWriter } from './statusWriter.ts';
import { isView, look, namesOf, nodeStatusOf } from './view.ts';

/** Nodes that are patched at the same time. */
const nodesAtOnce = 16;

/**
 * Keeps "`.spec.unschedulable` true on all nodes that satisfy .spec.nodeSelector" (KEP-4212 > Cordon), those that begin
 * to satisfy it later included, until the maintenance leaves `stage`.
 */
export async function keepCordoned(
  deps: Deps,
  ref: MaintenanceRef,
  stage: NodeMaintenanceStage,
): Promise<Interrupted> {
  const { cluster } = deps;
  const cordon = deps.cordons.of(ref.uid);
  let writer: StatusWriter | undefined;
  try {
    return await reconcile(
      cluster,
      () => false,
      async () => {
        const view = await look(cluster, ref, stage);
        if (!isView(view)) return view;
        writer ??= new StatusWriter(cluster.kube, view.maintenance, deps.lastWrites);
        writer.see(view.maintenance);
        const held = await holdNodes(deps, view);
        await cordon.reconcile(held, writer);
        const now = cluster.kube.now().toISOString();
        const facts = { waiting: held.waiting, now, existing: namesOf(view.existing) };
        writer.publish((status) => withCordon(status, nodeStatusesOf(status, view.nodes), facts));
        return undefined;
      },
    );
  } finally {
    await writer?.stop();
  }
}

type CordonDeps = Pick<Deps, 'cluster' | 'events' | 'holds'>;

/** Of when somebody uncordoned a node: as many as make a race. */
const timesKept = 3;

/** The cordons of all maintenances of this process: they outlast the activities of a stage. */
export class Cordons {
  readonly #deps: CordonDeps;
  readonly #byMaintenance = new Map<string, Cordon>();

  constructor(deps: CordonDeps) {
    this.#deps = deps;
  }

  of(uid: string): Cordon {
    const known = this.#byMaintenance.get(uid) ?? new Cordon(this.#deps);
    this.#byMaintenance.set(uid, known);
    return known;
  }

  forget(uid: string): void {
    this.#byMaintenance.delete(uid);
  }
}

/** Keeps the nodes of one maintenance cordoned, and knows which of them somebody else has uncordoned meanwhile. */
class Cordon {
  readonly #deps: CordonDeps;
  /** UIDs of the nodes that were seen to be cordoned. */
  readonly #cordoned = new Set<string>();
  /** Node -> when somebody made it schedulable. */
  readonly #undone = new Map<string, number[]>();

  constructor(deps: CordonDeps) {
    this.#deps = deps;
  }

  /** Cordons the nodes that are ours. What they were before is on record before the first of them is touched. */
  async reconcile(view: HeldView, writer: StatusWriter): Promise<void> {
    const deps = this.#deps;
    const hold = deps.holds.of(view.maintenance.metadata.uid ?? '');
    if (!isRecorded(view, writer)) {
      const statuses = await recordNodes(deps, view, writer.latest);
      writer.publish((status) => withNodes(status, statuses, namesOf(view.existing)));
      await writer.flush();
    }
    const open = view.held.filter((node) => !isCordoned(node));
    for (const { metadata } of view.held.filter(isCordoned)) this.#cordoned.add(metadata.uid ?? '');
    const undone = open.filter(({ metadata }) => this.#cordoned.delete(metadata.uid ?? ''));
    if (open.length > 0) await hold.requireCurrent(view.maintenance);
    await forEachBounded(nodesAtOnce, open, async (node) => {
      if (hold.isHeld(node.metadata.name)) await setUnschedulable(deps, node, true);
    });
    for (const node of undone) this.#announceUndone(view.maintenance, node);
    if (open.length > undone.length) {
      deps.events.record(view.maintenance, {
        type: 'Normal',
        reason: 'NodesCordoned',
        message: `Made ${open.length - undone.length} of ${view.nodes.length} nodes unschedulable.`,
      });
    }
  }

  #announceUndone(maintenance: NodeMaintenance, node: Node): void {
    const { cluster, events } = this.#deps;
    const { name } = node.metadata;
    const now = cluster.kube.now().getTime();
    const times = [...(this.#undone.get(name) ?? []), now].slice(-timesKept);
    this.#undone.set(name, times);
    const who = node.metadata.annotations?.[UNCORDONED_BY_ANNOTATION] ?? 'somebody who left no trace';
    const restored = `Node ${name} was made schedulable by ${who}, and is unschedulable again for this maintenance.`;
    events.record(
      maintenance,
      isRace(times, now)
        ? {
            type: 'Warning',
            reason: 'CordonRace',
            message: `${restored} It happens again and again: stop it there, or set stage to Complete here.`,
          }
        : { type: 'Normal', reason: 'CordonRestored', message: restored },
    );
  }
}

function isRecorded({ nodes, held }: HeldView, { latest: { status } }: StatusWriter): boolean {
  const recorded = new Set(status?.nodeStatuses.filter(isTouched).map((node) => node.nodeRef.name));
  return status?.nodes === nodes.length && held.every((node) => recorded.has(node.metadata.name));
}

/**
 * What the nodes were before any maintenance. A node that is cordoned and of which no maintenance has a record is looked at
 * once more, in the apiserver: another maintenance may be giving it back at this moment.
 */
async function recordNodes(
  { cluster: { kube, maintenances } }: Pick<Deps, 'cluster'>,
  view: HeldView,
  latest: NodeMaintenance,
): Promise<NodeMaintenanceNodeStatus[]> {
  const isUnexplained = (node: Node, all: readonly NodeMaintenance[]) =>
    isCordoned(node) && recordsOf(node, latest, all).length === 0;
  const seen = maintenances.list();
  const unexplained = view.held.filter((node) => isUnexplained(node, seen)).map((node) => node.metadata.name);
  const { items: all } =
    unexplained.length === 0 ? { items: seen } : await kube.list(resources.nodeMaintenances);
  const fresh = new Map<string, Node>();
  await forEachBounded(nodesAtOnce, unexplained, async (name) => {
    const node = await kube.get(resources.nodes, { name });
    if (node !== undefined) fresh.set(name, node);
  });
  const held = namesOf(view.held);
  return view.nodes.map((cached) => {
    if (!held.has(cached.metadata.name)) return nodeStatusOf(latest, cached) ?? newNodeStatus(cached);
    const node = fresh.get(cached.metadata.name) ?? cached;
    const [own, ...others] = [nodeStatusOf(latest, node), ...recordsOf(node, latest, all)];
    return { ...(own ?? newNodeStatus(node)), unschedulableBefore: unschedulableBefore(node, own, others) };
  });
}

/** The records of the other maintenances that have not yet given the node back, whether or not they still select it. */
function recordsOf(
  node: Node,
  own: NodeMaintenance,
  all: readonly NodeMaintenance[],
): NodeMaintenanceNodeStatus[] {
  return all
    .filter(({ metadata }) => metadata.uid !== own.metadata.uid)
    .filter(({ metadata }) => metadata.finalizers?.includes(MAINTENANCE_FINALIZER))
    .flatMap((other) => nodeStatusOf(other, node) ?? [])
    .filter(isTouched);
}

/** What is known of each node, or that nothing is. */
function nodeStatusesOf(
  { nodeStatuses }: NodeMaintenanceStatus,
  nodes: readonly Node[],
): NodeMaintenanceNodeStatus[] {
  const known = new Map(nodeStatuses.map((node) => [node.nodeRef.name, node] as const));
  return nodes.map((node) => known.get(node.metadata.name) ?? newNodeStatus(node));
}

function newNodeStatus(node: Node): NodeMaintenanceNodeStatus {
  return {
    nodeRef: { name: node.metadata.name },
    drainTargets: [],
    drainMessage: '',
    podsPendingEvacuation: 0,
    podsEvacuating: 0,
  };
}

/** Of a node that is gone, or that is another one by now, nothing is asked. */
export async function setUnschedulable(
  { cluster }: Pick<Deps, 'cluster'>,
  node: Node,
  unschedulable: boolean,
): Promise<void> {
  const { name, uid } = node.metadata;
  // The UID makes this a patch of this very node; one that is gone needs nothing.
  const patch = {
    metadata: { uid, annotations: { [UNCORDONED_BY_ANNOTATION]: null } },
    spec: { unschedulable },
  };
  try {
    await cluster.kube.mergePatch(resources.nodes, { name }, patch, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
    const living = await cluster.kube.get(resources.nodes, { name });
    if (living?.metadata.uid === uid) throw error;
  }
}
