import type { Node, Taint } from '../../api/core.ts';
import { READINESS_TAINT } from '../../api/names.ts';

export function isTainted({ spec }: Readonly<Node>): boolean {
  return spec.taints?.some(isReadinessTaint) === true;
}

/** Reports whether the taint has a value, which another field manager gave it. A node has one taint per key and effect. */
export function hasOtherManagersTaint({ spec }: Node): boolean {
  return spec.taints?.some((taint) => hasSameKey(taint) && !isReadinessTaint(taint)) === true;
}

/** Returns the taints of a node with or without the readiness taint; all other taints stay unchanged. */
export function taintsWith(taints: readonly Taint[], isWanted: boolean): Taint[] {
  const others = taints.filter((taint) => !isReadinessTaint(taint));
  return isWanted ? [...others, READINESS_TAINT] : others;
}

function isReadinessTaint(taint: Taint): boolean {
  return hasSameKey(taint) && (taint.value ?? '') === '';
}

function hasSameKey({ key, effect }: Taint): boolean {
  return key === READINESS_TAINT.key && effect === READINESS_TAINT.effect;
}
