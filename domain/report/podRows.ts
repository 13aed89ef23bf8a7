import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { compareNames } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { oneLine } from '../common/text.ts';
import { blockedCondition } from '../evacuation/blocker.ts';
import type { Bar, Cause, Mark, Span, TimelineRow } from './report.ts';
import { barsWithin } from './spans.ts';

/** An Event of a pod that leaves. */
export interface PodEvent {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  readonly reason: string;
  readonly firstMs: number;
  readonly lastMs: number;
}

interface PodRecord {
  readonly leaving: readonly { readonly pod: Pod; readonly evacuation: Evacuation }[];
  readonly podEvents: readonly PodEvent[];
  readonly causes: readonly Cause[];
  readonly span: Span;
}

interface Draft {
  bars: Bar[];
  marks: Mark[];
}

const maxNameLength = 600;

/** Returns a row for each pod that is known by name: from its Evacuation, from what blocked it, or from its Events. In the order in which they began to leave. */
export function podRows({ leaving, podEvents, causes, span }: PodRecord): TimelineRow[] {
  const drafts = new Map<string, Draft>();
  const draftOf = (name: string): Draft => {
    const key = oneLine(name, maxNameLength);
    const draft = drafts.get(key) ?? { bars: [], marks: [] };
    drafts.set(key, draft);
    return draft;
  };
  for (const { pod, evacuation } of leaving)
    draftOf(podName(pod)).bars.push(...barsOfEvacuation(evacuation, span.toMs));
  for (const { subjects, spans } of causes)
    for (const subject of subjects) {
      const name = podIn(subject);
      if (name !== undefined)
        draftOf(name).bars.push(...spans.map((one): Bar => ({ ...one, kind: 'Blocked' })));
    }
  for (const [name, events] of Map.groupBy(podEvents, ({ pod }) => pod))
    addEvents(draftOf(name), events, span);
  return [...drafts]
    .map(([name, { bars, marks }]) => ({
      name,
      bars: barsWithin(bars, span),
      marks: marks.filter(({ atMs }) => atMs >= span.fromMs && atMs <= span.toMs),
    }))
    .filter(({ bars, marks }) => bars.length + marks.length > 0)
    .toSorted((a, b) => startOf(a) - startOf(b) || compareNames(a.name, b.name));
}

/** A subject of a snapshot is `NAMESPACE/NAME (NODE)`. */
function podIn(subject: string): string | undefined {
  return /^(\S+\/\S+) \(\S+\)$/.exec(subject)?.[1];
}

function barsOfEvacuation({ metadata, status }: Evacuation, toMs: number): Bar[] {
  const fromMs = Date.parse(metadata.creationTimestamp ?? '');
  const blocked = status?.conditions?.find(({ type }) => type === blockedCondition);
  const blockedMs = blocked?.status === 'True' ? Date.parse(blocked.lastTransitionTime) : Number.NaN;
  return [
    ...(fromMs <= toMs ? [{ kind: 'Leaving', fromMs, toMs } as const] : []),
    ...(blockedMs <= toMs ? [{ kind: 'Blocked', fromMs: blockedMs, toMs } as const] : []),
  ];
}

/** The pod was leaving between its first Event and its last one, at least. */
function addEvents({ bars, marks }: Draft, events: readonly PodEvent[], span: Span): void {
  const inSpan = events.filter(({ lastMs }) => lastMs >= span.fromMs && lastMs <= span.toMs);
  if (inSpan.length === 0) return;
  const fromMs = Math.min(...inSpan.map(({ firstMs }) => firstMs));
  const toMs = Math.max(...inSpan.map(({ lastMs }) => lastMs));
  bars.unshift({ kind: 'Leaving', fromMs, toMs: Math.max(fromMs, toMs) });
  for (const { reason, lastMs } of inSpan.toSorted((a, b) => a.lastMs - b.lastMs))
    marks.push({ atMs: lastMs, label: oneLine(reason, maxNameLength) });
}

function startOf({ bars, marks }: TimelineRow): number {
  return Math.min(...bars.map(({ fromMs }) => fromMs), ...marks.map(({ atMs }) => atMs));
}
