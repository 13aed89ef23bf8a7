import type { Node, Taint, Toleration } from '../api/core.ts';

/** Whether a pod with these tolerations may be scheduled to a node with the taint, as core/v1 Toleration.ToleratesTaint. */
export function toleratesTaint(
  tolerations: readonly Toleration[] | undefined,
  taint: Readonly<Pick<Taint, 'key' | 'value' | 'effect'>>,
): boolean {
  return (tolerations ?? []).some(({ key = '', operator = 'Equal', value = '', effect }) => {
    if (effect !== undefined && effect !== taint.effect) return false;
    if (key !== '' && key !== taint.key) return false;
    // Without a key it must be Exists; what compares numbers tolerates no taint without one.
    if (operator === 'Exists') return true;
    return operator === 'Equal' && key !== '' && value === (taint.value ?? '');
  });
}

/** Whether a node has the taint, whatever its value: of a key and an effect a node has one. */
export function hasTaint(
  { spec }: Pick<Node, 'spec'>,
  { key, effect }: Readonly<Pick<Taint, 'key' | 'effect'>>,
): boolean {
  return spec.taints?.some((taint) => taint.key === key && taint.effect === effect) === true;
}
