import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, type Connection, ScheduleNotFoundError } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { windowWorkflowIdOf } from '../api/names.ts';
import { addAttributes, hoursOf, knownAttributes } from './namespace.ts';
import { answerIn, Code } from './reach.ts';
import type { ScheduleFile } from './scheduleFile.ts';
import { difference, isOwned, optionsOf, shapeOfFile, shapeOfSchedule } from './scheduleShape.ts';
import type { Wanted } from './wanted.ts';

/** One thing that differs from what is wanted. */
export interface Change {
  /** What it is about: `Schedule os-patch-year-end`. */
  about: string;
  /** `- field: as it is` and `+ field: as it is wanted`. */
  lines: readonly string[];
  apply: () => Promise<void>;
}

/** How Temporal differs from what is wanted. */
export interface Comparison {
  changes: readonly Change[];
  /** What is not as it is wanted, and cannot be made so from here: each in a line with the remedy. */
  conflicts: readonly string[];
  /** What people may want to know, and is no difference. */
  notes: readonly string[];
}

interface Deps {
  connection: Connection;
  client: Client;
  namespace: string;
  /** Whether Schedules of which there is no file any more are to go. */
  prune: boolean;
}

export async function compare(deps: Deps, wanted: Wanted): Promise<Comparison> {
  const namespace = await compareNamespace(deps, wanted);
  const isMissing = namespace.kind === 'Missing';
  const attributes = await compareAttributes(deps, wanted, isMissing);
  const schedules = await compareSchedules(deps, wanted, isMissing);
  const parts = [namespace, attributes, ...schedules];
  return {
    changes: parts.flatMap(({ changes = [] }) => changes),
    conflicts: parts.flatMap(({ conflicts = [] }) => conflicts),
    notes: parts.flatMap(({ notes = [] }) => notes),
  };
}

type Part = Partial<Comparison>;

async function compareNamespace(
  { connection: { workflowService }, namespace }: Deps,
  { retention }: Wanted,
): Promise<Part & { kind: 'Missing' | 'There' }> {
  const workflowExecutionRetentionPeriod = msToTs(hoursOf(retention) * 3_600_000);
  const about = `namespace ${namespace}`;
  const found = await workflowService.describeNamespace({ namespace }).catch(unlessNotFound);
  if (found === undefined) {
    const apply = async () => {
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    };
    return { kind: 'Missing', changes: [{ about, lines: [`+ retention: ${retention}`], apply }] };
  }
  const hours = Number(found.config?.workflowExecutionRetentionTtl?.seconds ?? 0) / 3_600;
  if (hours === hoursOf(retention)) return { kind: 'There' };
  const config = { workflowExecutionRetentionTtl: workflowExecutionRetentionPeriod };
  const lines = [`- retention: ${retentionText(hours)}`, `+ retention: ${retention}`];
  const apply = async () => {
    await workflowService.updateNamespace({ namespace, config });
  };
  return { kind: 'There', changes: [{ about, lines, apply }] };
}

function retentionText(hours: number): string {
  return hours % 24 === 0 ? `${hours / 24}d` : `${hours}h`;
}

async function compareAttributes(
  { connection, namespace }: Deps,
  { searchAttributes }: Wanted,
  isMissing: boolean,
): Promise<Part> {
  const known = isMissing ? new Map() : await knownAttributes(connection, namespace).catch(unlessDenied);
  if (known === undefined)
    return {
      notes: [
        `search attributes: Temporal does not show them here, as in Temporal Cloud: see in its UI, or by tcld, that there are ${list(searchAttributes)}`,
      ],
    };
  const wanted = Object.entries(searchAttributes);
  const missing = wanted.filter(([name]) => !known.has(name));
  const conflicts = wanted.flatMap(([name, type]) => {
    const has = known.get(name);
    if (!known.has(name) || has === type) return [];
    return [
      `search attribute ${name}: it is ${has ?? 'of another type'}, and must be ${type}; Temporal changes no types: use another namespace, or remove it (temporal operator search-attribute remove --name ${name})`,
    ];
  });
  if (missing.length === 0) return { conflicts };
  const lines = missing.map(([name, type]) => `+ ${name}: ${type}`);
  const apply = () =>
    onceTheNamespaceIsKnown(() => addAttributes(connection, namespace, Object.fromEntries(missing)));
  return { conflicts, changes: [{ about: 'search attributes', lines, apply }] };
}

