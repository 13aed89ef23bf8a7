import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import { podTypes } from '../drain/plan.ts';
import { shown } from '../common/untrusted.ts';

/** A group of pods of a shutdown, as in the `shutdownGracePeriodByPodPriority` of the kubelet. */
export interface ShutdownPriority {
  /** Pods with a priority up to this value, which are not in an earlier group. */
  readonly priority: number;
  /** How long the group may take; undefined if the group has no limit of its own. */
  readonly seconds?: number;
}

export type ParsedPriorities =
  | { readonly ok: true; readonly priorities: readonly ShutdownPriority[] }
  | { readonly ok: false; readonly problem: string };

/** Each becomes an entry of every pod type, and a plan has at most 268 entries, of which twelve are always there. */
const maxPriorities = 80;
const maxSeconds = 86_400;
const minPriority = -2_147_483_648;
const maxPriority = 2_147_483_647;

/** Parses `PRIORITY[:SECONDS],...`, for example `0:60,1000:120,2000000000`. Empty text has no groups. The result is in ascending order. */
export function parseShutdownPriorities(text: string): ParsedPriorities {
  const parts = text.split(',').map((part) => part.trim());
  if (text.trim() === '') return { ok: true, priorities: [] };
  if (parts.length > maxPriorities) return problem(`expected at most ${maxPriorities} priorities`);
  const priorities: ShutdownPriority[] = [];
  for (const part of parts) {
    const parsed = parsePart(part);
    if (parsed === undefined)
      return problem(
        `expected PRIORITY or PRIORITY:SECONDS, such as 1000:60, with a priority of 32 bits and at most ${maxSeconds} seconds (got ${shown(part)})`,
      );
    if (priorities.some(({ priority }) => priority === parsed.priority))
      return problem(`priority ${parsed.priority} is there twice: remove one`);
    priorities.push(parsed);
  }
  return { ok: true, priorities: priorities.toSorted((a, b) => a.priority - b.priority) };
}

function problem(text: string): ParsedPriorities {
  return { ok: false, problem: text };
}

function parsePart(part: string): ShutdownPriority | undefined {
  const groups = /^(?<priority>-?\d{1,10})(?::(?<seconds>\d{1,5}))?$/.exec(part)?.groups;
  if (groups === undefined) return undefined;
  const priority = Number(groups['priority']);
  const seconds = groups['seconds'] === undefined ? undefined : Number(groups['seconds']);
  if (priority < minPriority || priority > maxPriority || (seconds ?? 0) > maxSeconds) return undefined;
  return { priority, ...(seconds !== undefined && { seconds }) };
}

/** "The kubelet could pass the priorities from the shutdownGracePeriodByPodPriority to the NodeMaintenance, just without the shutdownGracePeriodSeconds." */
export function drainPlanOf(priorities: readonly ShutdownPriority[]): DrainPlanEntry[] {
  return podTypes.flatMap((podType) =>
    priorities.map(({ priority }) => ({ podPriority: priority, podType })),
  );
}

/** Returns how long all groups may take together, or undefined if a group has no limit. */
export function totalSeconds(priorities: readonly ShutdownPriority[]): number | undefined {
  let total = 0;
  for (const { seconds } of priorities) {
    if (seconds === undefined) return undefined;
    total += seconds;
  }
  return priorities.length === 0 ? undefined : total;
}
