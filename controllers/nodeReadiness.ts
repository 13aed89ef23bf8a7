import { isDeepStrictEqual } from 'node:util';
import type { Condition, Node, ObjectMeta, Pod, Taint } from '../api/core.ts';
import {
  FIELD_MANAGER,
  READINESS_CONDITION,
  READINESS_CONDITION_MANAGER,
  READINESS_TAINT,
} from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type {
  NodeReadiness,
  NodeReadinessGate,
  NodeReadinessStatus,
  SeenReadiness,
} from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { type ConditionFacts, withCondition } from '../domain/conditions.ts';
import { isCordoned } from '../domain/cordon.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import {
  asksTheSame,
  decideReadiness,
  gatesOf,
  isChecked,
  readinessCondition,
  type ReadinessDecision,
  type ReadinessPatience,
  selectsPod,
} from '../domain/readiness.ts';
import { holdsNodes, stageOf } from '../domain/stage.ts';
import { byNode, type FencedCluster } from '../kube/cluster.ts';
import { isKubeError } from '../kube/errors.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Change } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { type Requeue, WorkQueue } from '../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  patience: ReadinessPatience;
  events: EventRecorder;
  log: Log;
}

const nodesAtOnce = 32;
const statusesAtOnce = 16;
/** Of one node; the taint does not wait. Milliseconds. */
const statusEvery = 1_000;
/** Statuses give way to taints, which pods wait for, but not for longer than this; and how often they look. Milliseconds. */
const statusPatience = 3_000;
const giveWayFor = 200;
/** When informers are behind the apiserver; what they catch up with is looked at anyway. Milliseconds. */
const lookAgainAfter = 1_000;
/** Timers do not reach further than 24 days. Milliseconds. */
const longestRest = 3_600_000;

/**
 * Lets a node take pods when its readiness gates are open (Node Readiness Gates > Design Details). Contract:
 *
 * 1. Every node has a NodeReadiness of its name, of which it is an owner. One that was made before its node gets it for an
 *    owner, if this very node is there still; one of a former node is left to the garbage collection, and waited for.
 * 2. The taint goes as soon as all gates that block are ready. Once before, the gates are read from the apiserver: no informer
 *    that is behind makes a node take pods without a gate that was there before it. The taint comes as `decideReadiness` says.
 *    Other taints stay as they are; so does one that somebody gave a value, of which a node can have no second one.
 * 3. Status and condition follow the taint, at most once a second for each node, and when no other node's taint is to be turned.
 * 4. What is remembered between two looks is in the status; losing the process loses at most a second of it.
 * 5. A node without gates costs its NodeReadiness, and nothing more whatever happens to it.
 */
export async function runNodeReadinessController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { nodes, pods, maintenances, readinesses, readinessPolicies } = deps.cluster;
  const queue = new WorkQueue();
  // Of its own, so that no node waits for its taint to go while others have their status written.
  const showing = new WorkQueue();
  const keeper = new Gatekeeper(deps, queue, showing);
  const addSelected = ({ spec }: NodeMaintenance | NodeReadinessPolicy) => {
    for (const node of nodes.list()) if (selectsNode(spec.nodeSelector, node)) queue.add(node.metadata.name);
  };
  const addBoth = (change: Change<Readonly<NodeMaintenance | NodeReadinessPolicy>>) => {
    addSelected(change.object);
    if (change.type === 'Updated') addSelected(change.previous);
  };
  const unsubscribe = [
    nodes.subscribe((change) => {
      if (!keeper.isIndifferentTo(change)) queue.add(change.object.metadata.name);
    }),
    readinesses.subscribe(({ object }) => queue.add(object.metadata.name)),
    readinessPolicies.subscribe((change) => {
      if (change.type !== 'Updated' || !asksTheSame(change.previous, change.object)) addBoth(change);
    }),
    maintenances.subscribe((change) => {
      if (change.type !== 'Updated' || !holdsTheSame(change.previous, change.object)) addBoth(change);
    }),
    pods.subscribe((change) => {
      const seen = change.type === 'Updated' ? [change.object, change.previous] : [change.object];
      for (const pod of seen) if (keeper.isConcernedBy(pod)) queue.add(pod.spec.nodeName ?? '');
    }),
  ];
  try {
    const { log } = deps;
    await Promise.all([
      queue.run({ workers: nodesAtOnce, reconcile: (name) => keeper.keep(name), signal, log }),
      showing.run({ workers: statusesAtOnce, reconcile: (name) => keeper.show(name), signal, log }),
    ]);
  } finally {
    for (const stop of unsubscribe) stop();
  }
}

