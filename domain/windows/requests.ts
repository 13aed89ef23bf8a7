import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { MAX_APPROVED_NODES, WindowRequestAnnotation } from '../../api/names.ts';
import { listed } from '../common/names.ts';
import { isNameOrUid, isRecord, shown } from '../common/untrusted.ts';
import type { ActiveWindow, RecordedRequests } from './openWindow.ts';
import { pausedByAnnotation, pauseOf } from './overrides.ts';

/** Requests of users to an open window: by annotation of the object, or through Temporal. Each applies to one opening. */

/** The requests that the object records. */
type Requests = NonNullable<ActiveWindow['requests']>;

/** Returns the recorded requests with another one. Approvals accumulate; a flag replaces the earlier one. */
export function withRequest(
  recorded: Requests | undefined,
  { approvedNodes = [], ...flags }: Requests,
): Requests {
  const nodes = [...new Set([...(recorded?.approvedNodes ?? []), ...approvedNodes])];
  return { ...recorded, ...flags, ...(nodes.length > 0 && { approvedNodes: nodes }) };
}

/** Annotations of requests, in the order in which they are applied. There is none to pause: the annotation `paused` does (overrides.ts). */
const annotationKeys = [
  WindowRequestAnnotation.Approve,
  WindowRequestAnnotation.Resume,
  WindowRequestAnnotation.Cancel,
] as const;

export function hasRequestAnnotation({ metadata: { annotations } }: Readonly<MaintenanceWindow>): boolean {
  return annotationKeys.some((key) => annotations?.[key] !== undefined);
}

/** Returns the value of an annotation that asks this opening, and these nodes of it if any. */
export function requestAnnotationValue(runId: string, nodes: readonly string[] = []): string {
  return nodes.length === 0 ? runId : `${runId}:${nodes.join(',')}`;
}

export interface AnnotatedRequests {
  /** The annotations of requests that the object has. */
  annotations: readonly WindowRequestAnnotation[];
  /** The requests to record; undefined if none was accepted. */
  requests?: Requests;
  /** Why the others are rejected. */
  problems: readonly string[];
}

/** Decides about the requests in the annotations of a window. `isSelected` reports whether the window selects the node of this name. */
export function decideAnnotatedRequests(
  window: Readonly<MaintenanceWindow>,
  isSelected: (node: string) => boolean,
): AnnotatedRequests {
  const { annotations = {} } = window.metadata;
  const keys = annotationKeys.filter((key) => annotations[key] !== undefined);
  let requests: Requests | undefined;
  const problems: string[] = [];
  for (const key of keys) {
    const recorded = requests ?? window.status?.active?.requests;
    const decision = decideRequest(window, { key, value: annotations[key] ?? '' }, { recorded, isSelected });
    if (decision.kind === 'Accepted') requests = decision.requests;
    else problems.push(`metadata.annotations[${key}]: ${decision.problem}`);
  }
  return { annotations: keys, problems, ...(requests && { requests }) };
}

type RequestDecision = { kind: 'Accepted'; requests: Requests } | { kind: 'Rejected'; problem: string };

function decideRequest(
  window: Readonly<MaintenanceWindow>,
  { key, value }: { key: WindowRequestAnnotation; value: string },
  { recorded, isSelected }: { recorded: Requests | undefined; isSelected: (node: string) => boolean },
): RequestDecision {
  const { spec, status } = window;
  const { runId, nodes } = parsedValue(key, value);
  const problem =
    openingProblem(status?.active, runId) ??
    (key === WindowRequestAnnotation.Approve
      ? approvalProblem(spec.approval, nodes, isSelected)
      : undefined) ??
    (key === WindowRequestAnnotation.Resume ? resumeProblem(window) : undefined);
  if (problem !== undefined) return { kind: 'Rejected', problem };
  const requests = withRequest(recorded, requestOf(key, nodes));
  if ((requests.approvedNodes?.length ?? 0) > MAX_APPROVED_NODES)
    return {
      kind: 'Rejected',
      problem: `more than ${MAX_APPROVED_NODES} nodes would be approved by name: approve the whole window`,
    };
  return { kind: 'Accepted', requests };
}

