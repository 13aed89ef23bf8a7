import type { Pod } from '../../api/core.ts';
import { compareNames } from '../common/names.ts';
import { type ClusterFacts, ClusterState } from './clusterState.ts';
import type { StoppedReason } from './stoppedReason.ts';
import { type Misfit, Placer } from './placement.ts';

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
  const cluster = new ClusterState(facts);
  const placer = new Placer(cluster);
  for (const pod of reserved) placer.move(pod);
  const byAge = drains.toSorted(
    (a, b) => compareNames(a.createdAt, b.createdAt) || compareNames(a.name, b.name),
  );
  const proceeding = byAge.filter(({ stoppedReason }) => stoppedReason === undefined);
  const waiting = proceeding.filter(({ waits }) => waits);
  const missing = new Map(
    byAge.filter(({ waits }) => waits).map((drain) => [drain.name, tried(cluster, placer, drain)] as const),
  );
  const whole = waiting.slice(0, maxTried).filter((drain) => placedAsWhole(cluster, placer, drain));
  const rest = waiting.filter((drain) => !whole.includes(drain));
  const { first, holdsBack } = servedFirst(whole, rest);
  const serve = (drain: PlacedDrain, before: readonly string[]): DrainAllocation => {
    const alone = missing.get(drain.name) ?? [];
    const unplaced =
      holdsBack && drain.waits ? heldBack(drain, alone) : unplacedOf(drain)(cluster, placer, drain);
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
  return [
    ...whole.map(({ name }) => ({ name, unplaced: [], servedFirst: [], stopped: [] })),
    ...rest.map((drain, index) => serve(drain, before(rest.slice(0, index)))),
    ...proceeding.filter(({ waits }) => !waits).map((drain) => serve(drain, [])),
    ...byAge
      .filter(({ stoppedReason }) => stoppedReason !== undefined)
      .map((drain) => serve(drain, before(rest))),
  ];
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
function tried(cluster: ClusterState, placer: Placer, drain: PlacedDrain): UnplacedPod[] {
  const mark = cluster.mark;
  const unplaced = placedOneByOne(cluster, placer, drain);
  cluster.undo(mark);
  return unplaced;
}

/** Places all pods of the drain, or none. */
function placedAsWhole(cluster: ClusterState, placer: Placer, { pods }: PlacedDrain): boolean {
  const mark = cluster.mark;
  const fits = pods.every((pod) => placer.move(pod).kind === 'Placed');
  if (!fits) cluster.undo(mark);
  return fits;
}

/** Places the pods that fit. A pod that does not stays where it is. */
function placedOneByOne(cluster: ClusterState, placer: Placer, { pods }: PlacedDrain): UnplacedPod[] {
  return pods.flatMap((pod) => {
    const mark = cluster.mark;
    const placement = placer.move(pod);
    if (placement.kind === 'Placed') return [];
    cluster.undo(mark);
    return [{ pod, misfit: placement.misfit }];
  });
}

const noMisfit: Misfit = { nodes: 0, reasons: new Map() };

function heldBack({ pods }: PlacedDrain, missing: readonly UnplacedPod[]): UnplacedPod[] {
  const misfits = new Map(missing.map(({ pod, misfit }) => [pod, misfit] as const));
  return pods.map((pod) => ({ pod, misfit: misfits.get(pod) ?? noMisfit }));
}