/** What is known of a node since its last look. */
interface Remembered {
  uid: string;
  gates: readonly NodeReadinessGate[];
  status: NodeReadinessStatus | undefined;
  /** Whether the informers have shown, since the node is there, the gates that the apiserver has. */
  isSure: boolean;
  /** When its status was written. Milliseconds of `performance.now()`. */
  shownAt: number;
  /** Since when its status gives way to taints; the same. */
  givesWaySince?: number | undefined;
}

class Gatekeeper {
  readonly #deps: Deps;
  readonly #deciding: WorkQueue;
  readonly #showing: WorkQueue;
  readonly #remembered = new Map<string, Remembered>();
  /** Taints that are just now put or taken away. */
  #turning = 0;
  /** The newest list of policies, and one that begins when it has ended. */
  #listing: Promise<unknown> = Promise.resolve();
  #nextListing: Promise<NodeReadinessPolicy[]> | undefined;

  constructor(deps: Deps, deciding: WorkQueue, showing: WorkQueue) {
    this.#deps = deps;
    this.#deciding = deciding;
    this.#showing = showing;
  }

  /** Whether the pod is one of a gate of its node. A change of gates is looked at anyway. */
  isConcernedBy(pod: Pod): boolean {
    const gates = this.#remembered.get(pod.spec.nodeName ?? '')?.gates ?? [];
    return gates.some((gate) => selectsPod(gate, pod));
  }

  /** Whether a node was and is without gates and without the taint, so that what has changed is nothing to us. */
  isIndifferentTo(change: Change<Readonly<Node>>): boolean {
    if (change.type !== 'Updated') return false;
    const { object, previous } = change;
    const known = this.#remembered.get(object.metadata.name);
    if (known === undefined || known.gates.length > 0 || isTainted(object)) return false;
    return isDeepStrictEqual(
      [object.metadata.labels, shownOn(object)],
      [previous.metadata.labels, undefined],
    );
  }

  async keep(name: string): Promise<Requeue | void> {
    const { nodes, readinesses } = this.#deps.cluster;
    const node = nodes.get(name);
    if (node === undefined) {
      this.#remembered.delete(name);
      return undefined;
    }
    const found = readinesses.get(name);
    const seen = isOfFormerNode(found, node) ? undefined : found;
    const again = await this.#decide(node, seen, this.#gatesOf(node, found));
    if (!isOwned(seen, node)) this.#showing.add(name);
    return again;
  }

