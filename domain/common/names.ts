/** Compares by code unit, so that the same objects give the same bytes in every locale. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Limits the names in a message, so that the status of a large maintenance stays small. */
const maxNames = 3;

/** Joins the names: `a, b, c and 7 more`. */
export function listed(names: readonly string[], max = maxNames): string {
  const shown = names.slice(0, max).join(', ');
  return names.length > max ? `${shown} and ${names.length - max} more` : shown;
}

/** Long names are shortened in messages, so that three of them fit. */
const maxShownLength = 63;

/** Returns the name, without its middle if it is longer than most names are. Beginning and end distinguish the names of a series. */
export function shortened(name: string): string {
  if (name.length <= maxShownLength) return name;
  const kept = maxShownLength - 1;
  return `${name.slice(0, Math.ceil(kept / 2))}…${name.slice(-Math.floor(kept / 2))}`;
}

const maxLabelLength = 63;

/** Returns true for the name of a node that can have an agent: the name is also the value of a label of Evacuations (ADR 56). */
export function mayHaveAgent(node: string): boolean {
  return node.length > 0 && node.length <= maxLabelLength;
}
