/** A time span; all times of a report are in milliseconds since the epoch. */
export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Meanings of the bars of a timeline; each kind has a color of its own. */
export const BarKind = {
  Stage: 'Stage',
  Tier: 'Tier',
  /** A pod with an Evacuation or an EvictionRequest, or a node whose pods leave. */
  Leaving: 'Leaving',
  Blocked: 'Blocked',
  Paused: 'Paused',
  /** A drained node, on which the work is done. */
  Drained: 'Drained',
  /** A node that is uncordoned, and returns to service. */
  Returning: 'Returning',
  /** A node in a window, of which only that is known. */
  InProgress: 'InProgress',
  Failed: 'Failed',
  /** Nothing starts. */
  Waiting: 'Waiting',
} as const;
export type BarKind = (typeof BarKind)[keyof typeof BarKind];

export interface Bar extends Span {
  readonly kind: BarKind;
  /** Stands in the bar if there is room. */
  readonly label?: string;
}

/** An Event of a row, or a moment of a timeline. */
export interface Mark {
  readonly atMs: number;
  readonly label: string;
}

export interface TimelineRow {
  readonly name: string;
  readonly bars: readonly Bar[];
  readonly marks: readonly Mark[];
}

/** Rows on one time axis. */
export interface Timeline {
  readonly title: string;
  readonly span: Span;
  readonly rows: readonly TimelineRow[];
  /** Vertical lines through all rows. */
  readonly moments: readonly Mark[];
  /** Number of rows that are left out. */
  readonly more: number;
}

/** Counts that keep their values until the next sample. */
export interface Counts {
  readonly title: string;
  readonly span: Span;
  readonly unit: string;
  /** The series add up to a whole. */
  readonly isStacked: boolean;
  readonly series: readonly CountSeries[];
}

export interface CountSeries {
  readonly name: string;
  readonly kind: BarKind;
  readonly samples: readonly { readonly atMs: number; readonly count: number }[];
}

/** A reason why pods could not leave, or why a window started no node, and when it was observed. */
export interface Cause {
  readonly text: string;
  /** The pods that it kept, or the machine-readable reason. */
  readonly subjects: readonly string[];
  readonly moreSubjects: number;
  readonly spans: readonly Span[];
  readonly totalMs: number;
  /** It was still there at the end of the report. */
  readonly isOpen: boolean;
}

export interface BudgetRow {
  readonly name: string;
  readonly limit: string;
  readonly state: string;
  /** Time for which it was observed to keep pods or nodes. */
  readonly heldMs?: number;
}

export interface Figure {
  readonly label: string;
  readonly value: FigureValue;
}

export type FigureValue =
  | { readonly kind: 'Text'; readonly text: string }
  | { readonly kind: 'Count'; readonly count: number }
  | { readonly kind: 'Duration'; readonly ms: number };

/** A request or an action of a user or a process. */
export interface Action {
  readonly atMs: number;
  readonly who?: string;
  readonly what: string;
  readonly source: 'Temporal' | 'Kubernetes';
}

export interface NodeRow {
  readonly node: string;
  readonly pods?: { readonly evacuated: number; readonly all: number };
  readonly state: string;
  readonly message: string;
}

/** The content of the page that `kubectl maintenance report` prints. Plain JSON; every text is one printable line of bounded length. */
export interface Report {
  readonly kind: 'NodeMaintenance' | 'MaintenanceWindow';
  readonly name: string;
  readonly reason?: string;
  readonly state: string;
  readonly span: Span;
  /** IANA time zone in which times are shown. */
  readonly timeZone: string;
  readonly figures: readonly Figure[];
  readonly timelines: readonly Timeline[];
  readonly counts: readonly Counts[];
  /** Axis of the causes. */
  readonly causeSpan: Span;
  readonly causes: readonly Cause[];
  readonly moreCauses: number;
  readonly budgets: readonly BudgetRow[];
  readonly nodes: readonly NodeRow[];
  readonly moreNodes: number;
  readonly actions: readonly Action[];
  readonly moreActions: number;
  /** Facts that the report could not know, and why. */
  readonly unknown: readonly string[];
}
