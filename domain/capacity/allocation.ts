import type { Pod } from '../../api/core.ts';
import { compareNames } from '../common/names.ts';
import { type ClusterFacts, ClusterState } from './clusterState.ts';
import type { StoppedReason } from './stoppedReason.ts';
import { type Misfit, Placer } from './placement.ts';
import { finish, type Steps } from '../common/steps.ts';

/** A drain whose pods need places on other nodes. */
export interface PlacedDrain {
  readonly name: string;
  readonly createdAt: string;
  /** Its pods wait until they fit. Other drains only report which pods do not fit. */
  readonly waits: boolean;
  /** Why it does not proceed by itself. Undefined: it proceeds. */
  readonly stoppedReason: StoppedReason | undefined;
  /** Once it is drained, its nodes are returned without an operator. */
  readonly endsByItself: boolean;
  /** Its pods that have not started to leave, in the order in which they leave. */
  readonly pods: readonly Pod[];
}

export interface UnplacedPod {
  readonly pod: Pod;
  readonly misfit: Misfit;
}

/** The result for a drain: the pods that have no place now, and the drains because of which they have none. */
export interface DrainAllocation {
  readonly name: string;
  /** Pods that fit on no node, or would use a place that is allocated to another drain. */
  readonly unplaced: readonly UnplacedPod[];
  /** Names of the drains that are served first, if their places are what is missing. */
  readonly servedFirst: readonly string[];
  /** Other drains that keep their nodes until an operator acts, if pods have no place. */
  readonly stopped: readonly StoppedDrain[];
}

/** A drain that does not proceed by itself. */
export interface StoppedDrain {
  readonly name: string;
  readonly stoppedReason: StoppedReason;
}

/** Drains that are tried as a whole. Drains beyond these are served in the order of their age. */
const maxTried = 20;

/**
 * Divides the free places among drains. `reserved` are pods without a place that will need one, whatever is decided here. By age, each drain
 * whose remaining pods fit together gets places for all of them, so that it finishes and its nodes are returned. If several others do not fit,
 * none of them takes a place until a drain that fits has returned its nodes: another one may need the place to finish. A single one is served pod by pod. If no drain fits as a whole, they are served pod by pod, the oldest first. Drains that
 * do not wait come later, because they evict anyway. Drains that do not proceed come last and hold nobody back, for they may return no node.
 * The result does not depend on the order of the drains.
 */
export function allocate(
  facts: ClusterFacts,
  reserved: readonly Pod[],
  drains: readonly PlacedDrain[],
): DrainAllocation[] {
  return finish(allocation(facts, reserved, drains));
}

/** Does the same in steps, one for each pod that is placed: thousands of pods with constraints take seconds. */
export function* allocation(
  facts: ClusterFacts,
  reserved: readonly Pod[],
  drains: readonly PlacedDrain[],
): Steps<DrainAllocation[]> {
  const cluster = new ClusterState(facts);
  const placer = new Placer(cluster);
  for (const pod of reserved) {
    placer.move(pod);
    yield;
  }
  const byAge = drains.toSorted(
    (a, b) => compareNames(a.createdAt, b.createdAt) || compareNames(a.name, b.name),
  );
  const proceeding = byAge.filter(({ stoppedReason }) => stoppedReason === undefined);
  const waiting = proceeding.filter(({ waits }) => waits);
  const missing = new Map<string, UnplacedPod[]>();
  for (const drain of byAge) if (drain.waits) missing.set(drain.name, yield* tried(cluster, placer, drain));
  const whole: PlacedDrain[] = [];
  for (const drain of waiting.slice(0, maxTried))
    if (yield* placedAsWhole(cluster, placer, drain)) whole.push(drain);
  const rest = waiting.filter((drain) => !whole.includes(drain));
  const { first, holdsBack } = servedFirst(whole, rest);
  const serve = function* (drain: PlacedDrain, before: readonly string[]): Steps<DrainAllocation> {
    const alone = missing.get(drain.name) ?? [];
    const unplaced =
      holdsBack && drain.waits ? heldBack(drain, alone) : yield* unplacedOf(drain)(cluster, placer, drain);
    const waitsForOthers = drain.waits && unplaced.length > alone.length;
    return {
      name: drain.name,
      unplaced,
      servedFirst: waitsForOthers ? before : [],
      stopped: unplaced.length > 0 ? stoppedDrains(byAge, drain) : [],
    };
  };
  const before = (older: readonly PlacedDrain[]) =>
    first.length > 0 ? first : older.map(({ name }) => name);
  const served: DrainAllocation[] = whole.map(({ name }) => ({
    name,
    unplaced: [],
    servedFirst: [],
    stopped: [],
  }));
  for (const [index, drain] of rest.entries()) served.push(yield* serve(drain, before(rest.slice(0, index))));
  for (const drain of proceeding) if (!drain.waits) served.push(yield* serve(drain, []));
  for (const drain of byAge)
    if (drain.stoppedReason !== undefined) served.push(yield* serve(drain, before(rest)));
  return served;
}

