import type { Pod } from '../../api/core.ts';
import { compareNames } from '../common/names.ts';
import { type ClusterFacts, ClusterState } from './clusterState.ts';
import { type Misfit, Placer } from './placement.ts';

/** A drain whose pods need places on other nodes. */
export interface PlacedDrain {
  readonly name: string;
  readonly createdAt: string;
  /** Its pods wait until they fit. Other drains only report which pods do not fit. */
  readonly waits: boolean;
  /** Its pods that have not started to leave, in the order in which they leave. */
  readonly pods: readonly Pod[];
}

export interface UnplacedPod {
  readonly pod: Pod;
  readonly misfit: Misfit;
}

/** What a drain may place now. */
export interface DrainAllocation {
  readonly name: string;
  /** Pods that fit on no node, or would use a place that another drain is to have. */
  readonly unplaced: readonly UnplacedPod[];
  /** Names of the drains that are served first, if their places are what is missing. */
  readonly servedFirst: readonly string[];
}

/** Drains that are tried as a whole. Drains beyond these are served in the order of their age. */
const maxTried = 20;

/**
 * Divides the free places among drains. `reserved` are pods without a place that will need one, whatever is decided here. By age, each drain
 * whose remaining pods fit together, if any are left, gets places for all of them, so that it finishes and its nodes are returned. Of
 * several others, none takes a place that could let another one finish later. If no drain fits as a whole, they are served pod by pod, the oldest
 * first. Drains that do not wait are served last, because they evict anyway. The result does not depend on the order of the drains.
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
  const waiting = byAge.filter(({ waits }) => waits);
  const alone = new Map(waiting.map((drain) => [drain.name, tried(cluster, placer, drain)] as const));
  const whole = waiting.slice(0, maxTried).filter((drain) => placedAsWhole(cluster, placer, drain));
  const served: DrainAllocation[] = whole.map(({ name }) => ({ name, unplaced: [], servedFirst: [] }));
  const rest = waiting.filter((drain) => !whole.includes(drain));
  const holdsBack = whole.length > 0 && rest.length > 1;
  const first = whole.filter(({ pods }) => holdsBack || pods.length > 0).map(({ name }) => name);
  for (const [index, drain] of rest.entries()) {
    const missing = alone.get(drain.name) ?? [];
    const unplaced = holdsBack ? heldBack(drain, missing) : placedOneByOne(cluster, placer, drain);
    const before = first.length > 0 ? first : rest.slice(0, index).map(({ name }) => name);
    served.push({
      name: drain.name,
      unplaced,
      servedFirst: unplaced.length > missing.length ? before : [],
    });
  }
  for (const drain of byAge.filter(({ waits }) => !waits))
    served.push({ name: drain.name, unplaced: placedOneByOne(cluster, placer, drain), servedFirst: [] });
  return served;
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
