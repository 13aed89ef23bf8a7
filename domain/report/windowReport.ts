import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { COMPLETED_ANNOTATION } from '../../api/names.ts';
import type { NodeDisruptionBudget } from '../../api/nodeDisruptionBudget.ts';
import { compareNames } from '../common/names.ts';
import { isCompleted } from '../common/stage.ts';
import { numbered, oneLine } from '../common/text.ts';
import { nodeOutcomeOf } from '../windows/nodeOutcome.ts';
import { isCancelled, nodeResultOf } from '../windows/nodeResult.ts';
import { windowProblems } from '../windows/summary.ts';
import type { WindowMaintenance } from '../windows/windowMaintenance.ts';
import { rolloutText } from './rolloutText.ts';
import { bounded, causeOf, type RecordedAction, reportActions, timeOf } from './parts.ts';
import { type RecordedRun, runsOfObject, uidOf, type WindowHistory, windowHistoryOf } from './recorded.ts';
import type {
  Bar,
  BudgetRow,
  Cause,
  Counts,
  CountSeries,
  Figure,
  Mark,
  NodeRow,
  Report,
  Span,
  TimelineRow,
} from './report.ts';
import { barsWithin, observedSpans, totalMs } from './spans.ts';

/** Everything from which the report of a window is made. */
export interface WindowRecord {
  readonly name: string;
  /** Time of the apiserver. */
  readonly nowMs: number;
  /** All runs of windows of this name that Temporal has; undefined if it was not reached. */
  readonly runs: readonly RecordedRun[] | undefined;
  /** Undefined if it was deleted, or may not be read. */
  readonly window: MaintenanceWindow | undefined;
  /** The NodeMaintenances of the window that still exist. */
  readonly maintenances: readonly WindowMaintenance[];
  readonly budgets: readonly NodeDisruptionBudget[];
  readonly actions: readonly RecordedAction[];
  /** Names of what could not be read, and why. */
  readonly unread: readonly string[];
}

interface Facts {
  readonly record: WindowRecord;
  readonly history: WindowHistory;
  readonly span: Span;
  readonly isOver: boolean;
  /** Number of other openings that Temporal has. */
  readonly others: number;
  readonly hasOpened: boolean;
}

const maxTextLength = 300;
const maxRows = 60;
const maxNodes = 300;
const maxCauses = 12;

/** Prepares the report of the newest opening of a window. Total: any history and objects result in a report. */
export function windowReport(record: WindowRecord): Report {
  const facts = factsOf(record);
  const { span, history } = facts;
  const rows = nodeTimelineRows(facts);
  const timeline = bounded(rows, maxRows);
  const causes = bounded(causesOf(facts), maxCauses);
  const nodes = bounded(nodeRows(facts), maxNodes);
  const actions = reportActions(
    record.actions.filter(({ time }) => Date.parse(time) >= span.fromMs || !facts.hasOpened),
  );
  const reason = record.window?.spec.template.reason;
  return {
    kind: 'MaintenanceWindow',
    name: record.name,
    ...(reason && { reason: oneLine(reason, maxTextLength) }),
    state: stateOf(facts),
    span,
    timeZone: record.window?.spec.schedule.timeZone ?? 'UTC',
    figures: figuresOf(facts, rows),
    timelines: [
      {
        title: 'Nodes',
        moments: momentsOf(facts),
        span,
        rows: [...openingRows(facts), ...timeline.items],
        more: timeline.more,
      },
    ],
    counts: history.states.length < 2 ? [] : [countsOf(facts)],
    causeSpan: span,
    causes: causes.items,
    moreCauses: causes.more,
    budgets: budgetRows(record),
    nodes: nodes.items,
    moreNodes: nodes.more,
    actions: actions.items,
    moreActions: actions.more,
    unknown: unknownOf(facts),
  };
}