function list(attributes: Wanted['searchAttributes']): string {
  return Object.entries(attributes)
    .map(([name, type]) => `${name} (${type})`)
    .join(', ');
}

async function compareSchedules(deps: Deps, { schedules }: Wanted, isMissing: boolean): Promise<Part[]> {
  const parts: Part[] = [];
  for (const { schedule, file } of schedules)
    parts.push(await compareSchedule(deps, schedule, { file, isMissing }));
  if (!isMissing) parts.push(await leftovers(deps, new Set(schedules.map(({ schedule }) => schedule.id))));
  return parts;
}

async function compareSchedule(
  { client: { schedule: schedules } }: Deps,
  schedule: ScheduleFile,
  { file, isMissing }: { file: string; isMissing: boolean },
): Promise<Part> {
  const { id } = schedule;
  const about = `Schedule ${id}`;
  const wanted = shapeOfFile(schedule);
  const options = optionsOf(schedule);
  const handle = schedules.getHandle(id);
  const found = isMissing ? undefined : await handle.describe().catch(unlessNotFound);
  if (found === undefined) {
    const apply = () => onceTheNamespaceIsKnown(() => schedules.create(options));
    return {
      changes: [{ about, lines: difference({}, wanted), apply: () => apply().then(() => undefined) }],
    };
  }
  if (!isOwned(found))
    return {
      conflicts: [
        `${about}: somebody else made it in Temporal, and it is left alone: give ${file} another id, or delete it there (temporal schedule delete --schedule-id ${id})`,
      ],
    };
  const lines = difference(shapeOfSchedule(found), wanted);
  if (lines.length === 0) return {};
  const paused = schedule.state?.paused;
  const apply = () =>
    handle.update(({ state }) => {
      const { spec, action, policies } = options;
      const { remainingActions: _, ...kept } = state;
      const next = { spec, action, state: { ...kept, ...(paused !== undefined && { paused }) } };
      return { ...next, ...(policies && { policies }) };
    });
  return { changes: [{ about, lines, apply }] };
}

/** Schedules that a file once made, and of which there is none any more. */
async function leftovers(
  { client: { schedule: schedules }, prune }: Deps,
  ids: ReadonlySet<string>,
): Promise<Part> {
  const left: string[] = [];
  for await (const { scheduleId, memo } of schedules.list())
    if (isOwned({ memo }) && !ids.has(scheduleId) && !isTheControllers(scheduleId)) left.push(scheduleId);
  if (!prune)
    return {
      notes: left.map((id) => `Schedule ${id}: no file has it any more, and it goes on: --prune deletes it`),
    };
  return {
    changes: left.map((id) => ({
      about: `Schedule ${id}`,
      lines: ['- it is there, and no file has it'],
      apply: () => schedules.getHandle(id).delete(),
    })),
  };
}

/** The controller of windows keeps these. */
function isTheControllers(id: string): boolean {
  return id.startsWith(windowWorkflowIdOf(''));
}

/** Milliseconds: the servers of a cluster look for new namespaces every ten seconds. */
const knownWithin = 60_000;
const lookEvery = 500;

/** Tries again while a namespace that has just been made is not known everywhere. */
async function onceTheNamespaceIsKnown<T>(act: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + knownWithin;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!isNotFound(error) || Date.now() > deadline) throw error;
      await sleep(lookEvery);
    }
  }
}

function unlessNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error;
}

function isNotFound(error: unknown): boolean {
  const isWrapped = error instanceof ScheduleNotFoundError || error instanceof NamespaceNotFoundError;
  return isWrapped || answerIn(error)?.code === Code.NotFound;
}

/** Temporal Cloud has no operator service for its users. */
function unlessDenied(error: unknown): undefined {
  const { code } = answerIn(error) ?? {};
  const isDenied =
    code === Code.PermissionDenied || code === Code.Unauthenticated || code === Code.Unimplemented;
  if (!isDenied) throw error;
}
