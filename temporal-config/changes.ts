import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, type Connection, ScheduleNotFoundError } from '@temporalio/client';
import { NamespaceNotFoundError } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { clusterInWorkflowId, temporalNames } from '../api/names.ts';
import { keyDifference } from './currentKey.ts';
import { addAttributes, hoursOf, knownAttributes } from './namespace.ts';
import { grpcStatusOf, Code } from './connectionErrors.ts';
import type { ScheduleFile } from './scheduleFile.ts';
import { listSchedules, scheduledStart } from './schedules.ts';
import {
  difference,
  isOwned,
  optionsOf,
  normalizedScheduleOfFile,
  normalizedScheduleOf,
} from './scheduleShape.ts';
import type { DesiredConfig } from './desiredConfig.ts';
import { retentionSecondsOf } from './retention.ts';

/** One difference between Temporal and the files. */
export interface Change {
  /** The object that differs, such as `Schedule os-patch-year-end`. */
  subject: string;
  /** `- field: current` and `+ field: desired`. */
  lines: readonly string[];
  apply: () => Promise<void>;
}

/** Result of comparing Temporal with the files. */
export interface Comparison {
  changes: readonly Change[];
  /** Differences that `apply` cannot resolve, a line each, with the remedy. */
  conflicts: readonly string[];
  /** Facts that users may want to know and that are not differences. */
  notes: readonly string[];
}

interface Deps {
  connection: Connection;
  client: Client;
  namespace: string;
  /** Delete Schedules that no file defines any more. */
  prune: boolean;
  /** Also shorten the retention. */
  shortenRetention: boolean;
}

export async function compare(deps: Deps, desired: DesiredConfig): Promise<Comparison> {
  const namespace = await compareNamespace(deps, desired);
  const isMissing = namespace.kind === 'Missing';
  const attributes = await compareAttributes(deps, desired, isMissing);
  const schedules = await compareSchedules(deps, desired, isMissing);
  const parts = [namespace, attributes, ...schedules];
  return {
    changes: parts.flatMap(({ changes = [] }) => changes),
    conflicts: parts.flatMap(({ conflicts = [] }) => conflicts),
    notes: parts.flatMap(({ notes = [] }) => notes),
  };
}

type PartialComparison = Partial<Comparison>;

async function compareNamespace(
  { connection: { workflowService }, namespace, shortenRetention }: Deps,
  { retention }: DesiredConfig,
): Promise<PartialComparison & { kind: 'Missing' | 'Exists' }> {
  const workflowExecutionRetentionPeriod = msToTs(hoursOf(retention) * 3_600_000);
  const subject = `namespace ${namespace}`;
  const found = await workflowService.describeNamespace({ namespace }).catch(ignoreNotFound);
  if (found === undefined) {
    const apply = async () => {
      await workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    };
    return { kind: 'Missing', changes: [{ subject, lines: [`+ retention: ${retention}`], apply }] };
  }
  const hours = retentionSecondsOf(found) / 3_600;
  if (hours === hoursOf(retention)) return { kind: 'Exists' };
  if (hours > hoursOf(retention) && !shortenRetention) {
    const note = `${subject}: its retention of ${retentionText(hours)} is longer than ${retention} in namespace.yaml, and is kept: --shorten-retention shortens it, for the histories of runs that end from then on`;
    return { kind: 'Exists', notes: [note] };
  }
  const config = { workflowExecutionRetentionTtl: workflowExecutionRetentionPeriod };
  const lines = [`- retention: ${retentionText(hours)}`, `+ retention: ${retention}`];
  const apply = async () => {
    await workflowService.updateNamespace({ namespace, config });
  };
  return { kind: 'Exists', changes: [{ subject, lines, apply }] };
}

function retentionText(hours: number): string {
  return hours % 24 === 0 ? `${hours / 24}d` : `${hours}h`;
}

async function compareAttributes(
  { connection, namespace }: Deps,
  { searchAttributes }: DesiredConfig,
  isMissing: boolean,
): Promise<PartialComparison> {
  const known = isMissing
    ? new Map()
    : await knownAttributes(connection, namespace).catch(ignorePermissionDenied);
  if (known === undefined)
    return {
      notes: [
        `search attributes cannot be listed (as in Temporal Cloud); check in the UI or with tcld that these exist: ${list(searchAttributes)}`,
      ],
    };
  const desired = Object.entries(searchAttributes);
  const missing = desired.filter(([name]) => !known.has(name));
  const conflicts = desired.flatMap(([name, type]) => {
    const existing = known.get(name);
    if (!known.has(name) || existing === type) return [];
    return [
      `search attribute ${name}: the type is ${existing ?? 'unknown'} and must be ${type}; Temporal cannot change a type: use another namespace, or remove the attribute (temporal operator search-attribute remove --name ${name})`,
    ];
  });
  if (missing.length === 0) return { conflicts };
  const lines = missing.map(([name, type]) => `+ ${name}: ${type}`);
  const apply = () =>
    retryUntilNamespaceIsKnown(() => addAttributes(connection, namespace, Object.fromEntries(missing)));
  return { conflicts, changes: [{ subject: 'search attributes', lines, apply }] };
}

