import { isTrue } from '../common/conditions.ts';
import { compareNames } from '../common/names.ts';
import { stageOf } from '../common/stage.ts';
import { numbered, oneLine } from '../common/text.ts';
import { tierText } from '../drain/tiers.ts';
import { BlockerReason } from '../evacuation/blocker.ts';
import type { DetailsSnapshot } from '../maintenance/detailsSnapshot.ts';
import { type Facts, factsOf, type MaintenanceRecord } from './maintenanceFacts.ts';
import { bounded, budgetRows, causeOf, reportActions, timeOf } from './parts.ts';
import { podRows } from './podRows.ts';
import type {
  Bar,
  Cause,
  Counts,
  Figure,
  Mark,
  NodeRow,
  Report,
  Span,
  Timeline,
  TimelineRow,
} from './report.ts';
import { barsWithin, isWithin, observedSpans, totalMs } from './spans.ts';

/** Prepares the report of a maintenance. Total: any history, object and Events result in a report. */
export function maintenanceReport(record: MaintenanceRecord): Report {
  const facts = factsOf(record);
  const { span, drain } = facts;
  const causeSpan = drain ?? span;
  const causes = causesOf(facts, causeSpan);
  const pods = podTimeline(facts, causes, causeSpan);
  const nodes = bounded(nodeRows(facts), maxNodes);
  const shown = bounded(causes, maxCauses);
  const actions = reportActions(record.actions);
  const reason = record.maintenance?.spec.reason ?? facts.snapshots.at(-1)?.snapshot.reason;
  return {
    kind: 'NodeMaintenance',
    name: record.name,
    ...(reason && { reason: oneLine(reason, maxTextLength) }),
    state: stateOf(facts),
    span,
    timeZone: 'UTC',
    figures: figuresOf(facts, causes),
    timelines: [stageTimeline(facts), ...tierTimeline(facts), ...pods],
    counts: podCounts(facts),
    causeSpan,
    causes: shown.items,
    moreCauses: shown.more,
    budgets: budgetRows(record.budgets, causes),
    nodes: nodes.items,
    moreNodes: nodes.more,
    actions: actions.items,
    moreActions: actions.more,
    unknown: unknownOf(facts, pods[0]?.rows.length ?? 0),
  };
}

const maxTextLength = 300;
const maxNodes = 100;
const maxCauses = 12;
const maxSubjects = 3;
const maxPodRows = 40;

function stateOf({ record: { maintenance, runs }, stages, isOver, drainedAtMs }: Facts): string {
  const last = stages.at(-1)?.stage;
  if (maintenance === undefined) return isOver ? 'over, and deleted' : 'deleted';
  if (isOver) return 'complete: its nodes were returned to service';
  const stage = stageOf(maintenance);
  if (last === undefined) return `${stage}, not started`;
  if (isTrue(maintenance.status?.conditions, 'Paused')) return `${stage}, paused`;
  const blocked = maintenance.status?.podsBlocked ?? 0;
  if (stage === 'Drain' && blocked > 0) return `Drain, ${numbered(blocked, 'pod')} blocked`;
  if (stage === 'Drain' && drainedAtMs !== undefined) return 'Drain, drained';
  return `${stage}, in progress${runs === undefined ? ' or waiting' : ''}`;
}

/** Each stage on a line of its own: most take too short a time for a name in their bar. */
function stageTimeline({ stages, history, span, drainedAtMs }: Facts): Timeline {
  const rows = stages.map(({ stage, atMs }, index): TimelineRow => {
    const bar: Bar = { kind: 'Stage', fromMs: atMs, toMs: stages[index + 1]?.atMs ?? span.toMs };
    return { name: stage, bars: barsWithin([bar], span), marks: [] };
  });
  const pauses = history.pauses.flatMap(({ atMs, paused }, index): Bar[] =>
    paused ? [{ kind: 'Paused', fromMs: atMs, toMs: history.pauses[index + 1]?.atMs ?? span.toMs }] : [],
  );
  const paused = pauses.length === 0 ? [] : [{ name: 'paused', bars: barsWithin(pauses, span), marks: [] }];
  const moments = drainedAtMs === undefined ? [] : [{ atMs: drainedAtMs, label: 'drained' }];
  return { title: 'Stages', span, rows: [...rows, ...paused], moments, more: 0 };
}

