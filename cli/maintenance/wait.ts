import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { decideWait } from '../../domain/maintenance/waitGoal.ts';
import { listed } from '../../domain/common/names.ts';
import type { Kube } from '../../kube/client.ts';
import { ConnectionStatus } from '../terminal/connectionStatus.ts';
import { titleOf } from './maintenances.ts';
import { duration, print, printError, CommandError } from '../output.ts';
import { LiveStatus } from './live.ts';
import { createScreen } from '../terminal/screen.ts';
import { type Watching, watchMaintenances } from './watching.ts';

export interface Goal {
  /** The object as it was written; older versions are ignored. */
  readonly maintenance: NodeMaintenance;
  readonly stage: NodeMaintenanceStage;
  /** 0 disables the timeout. */
  readonly timeoutMs: number;
  /** Standard output contains an object for scripts. */
  readonly isQuiet?: boolean;
}

const reached: Record<NodeMaintenanceStage, string> = {
  Idle: 'has started',
  Cordon: 'has cordoned its nodes',
  Drain: 'is drained',
  Complete: 'is complete and its nodes are in service',
};

/**
 * Waits until a maintenance has reached the goal of its stage, and prints what it waits for whenever that changes. Rejects
 * with a CommandError on timeout, or if the goal cannot be reached any more.
 */
export async function waitFor(kube: Kube, goal: Goal): Promise<void> {
  const { name } = goal.maintenance.metadata;
  const stop = new AbortController();
  try {
    const clock = clockOf(goal.timeoutMs);
    const connection = new ConnectionStatus(printError);
    const watching = await startWatching(kube, goal, { stop, connection });
    watching.rememberNodes(goal.maintenance);
    const view = new WaitView(watching, connection);
    const notes = await waitForGoal(watching, view, { goal, clock }).finally(() => view.end());
    for (const note of notes) printError(note);
    (goal.isQuiet === true ? printError : print)(`${titleOf(name)} ${reached[goal.stage]}`);
  } finally {
    stop.abort();
  }
}

/** Returns the remaining milliseconds of a timeout. */
type Clock = () => number;

function clockOf(timeoutMs: number): Clock {
  const deadline = timeoutMs === 0 ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  return () => deadline - performance.now();
}

/** Maximum delay of a Node.js timer. */
const maxTimerMs = 2 ** 31 - 1;

/** Starts to watch. Rejects with a CommandError if the first read does not complete before the timeout. */
async function startWatching(
  kube: Kube,
  { maintenance, timeoutMs }: Goal,
  { stop, connection }: { stop: AbortController; connection: ConnectionStatus },
): Promise<Watching> {
  const { name } = maintenance.metadata;
  const timer = timeoutMs === 0 ? undefined : setTimeout(() => stop.abort(), Math.min(timeoutMs, maxTimerMs));
  try {
    return await watchMaintenances(kube, { names: [name] }, { signal: stop.signal, connection });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    throw new CommandError(
      `${titleOf(name)}: timed out after ${duration(timeoutMs)}: the apiserver did not return its status`,
      { cause: error },
    );
  } finally {
    clearTimeout(timer);
  }
}

/** Shows what is pending until the goal is reached. Resolves with notes to print at the end. */
async function waitForGoal(
  watching: Watching,
  view: WaitView,
  { goal: { maintenance, stage, timeoutMs }, clock }: { goal: Goal; clock: Clock },
): Promise<readonly string[]> {
  const title = titleOf(maintenance.metadata.name);
  let newest = maintenance;
  for (;;) {
    const change = watching.changed();
    const { found, isDeleted } = latestOf(watching, newest);
    newest = found;
    watching.rememberNodes(newest);
    const result = decideWait(stage, { ...watching.summaryInputOf(newest), isDeleted });
    if (result.kind === 'Reached') return result.notes;
    if (result.kind === 'Missed') throw new CommandError(`${title}: ${result.because}`);
    view.show(result.on);
    if (clock() <= 0) {
      const { lastError } = watching;
      const lost = lastError === undefined ? '' : `; the connection was lost: ${lastError}`;
      throw new CommandError(
        `${title}: timed out after ${duration(timeoutMs)}, still waiting for ${listed(result.on)}${lost}`,
      );
    }
    // Limits the refresh rate.
    await watching.sleep(Math.min(clock(), minRefreshMs));
    await Promise.race([change, watching.sleep(Math.min(clock(), maxRefreshMs))]);
  }
}

const minRefreshMs = 200;
/** Some conditions change with time only. */
const maxRefreshMs = 1_000;

/** Returns the object of the informer, unless it is older than the newest known one. */
function latestOf(
  watching: Watching,
  newest: NodeMaintenance,
): { found: NodeMaintenance; isDeleted: boolean } {
  const { name, uid, generation = 0 } = newest.metadata;
  const cached = watching.maintenance(name);
  if (cached === undefined || cached.metadata.uid !== uid) return { found: newest, isDeleted: true };
  const isOlder = (cached.metadata.generation ?? 0) < generation;
  return { found: isOlder ? newest : cached, isDeleted: false };
}

/** Shows the progress of a wait: in a terminal like `status --watch`, otherwise one line for each new reason. */
class WaitView {
  readonly #watching: Watching;
  readonly #screen = createScreen(process.stderr);
  readonly #connection: ConnectionStatus;
  readonly #live: LiveStatus;
  #printed: readonly string[] = [];

  constructor(watching: Watching, connection: ConnectionStatus) {
    this.#watching = watching;
    this.#connection = connection;
    this.#live = new LiveStatus(this.#screen, watching);
  }

  show(on: readonly string[]): void {
    if (this.#screen.isLive) this.#live.show();
    else this.#printNew(on);
    this.#printed = on;
  }

  #printNew(on: readonly string[]): void {
    this.#connection.report(this.#watching.lastError);
    for (const text of on) if (!this.#printed.includes(text)) printError(`waiting for ${text}`);
  }

  end(): void {
    if (this.#printed.length === 0) return;
    if (this.#screen.isLive) this.#live.show();
    this.#live.end();
  }
}
