import type { Bar, Span } from './report.ts';

/** Returns the part of a span or a bar that lies in the other one; undefined if there is none. */
export function within<T extends Span>(span: T, { fromMs, toMs }: Span): T | undefined {
  const clipped = { ...span, fromMs: Math.max(span.fromMs, fromMs), toMs: Math.min(span.toMs, toMs) };
  return clipped.fromMs <= clipped.toMs ? clipped : undefined;
}

export function isWithin(atMs: number, { fromMs, toMs }: Span): boolean {
  return atMs >= fromMs && atMs <= toMs;
}

export function barsWithin(bars: readonly Bar[], span: Span): Bar[] {
  return bars.flatMap((bar) => within(bar, span) ?? []);
}

/** Joins spans that touch or overlap. The result is sorted. */
export function joined(spans: readonly Span[]): Span[] {
  const result: { fromMs: number; toMs: number }[] = [];
  for (const { fromMs, toMs } of spans.toSorted((a, b) => a.fromMs - b.fromMs)) {
    const last = result.at(-1);
    if (last !== undefined && fromMs <= last.toMs) last.toMs = Math.max(last.toMs, toMs);
    else result.push({ fromMs, toMs });
  }
  return result;
}

export function totalMs(spans: readonly Span[]): number {
  return joined(spans).reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
}

/** Returns the spans in which a key was observed: a sample holds until the next one, and the last one until `endMs`. */
export function observedSpans(
  samples: readonly { readonly atMs: number; readonly keys: ReadonlySet<string> }[],
  endMs: number,
): Map<string, Span[]> {
  const spans = new Map<string, Span[]>();
  samples.forEach(({ atMs, keys }, index) => {
    const toMs = Math.max(atMs, samples[index + 1]?.atMs ?? endMs);
    for (const key of keys) {
      const known = spans.get(key) ?? [];
      known.push({ fromMs: atMs, toMs });
      spans.set(key, known);
    }
  });
  return new Map([...spans].map(([key, found]) => [key, joined(found)]));
}