/** The tiers one below the other: each begins where the previous one ended. */
function tierTimeline({ history, record, drain, snapshots, isOver, drainedAtMs }: Facts): Timeline[] {
  if (drain === undefined) return [];
  const rows: TimelineRow[] = [];
  let fromMs = drain.fromMs;
  for (const { tier, atMs } of history.tiers) {
    rows.push(tierRow(tierText(tier), tier.pods, { fromMs, toMs: atMs }, drain));
    fromMs = atMs;
  }
  const current = record.maintenance?.status?.drainTier ?? snapshots.at(-1)?.snapshot.drainTier;
  const isNamed = history.tiers.some(({ tier }) => tier.number === current?.number);
  if (current !== undefined && !isNamed && (!isOver || drainedAtMs !== undefined || rows.length === 0)) {
    const text = snapshots.find(({ snapshot }) => snapshot.drainTier?.number === current.number)?.snapshot
      .tier;
    rows.push(tierRow(tierText(current), text ?? '', { fromMs, toMs: drain.toMs }, drain));
  }
  const { more, rows: tiers } = rowsOf(rows, maxPodRows);
  const shown = [...tiers, ...escalationRows(record, drain)];
  const moments = deadlineMoments(record, drain);
  return shown.length === 0
    ? []
    : [{ title: 'Tiers of the drain plan', span: drain, moments, rows: shown, more }];
}

/** The steps that were done before and at the drain deadline. */
function escalationRows({ maintenance }: MaintenanceRecord, drain: Span): TimelineRow[] {
  const marks = (maintenance?.status?.drainDeadline?.steps ?? []).flatMap(({ action, doneAt }): Mark[] => {
    const atMs = timeOf(doneAt);
    return atMs === undefined || !isWithin(atMs, drain) ? [] : [{ atMs, label: action }];
  });
  return marks.length === 0 ? [] : [{ name: 'Escalation', bars: [], marks }];
}

function deadlineMoments({ maintenance }: MaintenanceRecord, drain: Span): Mark[] {
  const atMs = timeOf(maintenance?.status?.drainDeadline?.time);
  return atMs === undefined || !isWithin(atMs, drain) ? [] : [{ atMs, label: 'drain deadline' }];
}

function tierRow(name: string, label: string, { fromMs, toMs }: Span, drain: Span): TimelineRow {
  const text = oneLine(label, maxTextLength);
  const bar: Bar = {
    kind: 'Tier',
    fromMs,
    toMs: Math.max(fromMs, toMs),
    ...(text !== '' && { label: text }),
  };
  return { name, bars: barsWithin([bar], drain), marks: [] };
}

function rowsOf(rows: readonly TimelineRow[], max: number): Pick<Timeline, 'rows' | 'more'> {
  const { items, more } = bounded(rows, max);
  return { rows: items, more };
}

function podTimeline({ record }: Facts, causes: readonly Cause[], span: Span): Timeline[] {
  const rows = podRows({ ...record, causes, span });
  return rows.length === 0 ? [] : [{ title: 'Pods', span, moments: [], ...rowsOf(rows, maxPodRows) }];
}

function podCounts({ snapshots, drain }: Facts): Counts[] {
  if (drain === undefined) return [];
  const inDrain = snapshots.filter(({ atMs, snapshot }) => {
    // The first snapshot is taken before the pods are counted.
    const isCounted = snapshot.stage === 'Drain' && snapshot.rows.length > 0;
    return isCounted && atMs >= drain.fromMs && atMs <= drain.toMs;
  });
  if (inDrain.length < 2) return [];
  const samples = (countOf: (snapshot: DetailsSnapshot) => number) =>
    inDrain.map(({ atMs, snapshot }) => ({ atMs, count: countOf(snapshot) }));
  return [
    {
      title: 'Pods left to evacuate',
      span: drain,
      unit: 'pods',
      isStacked: false,
      series: [
        {
          name: 'left to evacuate',
          kind: 'Leaving',
          samples: samples(({ podsToEvacuate }) => podsToEvacuate),
        },
        { name: 'of these blocked', kind: 'Blocked', samples: samples(({ podsBlocked }) => podsBlocked) },
      ],
    },
  ];
}

