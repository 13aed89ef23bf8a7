/** Markup in which every text is escaped. */
export interface Html {
  readonly markup: string;
}

type Part = Html | string | number | readonly Html[];

/** Builds markup: interpolated texts are escaped, interpolated markup is not. */
export function html(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return { markup: strings.map((text, index) => `${text}${markupOf(parts[index])}`).join('') };
}

/** Takes markup as it is: only for what this program has made itself. */
export function trusted(markup: string): Html {
  return { markup };
}

function markupOf(part: Part | undefined): string {
  if (part === undefined) return '';
  if (typeof part === 'string' || typeof part === 'number') return escapeHtml(String(part));
  if ('markup' in part) return part.markup;
  return part.map(({ markup }) => markup).join('');
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (one) => entities[one] ?? one);
}
