/** By code unit, so that the same world gives the same bytes in every locale. */
export function compareNames(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** At most this many names in a message, so that the status of a large maintenance stays small. */
const namesInMessage = 5;

export function listed(names: readonly string[]): string {
  const shown = names.slice(0, namesInMessage).join(', ');
  return names.length > namesInMessage ? `${shown} and ${names.length - namesInMessage} more` : shown;
}