/** Causes with the same text are one. Longest first. */
function causesOf(facts: Facts, span: Span): Cause[] {
  const { snapshots } = facts;
  const samples = snapshots.map(({ atMs, snapshot }) => ({
    atMs,
    keys: new Set(snapshot.causes.map(({ message }) => message)),
  }));
  const subjects = new Map<string, { pods: Set<string>; most: number }>();
  for (const { snapshot } of snapshots)
    for (const { message, pods, morePods } of snapshot.causes) {
      const known = subjects.get(message) ?? { pods: new Set(), most: 0 };
      pods.slice(0, maxKnownSubjects - known.pods.size).forEach((pod) => known.pods.add(pod));
      subjects.set(message, { pods: known.pods, most: Math.max(known.most, pods.length + morePods) });
    }
  const observed = [...observedSpans(samples, span.toMs)].flatMap(([text, spans]) => {
    const { pods = new Set<string>(), most = 0 } = subjects.get(text) ?? {};
    const names = [...pods].toSorted(compareNames);
    const moreSubjects = Math.max(0, Math.max(most, names.length) - maxSubjects);
    return causeOf({ text, subjects: names.slice(0, maxSubjects), moreSubjects, spans }, span);
  });
  const causes = observed.length > 0 ? observed : causesOfEvents(facts, span);
  return causes.toSorted((a, b) => b.totalMs - a.totalMs || compareNames(a.text, b.text));
}

const maxKnownSubjects = 1_000;

const blockerReasons: readonly string[] = Object.values(BlockerReason);

/** Without snapshots, Events say that pods were blocked, but not for how long. */
function causesOfEvents({ record: { events } }: Facts, span: Span): Cause[] {
  return events
    .filter(({ reason }) => blockerReasons.includes(reason))
    .flatMap(({ message, reason, firstMs, lastMs }) => {
      const spans = [{ fromMs: firstMs, toMs: Math.max(firstMs, lastMs) }];
      return causeOf({ text: message, subjects: [reason], moreSubjects: 0, spans }, span);
    });
}

function nodeRows({ record: { maintenance }, snapshots, isOver }: Facts): NodeRow[] {
  const last = snapshots.at(-1)?.snapshot;
  const statuses = maintenance?.status?.nodeStatuses;
  const rows =
    statuses === undefined
      ? (last?.rows ?? [])
      : statuses.map(({ nodeRef, podsPendingEvacuation, podsEvacuating, podsPeak = 0, drainMessage }) => {
          const podsToEvacuate = podsPendingEvacuation + podsEvacuating;
          const podsEvacuated = Math.max(0, podsPeak - podsToEvacuate);
          return { node: nodeRef.name, podsToEvacuate, podsEvacuated, message: drainMessage };
        });
  return rows
    .map(({ node, podsToEvacuate, podsEvacuated, message }) => ({
      node: oneLine(node, maxTextLength),
      pods: { evacuated: podsEvacuated, all: podsEvacuated + podsToEvacuate },
      state: isOver ? 'returned' : podsToEvacuate === 0 ? 'no pods left' : 'draining',
      message: oneLine(message, maxTextLength),
    }))
    .toSorted((a, b) => compareNames(a.node, b.node));
}

function figuresOf(facts: Facts, causes: readonly Cause[]): Figure[] {
  const { history, drain } = facts;
  const blockedMs = totalMs(causes.flatMap(({ spans }) => spans));
  return [
    ...durationsOf(facts),
    ...countsOf(facts),
    ...(history.tiers.length === 0 ? [] : [count('tiers drained', history.tiers.length)]),
    ...(drain === undefined ? [] : [duration('pods were blocked', blockedMs)]),
    ...(history.retries === 0 ? [] : [count('activities retried', history.retries)]),
  ];
}