  #gatesOf(node: Node, seen: SeenReadiness | undefined): NodeReadinessGate[] {
    const policies = this.#deps.cluster.readinessPolicies.list();
    // Nothing closes a node before what is wrong with a policy was published; what is closed stays so.
    const known = isTainted(node) ? policies : policies.filter(isChecked);
    return gatesOf(node, seen?.spec.readinessGates ?? [], known);
  }

  async #decide(
    node: Node,
    seen: SeenReadiness | undefined,
    gates: readonly NodeReadinessGate[],
  ): Promise<Requeue | void> {
    const { kube, pods, maintenances } = this.#deps.cluster;
    const { name } = node.metadata;
    const before = this.#rememberedOf(node, seen);
    const now = kube.now().getTime();
    const facts = {
      gates,
      pods: pods.byIndex(byNode, name),
      isTainted: isTainted(node),
      isHeld:
        isCordoned(node) ||
        maintenances.list().some((one) => isHolding(one) && selectsNode(one.spec.nodeSelector, node)),
      bornAt: Date.parse(node.metadata.creationTimestamp ?? '') || 0,
      generation: seen?.metadata.generation ?? 0,
      now,
    };
    const decision = decideReadiness(facts, before.status, this.#deps.patience);
    before.gates = gates;
    const isOurChoice = facts.isTainted || !isTaintedByOthers(node);
    if (isOurChoice && facts.isTainted !== decision.wantsTaint && !(await this.#turn(node, before, decision)))
      return { requeueAfterMs: lookAgainAfter };
    // Not before: nothing says that a node is open whose taint is there still.
    before.status = decision.status;
    this.#showing.addAfter(name, before.shownAt + statusEvery - performance.now());
    const { changesAt } = decision;
    return changesAt === undefined ? undefined : { requeueAfterMs: Math.min(changesAt - now, longestRest) };
  }

  #rememberedOf({ metadata: { name, uid = '' } }: Node, seen: SeenReadiness | undefined): Remembered {
    const known = this.#remembered.get(name);
    if (known !== undefined && known.uid === uid) return known;
    const fresh = { uid, gates: [], status: seen?.status, isSure: false, shownAt: -Infinity };
    this.#remembered.set(name, fresh);
    return fresh;
  }

  /** Puts the taint or takes it away; false when that was judged by what has changed meanwhile. */
  async #turn(
    node: Node,
    remembered: Remembered,
    { wantsTaint, status }: ReadinessDecision,
  ): Promise<boolean> {
    const { kube } = this.#deps.cluster;
    const { name, uid, labels = null } = node.metadata;
    if (!wantsTaint && !(await this.#isSure(node, remembered))) return false;
    const { taints = null } = node.spec;
    const others = (taints ?? []).filter((taint) => !isOurs(taint));
    // As it was judged, and with the taints of all who write them; its status changes too often to be waited for.
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'test', path: '/metadata/labels', value: labels },
      { op: 'test', path: '/spec/taints', value: taints },
      { op: 'add', path: '/spec/taints', value: wantsTaint ? [...others, READINESS_TAINT] : others },
    ] as const;
    try {
      this.#turning += 1;
      await kube.jsonPatch(resources.nodes, { name }, operations, { fieldManager: FIELD_MANAGER });
    } catch (error) {
      if (!isOvertaken(error)) throw error;
      return false;
    } finally {
      this.#turning -= 1;
    }
    this.#tell(node, wantsTaint, status);
    return true;
  }

  /** `found`: its NodeReadiness, if the apiserver was just now asked for it. */
  async #isSure(node: Node, remembered: Remembered, found?: NodeReadiness): Promise<boolean> {
    remembered.isSure ||= isDeepStrictEqual(await this.#gatesNow(node, found), remembered.gates);
    return remembered.isSure;
  }

  /**
   * As the apiserver has them: the informers may not know yet of a gate that was there before the node was. Undefined while the
   * object of a former node is there, in the place of what may be reserved for this one.
   */
  async #gatesNow(node: Node, found?: NodeReadiness): Promise<NodeReadinessGate[] | undefined> {
    const { kube } = this.#deps.cluster;
    const [written, policies] = await Promise.all([
      found ?? kube.get(resources.nodeReadinesses, { name: node.metadata.name }),
      this.#policiesNow(),
    ]);
    if (isOfFormerNode(written, node)) return undefined;
    return gatesOf(node, written?.spec.readinessGates ?? [], policies);
  }

  /** As the apiserver has them after the call: one list serves all who ask while another is under way. */
  #policiesNow(): Promise<NodeReadinessPolicy[]> {
    const begin = async () => {
      this.#nextListing = undefined;
      const list = this.#deps.cluster.kube.list(resources.nodeReadinessPolicies);
      this.#listing = list;
      return (await list).items;
    };
    this.#nextListing ??= this.#listing.then(begin, begin);
    return this.#nextListing;
  }

  #tell({ metadata: { name, uid } }: Node, isClosed: boolean, status: NodeReadinessStatus): void {
    const { events, log } = this.#deps;
    const message = status.conditions.find(({ type }) => type === 'Ready')?.message ?? '';
    const about = { apiVersion: 'v1', kind: 'Node', name, uid };
    if (isClosed) {
      log.info('Node takes no new pods: readiness gates are closed', { node: name, gates: status.blockedBy });
      events.record(about, { type: 'Warning', reason: 'ReadinessGatesClosed', message });
    } else {
      log.info('Node takes pods: its readiness gates are open', { node: name, gates: status.gates });
      events.record(about, { type: 'Normal', reason: 'ReadinessGatesOpen', message });
    }
  }

  /** Makes a node's object, reads early what its taint waits for, and writes what has changed of its status and condition. */
  async show(name: string): Promise<Requeue | void> {
    const { nodes, readinesses } = this.#deps.cluster;
    const node = nodes.get(name);
    const seen = readinesses.get(name);
    const remembered = this.#remembered.get(name);
    if (node === undefined || remembered?.status === undefined || remembered.uid !== node.metadata.uid)
      return undefined;
    if (isOfFormerNode(seen, node)) return undefined;
    if (seen === undefined || !isOwned(seen, node)) {
      const owned = await this.#own(node, seen);
      if (owned !== undefined && isTainted(node)) await this.#isSure(node, remembered, owned);
      return undefined;
    }
    if (isTainted(node)) await this.#isSure(node, remembered);
    if (this.#givesWay(remembered)) return { requeueAfterMs: giveWayFor };
    return this.#tellAll(node, seen, remembered);
  }

  #givesWay(remembered: Remembered): boolean {
    const now = performance.now();
    const isBusy = this.#turning + this.#deciding.length > 0;
    const since = (remembered.givesWaySince ??= now);
    if (isBusy && now - since < statusPatience) return true;
    remembered.givesWaySince = undefined;
    return false;
  }

  async #tellAll(node: Node, seen: SeenReadiness, remembered: Remembered): Promise<void> {
    const { status } = remembered;
    if (status === undefined) return;
    const condition = readinessCondition(status, READINESS_CONDITION);
    const shown = shownOn(node);
    const isConditionShown = isDeepStrictEqual(shown && factsOf(shown), condition);
    const isStatusShown = isDeepStrictEqual(seen.status, status);
    if (isConditionShown && isStatusShown) return;
    remembered.shownAt = performance.now();
    if (!isStatusShown) await this.#writeStatus(seen, status);
    if (!isConditionShown) await this.#writeCondition(node, condition);
  }

  async #writeStatus({ metadata: { name, uid } }: SeenReadiness, status: NodeReadinessStatus): Promise<void> {
    const operations = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'add', path: '/status', value: status },
    ] as const;
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    await this.#deps.cluster.kube
      .jsonPatch(resources.nodeReadinesses, { name }, operations, options)
      .catch((error: unknown) => {
        // Another one of that name, or none: the informer will show it.
        if (!isOvertaken(error)) throw error;
      });
  }

  async #writeCondition(
    { metadata: { name, uid }, status }: Node,
    facts: ConditionFacts | undefined,
  ): Promise<void> {
    const { kube } = this.#deps.cluster;
    const before = (status?.conditions ?? []).filter(({ type }) => type === READINESS_CONDITION);
    const conditions = facts === undefined ? [] : withCondition(before, facts, kube.now().toISOString());
    const object = { metadata: { name, uid }, status: { conditions } };
    const options = { fieldManager: READINESS_CONDITION_MANAGER, force: true, subresource: 'status' };
    await kube.apply(resources.nodes, object as Node, options).catch((error: unknown) => {
      if (!isKubeError(error, 'NotFound', 'Conflict')) throw error;
    });
  }

  /** Makes the NodeReadiness of a node, or gives one that was there before its node an owner; undefined when another was first. */
  async #own(
    { metadata: { name, uid = '' } }: Node,
    seen: SeenReadiness | undefined,
  ): Promise<NodeReadiness | undefined> {
    const { kube } = this.#deps.cluster;
    // What belongs to a node that is gone is collected: what is reserved for its successor must not.
    if ((await kube.get(resources.nodes, { name }))?.metadata.uid !== uid) return undefined;
    const ownerReferences = [{ apiVersion: 'v1', kind: 'Node', name, uid }];
    const writing =
      seen === undefined
        ? this.#create({ name, ownerReferences })
        : this.#claim({ name, ownerReferences, uid: seen.metadata.uid ?? '' });
    // Another one of that name, or none: the informer will show it.
    return writing.catch((error: unknown) => {
      if (!isKubeError(error, 'Conflict', 'AlreadyExists')) throw error;
      return undefined;
    });
  }

  #create(metadata: ObjectMeta): Promise<NodeReadiness> {
    const object = { metadata, spec: { readinessGates: [] } };
    return this.#deps.cluster.kube.create<NodeReadiness>(resources.nodeReadinesses, object, {
      fieldManager: FIELD_MANAGER,
    });
  }

  #claim(metadata: ObjectMeta): Promise<NodeReadiness> {
    const options = { fieldManager: FIELD_MANAGER, force: true };
    return this.#deps.cluster.kube.apply(resources.nodeReadinesses, { metadata }, options);
  }
}

