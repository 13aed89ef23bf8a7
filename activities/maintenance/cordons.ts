import { isDeepStrictEqual } from 'node:util';
import type { Node } from '../../api/core.ts';
import { MAINTENANCE_FINALIZER, UNCORDONED_BY_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import {
  autoscalerAnnotationsBefore,
  autoscalerAnnotationsOf,
  missingAutoscalerAnnotations,
} from '../../domain/common/autoscalers.ts';
import {
  isCordoned,
  isCordonedByMaintenance,
  isRace,
  raceCount,
  unschedulableBefore,
} from '../../domain/common/cordon.ts';
import { compareNames } from '../../domain/common/names.ts';
import { holdsNode } from '../../domain/common/nodePermission.ts';
import { numbered } from '../../domain/common/text.ts';
import type { RejectedNode } from '../../domain/leases/nodeLease.ts';
import { hasCordonRecord, newNodeStatus, withNodes } from '../../domain/maintenance/status.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { isRejection } from '../../kube/errors.ts';
import { currentInstant, elapsedMs } from '../../kube/monotonicTime.ts';
import { resources } from '../../kube/resources.ts';
import type { InjectedDeps } from '../injectedDeps.ts';
import type { NodeLeaseRegistry } from '../leases/nodeLeaseRegistry.ts';
import { changeNode, type NodeChange } from '../nodeChange.ts';
import { RejectedWrites } from '../rejectedWrites.ts';
import type { StatusWriter } from '../statusWriter.ts';
import { type HeldView, namesOf, nodeStatusOf } from '../view.ts';

const concurrentPatches = 16;
const maxUndoTries = 3;
/** Less than the time after which another worker takes over: what took less was performed for a maintenance that was current. */
const slowMs = 2_000;

type CordonDeps = Pick<InjectedDeps, 'cluster' | 'events' | 'autoscalerAnnotationsEnabled' | 'resyncMs'> & {
  nodeLeases: NodeLeaseRegistry;
};

/** The cordons of all maintenances of this process. They outlive the activities of a stage. */
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

/** Keeps the nodes of one maintenance cordoned, and detects that another client uncordons them. */
export class Cordon {
  readonly #deps: CordonDeps;
  /** UIDs of the nodes that have been seen cordoned. */
  readonly #cordoned = new Set<string>();
  /** Node -> when other clients uncordoned it; the latest `raceCount` times. */
  readonly #undone = new Map<string, number[]>();
  /** The keys are names of nodes. */
  readonly #rejected: RejectedWrites;

  constructor(deps: CordonDeps) {
    this.#deps = deps;
    this.#rejected = new RejectedWrites(deps.resyncMs);
  }

  /**
   * Cordons the held nodes, and keeps autoscalers from removing them. Records the previous state of all of them before it changes the
   * first. Resolves with the view in which nodes that cannot be cordoned are not held; with undefined if the view is outdated: then nodes that have
   * changed since are not written, or none.
   */
  async reconcile(view: HeldView, writer: StatusWriter): Promise<HeldView | undefined> {
    const { maintenance, held } = view;
    const leases = this.#deps.nodeLeases.of(maintenance.metadata.uid ?? '');
    const written = isRecorded(view, writer) ? undefined : await this.#record(view, writer);
    const open = held.filter((node) => !isCordoned(node));
    for (const { metadata } of held.filter(isCordoned)) this.#cordoned.add(metadata.uid ?? '');
    const undone = open.filter(({ metadata }) => this.#cordoned.delete(metadata.uid ?? ''));
    const records = new Map(
      writer.latest.status?.nodeStatuses.map((record) => [record.nodeRef.name, record]),
    );
    const changes = held
      .flatMap((node) => changeOf(node, records.get(node.metadata.name)) ?? [])
      .filter(({ node }) => this.#rejected.isDue(node.metadata.name));
    if (changes.length > 0 && !(await leases.isCurrent(maintenance, written))) return undefined;
    let hasChanged = false;
    await forEachBounded(concurrentPatches, changes, async ({ node, ...change }) => {
      if (!leases.isHeld(node.metadata.name)) return;
      if ((await this.#change(maintenance, node, change)) === 'Changed') hasChanged = true;
    });
    const isChanged = ({ metadata }: Node) => this.#rejected.reasonOf(metadata.name) === undefined;
    const restored = undone.filter(isChanged);
    for (const node of restored) this.#reportUndone(maintenance, node);
    this.#reportCordoned(view, open.filter(isChanged).length - restored.length);
    return hasChanged ? undefined : this.#withoutRejected(view, open);
  }

  /** Returns the view in which those of the open nodes wait whose cordon was rejected. */
  #withoutRejected(view: HeldView, open: readonly Node[]): HeldView {
    const rejected = new Map<Node, RejectedNode>();
    for (const node of open) {
      const { name } = node.metadata;
      const rejection = this.#rejected.reasonOf(name);
      if (rejection !== undefined) rejected.set(node, { name, rejection });
    }
    if (rejected.size === 0) return view;
    return {
      ...view,
      held: view.held.filter((node) => !rejected.has(node)),
      waiting: [...view.waiting, ...rejected.values()].toSorted((a, b) => compareNames(a.name, b.name)),
    };
  }

  /** A rejection concerns only this node: the others are maintained. */
  async #change(maintenance: NodeMaintenance, node: Node, change: NodeChange): Promise<'Done' | 'Changed'> {
    const { name } = node.metadata;
    try {
      const result = await this.#changeIfCurrent(maintenance, node, change);
      this.#rejected.accept(name);
      return result;
    } catch (error) {
      if (!isRejection(error)) throw error;
      const message = error.apiMessage;
      if (this.#rejected.reasonOf(name) !== message)
        this.#deps.events.record(maintenance, {
          type: 'Warning',
          reason: 'CordonRejected',
          message: `Node ${name} cannot be cordoned: ${message}`,
        });
      this.#rejected.reject(name, message);
      return 'Done';
    }
  }

  /**
   * Changes an open node although it is not as it was read, if what was recorded is: a kubelet's heartbeat, or the conditions of this maintenance, may
   * have been written since, even at this moment. A request that took long may have been performed when another worker had completed the maintenance: it
   * is undone then.
   */
  async #changeIfCurrent(
    maintenance: NodeMaintenance,
    node: Node,
    change: NodeChange,
  ): Promise<'Done' | 'Changed'> {
    const leases = this.#deps.nodeLeases.of(maintenance.metadata.uid ?? '');
    const startedAt = currentInstant();
    const result = await this.#changeIfRecorded(node, change, async () =>
      leases.isHeld(node.metadata.name) ? leases.isCurrent(maintenance) : false,
    );
    if (result === 'Changed') return result;
    if (result === 'Gone' || elapsedMs(startedAt) < slowMs) return 'Done';
    if (await leases.isCurrent(maintenance)) return 'Done';
    await this.#undo(maintenance, result, change);
    return 'Changed';
  }

  /** Returns a node to service that was cordoned for a stage that is over, unless another maintenance holds it, or someone else has changed it. */
  async #undo(maintenance: NodeMaintenance, written: Node, change: NodeChange): Promise<void> {
    const { kube } = this.#deps.cluster;
    let node: Node | undefined = written;
    for (let tries = 0; tries < maxUndoTries && node !== undefined; tries += 1) {
      const { items } = await kube.list(resources.nodeMaintenances);
      if (isHeldByOthers(node, maintenance, items)) return;
      if ((await changeNode(this.#deps, node, inverseOf(change))) !== 'Changed') return;
      const read = await kube.get(resources.nodes, { name: written.metadata.name });
      // Controllers of Kubernetes react to the cordon at once.
      node = read !== undefined && isCordonedByMaintenance(read) ? read : undefined;
    }
  }

  async #changeIfRecorded(
    node: Node,
    change: NodeChange,
    isCurrent: () => Promise<boolean>,
  ): Promise<Node | 'Gone' | 'Changed'> {
    const { kube, nodes } = this.#deps.cluster;
    const { name } = node.metadata;
    const latest = nodes.get(name) ?? node;
    const result = await changeNode(this.#deps, isRecordedAlike(node, latest) ? latest : node, change);
    if (result !== 'Changed') return result;
    const current = await kube.get(resources.nodes, { name });
    if (current === undefined || !isRecordedAlike(node, current)) return result;
    return (await isCurrent()) ? changeNode(this.#deps, current, change) : result;
  }

  /** Resolves with the object that the apiserver returned, if it was written. */
  async #record(view: HeldView, writer: StatusWriter): Promise<NodeMaintenance | undefined> {
    const before = writer.latest;
    const statuses = await recordNodes(this.#deps, view, before);
    writer.publish((status) => withNodes(status, statuses, namesOf(view.existing)));
    await writer.flush();
    return writer.latest === before ? undefined : writer.latest;
  }

  #reportCordoned({ maintenance, nodes }: HeldView, cordoned: number): void {
    if (cordoned === 0) return;
    this.#deps.events.record(maintenance, {
      type: 'Normal',
      reason: 'NodesCordoned',
      message: `Cordoned ${cordoned} of ${numbered(nodes.length, 'node')}.`,
    });
  }

  #reportUndone(maintenance: NodeMaintenance, node: Node): void {
    const { cluster, events } = this.#deps;
    const { name } = node.metadata;
    const now = cluster.kube.now().getTime();
    const times = [...(this.#undone.get(name) ?? []), now].slice(-raceCount);
    this.#undone.set(name, times);
    const client = node.metadata.annotations?.[UNCORDONED_BY_ANNOTATION] ?? 'an unknown client';
    const restored = `Node ${name} was uncordoned by ${client}, and is cordoned again for this maintenance.`;
    events.record(
      maintenance,
      isRace(times, now)
        ? {
            type: 'Warning',
            reason: 'CordonRace',
            message: `${restored} This happens repeatedly: stop that client, or set .spec.stage to Complete.`,
          }
        : { type: 'Normal', reason: 'CordonRestored', message: restored },
    );
  }
}

function isHeldByOthers(node: Node, own: NodeMaintenance, all: readonly NodeMaintenance[]): boolean {
  return all
    .filter(({ metadata }) => metadata.uid !== own.metadata.uid)
    .some((other) => holdsNode(other, node));
}

/** Returns the change that removes what the other one has set. */
function inverseOf({ unschedulable, annotations }: NodeChange): NodeChange {
  return {
    ...(unschedulable === true && { unschedulable: false }),
    annotations: Object.fromEntries(Object.keys(annotations).map((key) => [key, null])),
  };
}

/** Reports whether the record of both is the same. A cordon that was removed and set again may have another owner. */
function isRecordedAlike(before: Node, after: Node): boolean {
  if (before.metadata.uid !== after.metadata.uid || isCordoned(before) || isCordoned(after)) return false;
  return isDeepStrictEqual(autoscalerAnnotationsOf(before), autoscalerAnnotationsOf(after));
}

function isRecorded({ nodes, held }: HeldView, { latest: { status } }: StatusWriter): boolean {
  const recorded = new Set(status?.nodeStatuses.filter(hasCordonRecord).map((node) => node.nodeRef.name));
  return status?.nodes === nodes.length && held.every((node) => recorded.has(node.metadata.name));
}

/**
 * Returns the status of every selected node, with the previous state of the held ones. A cordoned or annotated node that no maintenance has
 * a record of is read again from the apiserver: another maintenance may be uncordoning it at this moment.
 */
async function recordNodes(
  {
    cluster: { kube, maintenances },
    autoscalerAnnotationsEnabled: enabled,
  }: Pick<InjectedDeps, 'cluster' | 'autoscalerAnnotationsEnabled'>,
  view: HeldView,
  latest: NodeMaintenance,
): Promise<NodeMaintenanceNodeStatus[]> {
  const isUnexplained = (node: Node, all: readonly NodeMaintenance[]) =>
    (isCordoned(node) || autoscalerAnnotationsOf(node).length > 0) &&
    recordsOf(node, latest, all).length === 0;
  const cached = maintenances.list();
  const unexplained = view.held
    .filter((node) => isUnexplained(node, cached))
    .map((node) => node.metadata.name);
  const { items: all } =
    unexplained.length === 0 ? { items: cached } : await kube.list(resources.nodeMaintenances);
  const fresh = new Map<string, Node>();
  await forEachBounded(concurrentPatches, unexplained, async (name) => {
    const node = await kube.get(resources.nodes, { name });
    if (node !== undefined) fresh.set(name, node);
  });
  const held = namesOf(view.held);
  return view.nodes.map((selected) => {
    const { name } = selected.metadata;
    if (!held.has(name)) return nodeStatusOf(latest, selected) ?? newNodeStatus(name);
    const node = fresh.get(name) ?? selected;
    const [own, ...others] = [nodeStatusOf(latest, node), ...recordsOf(node, latest, all)];
    const annotations = autoscalerAnnotationsBefore(node, own, { holders: others, enabled });
    return {
      ...(own ?? newNodeStatus(name)),
      unschedulableBefore: unschedulableBefore(node, own, others),
      ...(annotations && { autoscalerAnnotationsBefore: annotations }),
    };
  });
}

/** Returns the records of the other maintenances that have not yet returned the node to service, even if they no longer select it. */
function recordsOf(
  node: Node,
  own: NodeMaintenance,
  all: readonly NodeMaintenance[],
): NodeMaintenanceNodeStatus[] {
  return all
    .filter(({ metadata }) => metadata.uid !== own.metadata.uid)
    .filter(({ metadata }) => metadata.finalizers?.includes(MAINTENANCE_FINALIZER))
    .flatMap((other) => nodeStatusOf(other, node) ?? [])
    .filter(hasCordonRecord);
}

/** Returns what a held node lacks; undefined if nothing. */
function changeOf(
  node: Node,
  record: NodeMaintenanceNodeStatus | undefined,
): ({ node: Node } & NodeChange) | undefined {
  const annotations = missingAutoscalerAnnotations(node, record);
  if (!isCordoned(node)) return { node, unschedulable: true, annotations };
  return Object.keys(annotations).length === 0 ? undefined : { node, annotations };
}
