import type { Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { LifecycleEviction, ResponderStatus, TargetResponder } from '../../api/lifecycle.ts';
import { compareNames } from '../common/names.ts';
import { podName } from '../common/pod.ts';
import { oneLine } from '../common/text.ts';
import { blockedCondition } from '../evacuation/blocker.ts';
import { type RequestedEviction, requestStateOf } from '../evacuation/evictionRequest.ts';
import { silentResponder } from '../evacuation/progress.ts';
import type { Bar, Cause, Mark, Span, TimelineRow } from './report.ts';
import { timeOf } from './parts.ts';
import { barsWithin } from './spans.ts';

/** An Event of a pod that leaves. */
export interface PodEvent {
  /** `NAMESPACE/NAME`. */
  readonly pod: string;
  readonly reason: string;
  readonly firstMs: number;
  readonly lastMs: number;
}

/** A pod that leaves, by the API that requests it. */
export interface LeavingPod {
  readonly pod: Pod;
  readonly evacuation?: Evacuation | undefined;
  readonly requested?: RequestedEviction | undefined;
}

interface PodRecord {
  readonly leaving: readonly LeavingPod[];
  readonly podEvents: readonly PodEvent[];
  readonly causes: readonly Cause[];
  readonly span: Span;
}

interface Draft {
  bars: Bar[];
  marks: Mark[];
}

const maxNameLength = 600;

/** Returns a row for each pod that is known by name: from its Evacuation or EvictionRequest, from what blocked it, or from its Events. In the order in which they began to leave. */
export function podRows({ leaving, podEvents, causes, span }: PodRecord): TimelineRow[] {
  const drafts = new Map<string, Draft>();
  const draftOf = (name: string): Draft => {
    const key = oneLine(name, maxNameLength);
    const draft = drafts.get(key) ?? { bars: [], marks: [] };
    drafts.set(key, draft);
    return draft;
  };
  for (const { pod, evacuation, requested } of leaving)
    draftOf(podName(pod)).bars.push(
      ...(evacuation === undefined ? [] : barsOfEvacuation(evacuation, span.toMs)),
      ...(requested === undefined ? [] : barsOfRequest(requested, span.toMs)),
    );
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

/** Returns a bar for the request, one for each responder that was asked, and one for what the request waits for if no responder is asked. */
function barsOfRequest(requested: RequestedEviction, toMs: number): Bar[] {
  const fromMs = Date.parse(requested.request?.metadata.creationTimestamp ?? '');
  const bars: Bar[] = [
    { kind: 'Leaving', fromMs, toMs },
    ...barsOfResponders(requested.eviction, toMs),
    ...waitOf(requested, toMs),
  ];
  return bars.filter((bar) => bar.fromMs <= bar.toMs);
}

/** A responder acts until it has completed, or the next one has started. */
function barsOfResponders(eviction: LifecycleEviction | undefined, toMs: number): Bar[] {
  const { targetResponders = [], responders = [] } = eviction?.status ?? {};
  const asked = responders
    .map((status) => ({ status, startMs: Date.parse(status.startTime ?? '') }))
    .filter(({ startMs }) => !Number.isNaN(startMs))
    .toSorted((a, b) => a.startMs - b.startMs);
  return asked.map(({ status, startMs }, index) => {
    const endMs = timeOf(status.completionTime) ?? asked[index + 1]?.startMs ?? toMs;
    const state = targetResponders.find(({ name }) => name === status.name)?.state;
    return { fromMs: startMs, toMs: Math.min(endMs, toMs), ...describedResponder(status, state, toMs) };
  });
}

/** Says who responds, and what it has reported, or that it reports nothing. */
function describedResponder(
  status: ResponderStatus,
  state: TargetResponder['state'] | undefined,
  nowMs: number,
): Pick<Bar, 'kind' | 'label'> {
  const silent = state === 'Active' ? silentResponder(status, new Date(nowMs)) : undefined;
  const text = silent?.message ?? [status.name, status.message].filter(Boolean).join(': ');
  const kind = silent !== undefined ? 'Blocked' : state === 'Interrupted' ? 'Failed' : 'Leaving';
  return { kind, label: oneLine(text, maxNameLength) };
}

function waitOf(requested: RequestedEviction, toMs: number): Bar[] {
  const state = requestStateOf(requested);
  if (state.kind === 'Unanswered')
    return [
      { kind: 'Blocked', fromMs: state.sinceMs, toMs, label: 'No controller has answered the request.' },
    ];
  if (state.kind === 'Failed')
    return [{ kind: 'Failed', fromMs: state.atMs, toMs, label: oneLine(state.message, maxNameLength) }];
  return [];
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