/** The newest opening: the runs of one workflow id, which a Schedule makes of the time. */
function factsOf(record: WindowRecord): Facts {
  const { window, nowMs, runs = [] } = record;
  const own = runsOfObject(runs, window?.metadata.uid);
  const openings = [...Map.groupBy(own, openingKey).values()];
  const opening = openings.at(-1) ?? [];
  const history = windowHistoryOf(opening);
  const active = window?.status?.active;
  const startMs = history.start ?? timeOf(active?.start) ?? opening[0]?.startedAtMs;
  const closedMs = history.closedAtMs ?? (active === undefined ? opening.at(-1)?.closedAtMs : undefined);
  const fromMs = startMs ?? Math.min(nowMs, ...startsOf(record));
  const ends = closedMs === undefined ? [nowMs] : [closedMs, ...endsOf(record, fromMs)];
  return {
    record,
    history,
    span: { fromMs, toMs: Math.max(fromMs, ...ends) },
    isOver: closedMs !== undefined,
    others: Math.max(0, openings.length - 1),
    hasOpened: startMs !== undefined,
  };
}

/** Runs that continue each other have the same nominal time, and a window that is opened by hand may use one workflow id again. */
function openingKey(run: RecordedRun): string {
  return `${run.workflowId} ${windowHistoryOf([run]).start ?? ''} ${uidOf(run) ?? ''}`;
}

function startsOf({ maintenances }: WindowRecord): number[] {
  return maintenances.flatMap(({ maintenance }) => timeOf(maintenance.metadata.creationTimestamp) ?? []);
}

/** Nodes that the window left to finish returned to service after it was closed. */
function endsOf({ maintenances }: WindowRecord, fromMs: number): number[] {
  return maintenances
    .filter(({ maintenance }) => (timeOf(maintenance.metadata.creationTimestamp) ?? 0) >= fromMs)
    .flatMap(({ maintenance }) => timeOf(maintenance.metadata.annotations?.[COMPLETED_ANNOTATION]) ?? []);
}

function stateOf({ record: { window, nowMs }, isOver, hasOpened }: Facts): string {
  if (window === undefined) return 'deleted';
  const { active, progress } = window.status ?? {};
  const done =
    progress === undefined ? '' : `: ${progress.done} of ${progress.nodes} nodes done in its newest revision`;
  if (active !== undefined)
    return `${Date.parse(active.end) <= nowMs ? 'ended, nodes in progress' : 'open'}${done}`;
  if (!hasOpened)
    return windowProblems(window.status?.conditions ?? []).length > 0 ? 'not scheduled' : 'not opened yet';
  return `${isOver ? 'closed' : 'not open'}${done}`;
}

/** The time for which the window was open by its schedule, above its nodes. */
function openingRows({ history, span, record: { window } }: Facts): TimelineRow[] {
  const { active } = window?.status ?? {};
  const fromMs = history.start ?? timeOf(active?.start);
  const toMs = endOfWindow(history, window);
  if (fromMs === undefined || toMs === undefined) return [];
  const bars = barsWithin([{ kind: 'Stage', label: 'open', fromMs, toMs }], span);
  return [{ name: 'Window', bars, marks: [] }];
}

function endOfWindow(history: WindowHistory, window: MaintenanceWindow | undefined): number | undefined {
  return history.end ?? timeOf(window?.status?.active?.end);
}

/** The end of the window, if nodes went on after it. */
function momentsOf({ history, span, record: { window } }: Facts): Mark[] {
  const atMs = endOfWindow(history, window);
  return atMs !== undefined && atMs > span.fromMs && atMs < span.toMs
    ? [{ atMs, label: 'end of the window' }]
    : [];
}

/** Nodes in the order in which they started. */
function nodeTimelineRows(facts: Facts): TimelineRow[] {
  const { record, span } = facts;
  const drafts = new Map<string, { bars: Bar[] }>();
  const add = (node: string, bars: readonly Bar[]) => {
    const name = oneLine(node, maxTextLength);
    const known = drafts.get(name) ?? { bars: [] };
    known.bars.push(...bars);
    drafts.set(name, known);
  };
  const objects = record.maintenances.filter(({ node }) => node !== '');
  const known = new Set(objects.map(({ maintenance }) => maintenance.metadata.name));
  for (const one of objects) add(one.node, barsOfMaintenance(one, span.toMs));
  for (const { node, maintenance, bars } of barsOfStates(facts)) if (!known.has(maintenance)) add(node, bars);
  return [...drafts]
    .map(([name, { bars }]) => ({ name, bars: barsWithin(bars, span), marks: [] }))
    .filter(({ bars }) => bars.some(({ fromMs, toMs }) => toMs > fromMs))
    .toSorted((a, b) => startOf(a.bars) - startOf(b.bars) || compareNames(a.name, b.name));
}

