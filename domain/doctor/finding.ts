import { numbered } from '../common/text.ts';

/** Checks of `kubectl maintenance doctor`, in the order of its report. */
export const CheckName = {
  Kubernetes: 'kubernetes',
  Installation: 'installation',
  Permissions: 'permissions',
  Webhooks: 'webhooks',
  Certificates: 'certificates',
  Processes: 'processes',
  Clocks: 'clocks',
  Temporal: 'temporal',
  Maintenances: 'maintenances',
  Windows: 'windows',
  Evacuations: 'evacuations',
  Evacuators: 'evacuators',
  Budgets: 'budgets',
  Leases: 'leases',
  Nodes: 'nodes',
} as const;
export type CheckName = (typeof CheckName)[keyof typeof CheckName];

/**
 * ok: works. warning: works, but not for long, not for everything, or could not be checked. error: maintenances do not work, or one of them
 * makes no progress.
 */
export type FindingResult = 'ok' | 'warning' | 'error';

/** One fact that a check has found. */
export interface Finding {
  readonly result: FindingResult;
  /** A sentence without a full stop. */
  readonly message: string;
  /** The next step for the user; absent if the result is ok. */
  readonly remedy?: string;
  /** The object as kubectl writes it, such as `nodemaintenance/rack-7` or `evacuation/shop/web-1`. */
  readonly object?: string;
}

/** A finding in the report. */
export type ReportedFinding = Finding & { readonly check: CheckName };

export function ok(message: string): Finding {
  return { result: 'ok', message };
}

export function warning(message: string, remedy: string, object?: string): Finding {
  return { result: 'warning', message, remedy, ...(object !== undefined && { object }) };
}

export function error(message: string, remedy: string, object?: string): Finding {
  return { result: 'error', message, remedy, ...(object !== undefined && { object }) };
}

/** Findings of one kind that a report lists; a large cluster may have hundreds. */
const maxListed = 10;

/** Returns the findings, or `fine` if there are none. Errors come first, and of many only the first are listed. */
export function listedFindings(findings: readonly Finding[], fine: string): Finding[] {
  if (findings.length === 0) return [ok(fine)];
  const errorsFirst = findings.toSorted((a, b) => weights[b.result] - weights[a.result]);
  const rest = errorsFirst.slice(maxListed);
  const [next] = rest;
  if (next === undefined) return errorsFirst;
  const omitted: Finding = {
    result: next.result,
    message: `${numbered(rest.length, 'more finding')} of this check ${rest.length === 1 ? 'is' : 'are'} not listed`,
    remedy: 'resolve those above, and run the command again',
  };
  return [...errorsFirst.slice(0, maxListed), omitted];
}

const weights: Record<FindingResult, number> = { ok: 0, warning: 1, error: 2 };

/** Returns the worst result of a report. */
export function worstOf(findings: readonly Pick<Finding, 'result'>[]): FindingResult {
  const worst = Math.max(0, ...findings.map(({ result }) => weights[result]));
  return worst === 2 ? 'error' : worst === 1 ? 'warning' : 'ok';
}

/** Formats milliseconds for messages: `90 s`, `5 min`, `3 h`, `2 d`. */
export function durationText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}
