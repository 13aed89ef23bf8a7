/** Characters that control a terminal, break a line, reorder text or are invisible, and halves of surrogate pairs. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** Escapes unprintable characters in the notation of JSON, such as `\u001b` and `\u202e`. */
export function escapeUnprintable(text: string): string {
  return text.replaceAll(unprintable, (one) => one.split('').map(escapeUnit).join(''));
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