function startOf(bars: readonly Bar[]): number {
  return Math.min(...bars.map(({ fromMs }) => fromMs));
}

/** Returns the bars of a node according to its object: the drain, the work, the return to service. */
function barsOfMaintenance({ maintenance }: WindowMaintenance, nowMs: number): Bar[] {
  const { metadata, status } = maintenance;
  const startMs = timeOf(metadata.creationTimestamp);
  if (startMs === undefined) return [];
  const finishedMs = timeOf(metadata.annotations?.[COMPLETED_ANNOTATION]);
  const endMs = isCompleted(maintenance) ? (finishedMs ?? nowMs) : nowMs;
  const returnMs =
    timeOf(status?.stageStatuses.find(({ name }) => name === 'Complete')?.startTimestamp) ?? endMs;
  const workMs = Math.min(sinceTrue(maintenance, 'Drained') ?? returnMs, returnMs);
  const failedMs = failureOf(maintenance) ?? endMs;
  const bars: Bar[] = [
    { kind: 'Leaving', label: 'drain', fromMs: startMs, toMs: workMs },
    { kind: 'Drained', label: 'work', fromMs: workMs, toMs: returnMs },
    { kind: 'Returning', label: 'return', fromMs: returnMs, toMs: endMs },
    { kind: 'Failed', label: 'failed', fromMs: failedMs, toMs: endMs },
  ];
  return bars.filter(({ fromMs, toMs }) => fromMs < toMs);
}

function sinceTrue({ status }: WindowMaintenance['maintenance'], type: string): number | undefined {
  const condition = status?.conditions.find((one) => one.type === type);
  return condition?.status === 'True' ? timeOf(condition.lastTransitionTime) : undefined;
}

function failureOf(maintenance: WindowMaintenance['maintenance']): number | undefined {
  const result = nodeResultOf(maintenance);
  return result?.status === 'False' && !isCancelled(result) ? timeOf(result.lastTransitionTime) : undefined;
}

/** Returns the bars of all nodes according to the history, for those whose objects are gone. */
function barsOfStates({
  history: { states },
  span,
}: Facts): { node: string; maintenance: string; bars: Bar[] }[] {
  const keysOf = (kind: 'inProgress' | 'failed') =>
    observedSpans(
      states.map(({ atMs, state }) => ({
        atMs,
        keys: new Set(state[kind].map(({ node, maintenance }) => JSON.stringify([node, maintenance]))),
      })),
      span.toMs,
    );
  const barsOf = (kind: Bar['kind'], label: string, found: ReadonlyMap<string, readonly Span[]>) =>
    [...found].map(([key, spans]) => {
      const [node = '', maintenance = ''] = JSON.parse(key) as string[];
      return { node, maintenance, bars: spans.map((one): Bar => ({ ...one, kind, label })) };
    });
  return [
    ...barsOf('InProgress', 'in progress', keysOf('inProgress')),
    ...barsOf('Failed', 'failed', keysOf('failed')),
  ];
}

function countsOf({ history: { states }, span }: Facts): Counts {
  const series = (
    name: string,
    kind: CountSeries['kind'],
    count: (state: (typeof states)[number]['state']) => number,
  ): CountSeries => ({
    name,
    kind,
    samples: states.map(({ atMs, state }) => ({ atMs, count: Math.max(0, count(state)) })),
  });
  return {
    title: 'Nodes of the window',
    span,
    unit: 'nodes',
    isStacked: true,
    series: [
      series('done', 'Returning', ({ done }) => done),
      series('in progress', 'Leaving', ({ inProgress }) => inProgress.length),
      series('failed', 'Failed', ({ failed }) => failed.length),
      series('remaining', 'Waiting', ({ remaining }) => remaining),
    ],
  };
}

function causesOf({ history: { states }, span, record: { window } }: Facts): Cause[] {
  const active = window?.status?.active?.waiting;
  const samples = states.map(({ atMs, state: { waiting } }) => ({
    atMs,
    keys: new Set(waiting === undefined ? [] : [JSON.stringify([waiting.reason, waiting.message])]),
  }));
  if (samples.length === 0 && active !== undefined)
    samples.push({ atMs: span.toMs, keys: new Set([JSON.stringify([active.reason, active.message])]) });
  return [...observedSpans(samples, span.toMs)]
    .flatMap(([key, spans]) => {
      const [reason = '', text = ''] = JSON.parse(key) as string[];
      return causeOf({ text, subjects: [reason], moreSubjects: 0, spans }, span);
    })
    .toSorted((a, b) => b.totalMs - a.totalMs || compareNames(a.text, b.text));
}

