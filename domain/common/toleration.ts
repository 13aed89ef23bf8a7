import type { Node, Taint, Toleration } from '../../api/core.ts';

/** Returns true if one of the tolerations tolerates the taint, like Toleration.ToleratesTaint of core/v1. */
export function toleratesTaint(
  tolerations: readonly Toleration[] | undefined,
  taint: Readonly<Pick<Taint, 'key' | 'value' | 'effect'>>,
): boolean {
  return (tolerations ?? []).some(({ key = '', operator = 'Equal', value = '', effect }) => {
    if (effect !== undefined && effect !== taint.effect) return false;
    if (key !== '' && key !== taint.key) return false;
    // A toleration without a key must have the operator Exists. Lt and Gt do not match a taint without a number.
    if (operator === 'Exists') return true;
    return operator === 'Equal' && key !== '' && value === (taint.value ?? '');
  });
}

/** Returns true if the node has the taint with any value. Key and effect identify a taint of a node. */
export function hasTaint(
  { spec }: Pick<Node, 'spec'>,
  { key, effect }: Readonly<Pick<Taint, 'key' | 'effect'>>,
): boolean {
  return spec.taints?.some((taint) => taint.key === key && taint.effect === effect) === true;
}