/** By what has become of the object meanwhile; a failed test of a JSON patch is a 422. */
function isOvertaken(error: unknown): boolean {
  return isKubeError(error, 'Invalid', 'NotFound', 'Conflict');
}

function isHolding(maintenance: NodeMaintenance): boolean {
  return holdsNodes(stageOf(maintenance));
}

function holdsTheSame(before: NodeMaintenance, after: NodeMaintenance): boolean {
  if (isHolding(before) !== isHolding(after)) return false;
  return !isHolding(after) || isDeepStrictEqual(before.spec.nodeSelector, after.spec.nodeSelector);
}

function isTainted({ spec }: Node): boolean {
  return spec.taints?.some(isOurs) === true;
}

/** With a value of theirs: of a key and an effect a node has one taint. */
function isTaintedByOthers({ spec }: Node): boolean {
  return spec.taints?.some((taint) => isAlike(taint) && !isOurs(taint)) === true;
}

function isOurs(taint: Taint): boolean {
  return isAlike(taint) && (taint.value ?? '') === '';
}

function isAlike({ key, effect }: Taint): boolean {
  return key === READINESS_TAINT.key && effect === READINESS_TAINT.effect;
}

/** Our condition, as the node has it. */
function shownOn({ status }: Readonly<Node>): Condition | undefined {
  return status?.conditions?.find(({ type }) => type === READINESS_CONDITION);
}

function isOwned(seen: NodeReadiness | undefined, { metadata: { uid } }: Node): boolean {
  return seen?.metadata.ownerReferences?.some((owner) => owner.uid === uid) === true;
}

function isOfFormerNode(seen: NodeReadiness | undefined, node: Node): boolean {
  const owners = seen?.metadata.ownerReferences ?? [];
  return (
    owners.some(({ apiVersion, kind }) => apiVersion === 'v1' && kind === 'Node') && !isOwned(seen, node)
  );
}

function factsOf({ type, status, reason, message }: ConditionFacts): ConditionFacts {
  return { type, status, reason, message };
}