function durationsOf({ span, drain, stages, drainedAtMs, isOver }: Facts): Figure[] {
  const completeMs = stages.find(({ stage }) => stage === 'Complete')?.atMs;
  const figures = [duration(isOver ? 'from creation to end' : 'since creation', span.toMs - span.fromMs)];
  if (drain !== undefined)
    figures.push(
      duration(drainedAtMs === undefined ? 'in Drain' : 'until drained', drain.toMs - drain.fromMs),
    );
  if (drainedAtMs !== undefined)
    figures.push(duration('held after the drain', Math.max(0, (completeMs ?? span.toMs) - drainedAtMs)));
  if (completeMs !== undefined)
    figures.push(
      duration(isOver ? 'to return the nodes' : 'in Complete', Math.max(0, span.toMs - completeMs)),
    );
  return figures;
}

function countsOf({ record, snapshots, drain, isOver }: Facts): Figure[] {
  const last = snapshots.at(-1)?.snapshot;
  const nodes = record.maintenance?.status?.nodes ?? (last && last.rows.length + last.more);
  const figures = nodes === undefined ? [] : [count('nodes', nodes)];
  if (last === undefined || drain === undefined) return figures;
  figures.push(count('pods evacuated', last.podsEvacuated));
  if (!isOver) figures.push(count('pods left', last.podsToEvacuate));
  return figures;
}

/** A run starts within this time after its object was created, unless there is no worker. */
const startsWithinMs = 60_000;

function unknownOf(facts: Facts, podRowCount: number): string[] {
  return [
    facts.record.unread,
    unknownRuns(facts),
    unknownObjects(facts),
    unknownDetails(facts, podRowCount),
  ].flat();
}

function unknownRuns({ record: { runs, maintenance }, own, span }: Facts): string[] {
  if (runs === undefined) return [];
  const texts = [];
  const first = own[0];
  if (first === undefined)
    texts.push(
      'Temporal has no run of this maintenance any more: tiers, counts and causes are only what the object and its Events hold.',
    );
  else if (maintenance !== undefined && first.startedAtMs - span.fromMs > startsWithinMs)
    texts.push(
      'Temporal has no run from the beginning of the maintenance: what happened before its first run is only what the object and its Events hold.',
    );
  const others = runs.length - own.length;
  if (others > 0)
    texts.push(
      `${numbered(others, 'run')} of earlier maintenances of the same name ${others === 1 ? 'is' : 'are'} not shown.`,
    );
  return texts;
}

function unknownObjects({ record: { maintenance, events }, span }: Facts): string[] {
  const texts = [];
  if (maintenance === undefined)
    texts.push('The object does not exist any more, or may not be read: the history alone says what it was.');
  const firstMs = Math.min(...events.map((event) => event.firstMs));
  if (events.length === 0) texts.push(`The cluster has no Events of it: ${retention}.`);
  else if (firstMs > span.fromMs + startsWithinMs)
    texts.push(`Events from before ${new Date(firstMs).toISOString()} are gone: ${retention}.`);
  return texts;
}

const retention = 'the apiserver keeps them for an hour by default';

function unknownDetails({ snapshots, drain }: Facts, podRowCount: number): string[] {
  if (drain === undefined || snapshots.length === 0) return [];
  const left = snapshots.at(-1)?.snapshot.podsEvacuated ?? 0;
  const lines =
    podRowCount === 0
      ? 'no pod has a line of its own'
      : `${numbered(podRowCount, 'pod')} of ${left} or more have a line of their own`;
  return [
    'Counts and causes were observed when a tier ended, when what blocked pods changed, and once in a while: shorter changes are missing.',
    `The history counts pods. Only those that are still there, that were blocked, or that have Events are known by name: ${lines}.`,
  ];
}

function duration(label: string, ms: number): Figure {
  return { label, value: { kind: 'Duration', ms } };
}

function count(label: string, value: number): Figure {
  return { label, value: { kind: 'Count', count: value } };
}