function budgetRows({ budgets, window, name }: WindowRecord): BudgetRow[] {
  const own: BudgetRow[] =
    window === undefined
      ? []
      : [{ name: `MaintenanceWindow ${name}`, limit: rolloutText(window.spec.rollout), state: '' }];
  const clusters = budgets.map(({ metadata, spec, status }): BudgetRow => {
    const reserved = (status?.reservations ?? []).filter((one) => one.window === name).length;
    const counted =
      status === undefined
        ? 'not computed yet'
        : `${status.outOfService} of ${numbered(status.nodes, 'node')} out of service, ${status.allowed} allowed, ${reserved} reserved by this window`;
    return {
      name: `NodeDisruptionBudget ${oneLine(metadata.name, maxTextLength)}`,
      limit: oneLine(`maxUnavailable ${spec.maxUnavailable}`, maxTextLength),
      state: counted,
    };
  });
  return [...own, ...clusters].slice(0, 20);
}

function nodeRows({ record: { maintenances } }: Facts): NodeRow[] {
  return maintenances
    .filter(({ node }) => node !== '')
    .map(({ node, maintenance }) => {
      const outcome = nodeOutcomeOf(maintenance);
      const result = nodeResultOf(maintenance);
      const message =
        result === undefined ? (maintenance.status?.nodeStatuses[0]?.drainMessage ?? '') : result.message;
      return {
        node: oneLine(node, maxTextLength),
        state: states[outcome.state],
        message: oneLine(message, maxTextLength),
      };
    })
    .toSorted((a, b) => compareNames(a.node, b.node));
}

const states = {
  InProgress: 'in progress',
  Succeeded: 'done',
  Failed: 'failed',
  Remaining: 'cancelled, remains',
} as const;

function figuresOf({ history, span, isOver, hasOpened }: Facts, rows: readonly TimelineRow[]): Figure[] {
  const last = history.states.at(-1)?.state;
  const count = (label: string, value: number): Figure => ({ label, value: { kind: 'Count', count: value } });
  const duration = (label: string, ms: number): Figure => ({ label, value: { kind: 'Duration', ms } });
  const durations = rows.map(({ bars }) => totalMs(bars)).toSorted((a, b) => a - b);
  const longest = durations.at(-1);
  const median = durations[Math.floor(durations.length / 2)];
  return [
    ...(hasOpened
      ? [duration(isOver ? 'from opening to end' : 'since the opening', span.toMs - span.fromMs)]
      : []),
    ...(last === undefined
      ? []
      : [
          count('nodes', last.nodes),
          count('done', last.done),
          count('in progress', last.inProgress.length),
          count('failed', last.failed.length),
          count('remaining', last.remaining),
        ]),
    ...(median === undefined ? [] : [duration('median time of a node', median)]),
    ...(longest === undefined ? [] : [duration('longest time of a node', longest)]),
    ...(history.retries === 0 ? [] : [count('activities retried', history.retries)]),
  ];
}

function unknownOf({ record, history, others, hasOpened }: Facts): string[] {
  const { runs, window, maintenances } = record;
  const named = new Set(maintenances.map(({ maintenance }) => maintenance.metadata.name));
  const gone = new Set(
    history.states.flatMap(({ state }) =>
      state.inProgress.map(({ maintenance }) => maintenance).filter((name) => !named.has(name)),
    ),
  );
  return [
    ...record.unread,
    ...(runs !== undefined && !hasOpened
      ? [
          'Temporal has no run of this window: it was not opened yet, or the history of its openings is not kept any more.',
        ]
      : []),
    ...(others > 0
      ? [
          `${numbered(others, 'earlier opening')} ${others === 1 ? 'is' : 'are'} not shown: this is the newest one.`,
        ]
      : []),
    ...(window === undefined
      ? ['The object does not exist any more, or may not be read: the history alone says what it was.']
      : []),
    ...(gone.size > 0
      ? [
          `${numbered(gone.size, 'NodeMaintenance')} of the window ${gone.size === 1 ? 'does' : 'do'} not exist any more: of their nodes only the time in progress is known.`,
        ]
      : []),
  ];
}
