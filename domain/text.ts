/** At most so many UTF-16 units, with a mark where there was more; never half a character, which no address can hold. */
export function cut(text: string, longest: number): string {
  if (text.length <= longest) return text;
  return `${text.slice(0, longest - 1).replace(/[\uD800-\uDBFF]$/, '')}…`;
}