/**
 * Returns the drains of which others wait for places. They hold back several others if their nodes are returned without an operator: a drain without
 * pods is drained, or its last pods are leaving, but unless a window ends it, a user may keep its nodes for days.
 */
function servedFirst(
  whole: readonly PlacedDrain[],
  rest: readonly PlacedDrain[],
): { first: string[]; holdsBack: boolean } {
  const returning = whole.filter(({ pods, endsByItself }) => pods.length > 0 || endsByItself);
  const holdsBack = returning.length > 0 && rest.length > 1;
  const first = holdsBack ? returning : whole.filter(({ pods }) => pods.length > 0);
  return { first: first.map(({ name }) => name), holdsBack };
}

function stoppedDrains(drains: readonly PlacedDrain[], except: PlacedDrain): StoppedDrain[] {
  return drains.flatMap(({ name, stoppedReason }) =>
    stoppedReason === undefined || name === except.name ? [] : [{ name, stoppedReason }],
  );
}

/** A drain that is paused takes no place. */
function unplacedOf({ stoppedReason }: PlacedDrain): typeof tried {
  return stoppedReason === 'Paused' ? tried : placedOneByOne;
}

/** Returns the pods of the drain that would not fit if it were the only one. */
function* tried(cluster: ClusterState, placer: Placer, drain: PlacedDrain): Steps<UnplacedPod[]> {
  const mark = cluster.mark;
  const unplaced = yield* placedOneByOne(cluster, placer, drain);
  cluster.undo(mark);
  return unplaced;
}

/** Places all pods of the drain, or none. */
function* placedAsWhole(cluster: ClusterState, placer: Placer, { pods }: PlacedDrain): Steps<boolean> {
  const mark = cluster.mark;
  for (const pod of pods) {
    if (placer.move(pod).kind !== 'Placed') {
      cluster.undo(mark);
      return false;
    }
    yield;
  }
  return true;
}

/** Places the pods that fit. A pod that does not stays where it is. */
function* placedOneByOne(cluster: ClusterState, placer: Placer, { pods }: PlacedDrain): Steps<UnplacedPod[]> {
  const unplaced: UnplacedPod[] = [];
  for (const pod of pods) {
    const mark = cluster.mark;
    const placement = placer.move(pod);
    if (placement.kind === 'Unplaced') {
      cluster.undo(mark);
      unplaced.push({ pod, misfit: placement.misfit });
    }
    yield;
  }
  return unplaced;
}

const noMisfit: Misfit = { nodes: 0, reasons: new Map() };

function heldBack({ pods }: PlacedDrain, missing: readonly UnplacedPod[]): UnplacedPod[] {
  const misfits = new Map(missing.map(({ pod, misfit }) => [pod, misfit] as const));
  return pods.map((pod) => ({ pod, misfit: misfits.get(pod) ?? noMisfit }));
}