/** Only an approval names nodes, after a colon. */
function parsedValue(
  key: WindowRequestAnnotation,
  value: string,
): { runId: string; nodes: readonly string[] | undefined } {
  const colon = key === WindowRequestAnnotation.Approve ? value.indexOf(':') : -1;
  if (colon === -1) return { runId: value, nodes: undefined };
  return { runId: value.slice(0, colon), nodes: value.slice(colon + 1).split(',') };
}

function openingProblem(active: ActiveWindow | undefined, runId: string): string | undefined {
  if (active === undefined) return `the window is not open, or not any more (got run id ${shown(runId)})`;
  if (active.runId === runId) return undefined;
  return `expected the run id of the opening, .status.active.runId, which is ${active.runId} (got ${shown(runId)}): check the window and ask again`;
}

function approvalProblem(
  approval: MaintenanceWindow['spec']['approval'],
  nodes: readonly string[] | undefined,
  isSelected: (node: string) => boolean,
): string | undefined {
  if (approval === 'None') return 'the window requires no approval: spec.approval is None';
  if (nodes === undefined) return undefined;
  if (approval === 'PerWindow')
    return 'the window can be approved only as a whole, because spec.approval is PerWindow: name no node';
  const unknown = nodes.filter((node) => !isNameOrUid(node) || !isSelected(node));
  if (unknown.length === 0) return undefined;
  return `the window does not select ${listed(unknown.map(shown))}: name only nodes that it selects`;
}

function resumeProblem(window: Readonly<MaintenanceWindow>): string | undefined {
  return pauseOf(window) === undefined ? undefined : pausedByAnnotation(window.metadata.name);
}

function requestOf(key: WindowRequestAnnotation, nodes: readonly string[] | undefined): Requests {
  switch (key) {
    case WindowRequestAnnotation.Approve:
      return nodes === undefined ? { approved: true } : { approvedNodes: [...nodes] };
    case WindowRequestAnnotation.Resume:
      return { paused: false };
    case WindowRequestAnnotation.Cancel:
      return { cancelled: true };
  }
}

/** Reports whether the opening records the request of an annotation. */
export function isRequestRecorded(
  { requests = {} }: Pick<ActiveWindow, 'requests'>,
  key: WindowRequestAnnotation,
  nodes: readonly string[] = [],
): boolean {
  const { approved = false, approvedNodes = [], paused = false, cancelled = false } = requests;
  switch (key) {
    case WindowRequestAnnotation.Approve:
      return nodes.length === 0 ? approved : nodes.every((node) => approvedNodes.includes(node));
    case WindowRequestAnnotation.Resume:
      return !paused;
    case WindowRequestAnnotation.Cancel:
      return cancelled;
  }
}

/** The requests of an opening, as its workflow shows them. */
export type KnownRequests = Omit<RecordedRequests, 'end'>;

/**
 * Returns the recorded requests if they are not those that the workflow knows: a user has asked by annotation. What the workflow knows
 * arrives through Temporal, and may be anything.
 */
export function requestsUnknownTo(known: unknown, recorded: RecordedRequests): KnownRequests | undefined {
  const shownNow = JSON.stringify(fieldsOf(isRecord(known) ? known : {}));
  const { approved, approvedNodes, paused, cancelled } = recorded;
  const newest = { approved, approvedNodes, paused, cancelled };
  return shownNow === JSON.stringify(fieldsOf(newest)) ? undefined : newest;
}

function fieldsOf({
  approved,
  approvedNodes,
  paused,
  cancelled,
}: {
  [Field in keyof KnownRequests]?: unknown;
}): unknown[] {
  return [approved, approvedNodes, paused, cancelled];
}