function list(attributes: DesiredConfig['searchAttributes']): string {
  return Object.entries(attributes)
    .map(([name, type]) => `${name} (${type})`)
    .join(', ');
}

async function compareSchedules(
  deps: Deps,
  { schedules }: DesiredConfig,
  isMissing: boolean,
): Promise<PartialComparison[]> {
  const parts: PartialComparison[] = [];
  for (const { schedule, file } of schedules)
    parts.push(await compareSchedule(deps, schedule, { file, isMissing }));
  if (!isMissing)
    parts.push(
      await compareOrphanedSchedules(
        deps,
        schedules.map(({ schedule }) => schedule),
      ),
    );
  return parts;
}

async function compareSchedule(
  { client: { schedule: schedules } }: Deps,
  schedule: ScheduleFile,
  { file, isMissing }: { file: string; isMissing: boolean },
): Promise<PartialComparison> {
  const { id } = schedule;
  const subject = `Schedule ${id}`;
  const desired = normalizedScheduleOfFile(schedule);
  const options = optionsOf(schedule);
  const handle = schedules.getHandle(id);
  const found = isMissing ? undefined : await handle.describe().catch(ignoreNotFound);
  if (found === undefined) {
    const apply = () => retryUntilNamespaceIsKnown(() => schedules.create(options));
    return {
      changes: [{ subject, lines: difference({}, desired), apply: () => apply().then(() => undefined) }],
    };
  }
  if (!isOwned(found))
    return {
      conflicts: [
        `${subject}: it exists in Temporal and was not created by temporal-config: change the id in ${file}, or delete the Schedule (temporal schedule delete --schedule-id ${id})`,
      ],
    };
  const lines = [
    ...difference(normalizedScheduleOf(found), desired),
    ...(await keyDifference(found, schedules.options.loadedDataConverter)),
  ];
  if (lines.length === 0) return {};
  const paused = schedule.state?.paused;
  const apply = () =>
    handle.update(({ state }) => {
      const { spec, action, policies } = options;
      const { remainingActions: _, ...kept } = state;
      const next = { spec, action, state: { ...kept, ...(paused !== undefined && { paused }) } };
      return { ...next, ...(policies && { policies }) };
    });
  return { changes: [{ subject, lines, apply }] };
}

/**
 * Finds Schedules that were created from a file which does not exist any more. The namespace may be shared: those on a task queue that no file uses
 * may be of the files of another cluster, and are never deleted.
 */
async function compareOrphanedSchedules(
  { client, prune }: Deps,
  files: readonly ScheduleFile[],
): Promise<PartialComparison> {
  const ids = new Set(files.map(({ id }) => id));
  const taskQueues = new Set(files.map(({ action }) => action.taskQueue));
  const orphaned: string[] = [];
  const notes: string[] = [];
  for await (const { scheduleId: id, memo } of listSchedules(client)) {
    if (!isOwned({ memo }) || ids.has(id) || isOfController(id)) continue;
    const start = await scheduledStart(client, id);
    if (start === undefined) continue;
    if (taskQueues.has(start.taskQueue)) orphaned.push(id);
    else
      notes.push(
        `Schedule ${id}: no file defines it, and it may be of another cluster, because no file uses its task queue ${start.taskQueue}: if it is yours, delete it with temporal schedule delete --schedule-id ${id}`,
      );
  }
  if (!prune) {
    const text = 'no file defines it any more, and it still runs: --prune deletes it';
    return { notes: [...orphaned.map((id) => `Schedule ${id}: ${text}`), ...notes] };
  }
  const changes = orphaned.map((id) => ({
    subject: `Schedule ${id}`,
    lines: ['- exists, and no file defines it'],
    apply: () => client.schedule.getHandle(id).delete(),
  }));
  return { changes, notes };
}

/** Reports whether the controller of MaintenanceWindows manages the Schedule. */
function isOfController(id: string): boolean {
  return id.startsWith(temporalNames(clusterInWorkflowId(id)).windowId(''));
}

/** The servers of a Temporal cluster refresh their namespaces every ten seconds. */
const namespaceTimeoutMs = 60_000;
const pollIntervalMs = 500;

/** Retries while not all servers know a namespace that was just created. */
async function retryUntilNamespaceIsKnown<T>(act: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + namespaceTimeoutMs;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (!isNotFound(error) || Date.now() > deadline) throw error;
      await sleep(pollIntervalMs);
    }
  }
}

function ignoreNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error;
}

function isNotFound(error: unknown): boolean {
  const isWrapped = error instanceof ScheduleNotFoundError || error instanceof NamespaceNotFoundError;
  return isWrapped || grpcStatusOf(error)?.code === Code.NotFound;
}

/** Temporal Cloud has no operator service for its users. */
function ignorePermissionDenied(error: unknown): undefined {
  const { code } = grpcStatusOf(error) ?? {};
  const isDenied =
    code === Code.PermissionDenied || code === Code.Unauthenticated || code === Code.Unimplemented;
  if (!isDenied) throw error;
}
