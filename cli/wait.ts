import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { awaited } from '../domain/awaiting.ts';
import { listed } from '../domain/names.ts';
import type { Kube } from '../kube/client.ts';
import { titleOf } from './maintenances.ts';
import { complain, duration, Refusal, say } from './output.ts';
import { LiveStatus } from './live.ts';
import { createScreen } from './screen.ts';
import { type Watching, watchMaintenances } from './watching.ts';

export interface Goal {
  /** As it was written: what was there before is not looked at. */
  readonly maintenance: NodeMaintenance;
  readonly stage: NodeMaintenanceStage;
  /** Milliseconds; 0 is for ever. */
  readonly timeout: number;
  /** Standard output has an object, for scripts. */
  readonly isQuiet?: boolean;
}

const reached: Record<NodeMaintenanceStage, string> = {
  Idle: 'is taken up',
  Cordon: 'has its nodes cordoned',
  Drain: 'is drained',
  Complete: 'is complete, and its nodes take pods again',
};

/**
 * Waits until a maintenance has done what its stage is for, and says what it waits for whenever that changes. Rejects with a
 * Refusal when it takes too long or will not happen any more.
 */
export async function waitFor(kube: Kube, goal: Goal): Promise<void> {
  const { name } = goal.maintenance.metadata;
  const stop = new AbortController();
  try {
    const watching = await watchMaintenances(kube, { names: [name] }, stop.signal);
    const view = new WaitView(watching);
    const notes = await followed(watching, view, goal).finally(() => view.end());
    for (const note of notes) complain(note);
    (goal.isQuiet === true ? complain : say)(`${titleOf(name)} ${reached[goal.stage]}`);
  } finally {
    stop.abort();
  }
}

/** Resolves with what is worth knowing at the end, having said or drawn what is waited for until then. */
async function followed(
  watching: Watching,
  view: WaitView,
  { maintenance, stage, timeout }: Goal,
): Promise<readonly string[]> {
  const title = titleOf(maintenance.metadata.name);
  const deadline = timeout === 0 ? undefined : performance.now() + timeout;
  let newest = maintenance;
  for (;;) {
    const change = watching.changed();
    const { found, isGone } = look(watching, newest);
    newest = found;
    const standing = awaited(stage, { ...watching.sightOf(newest), isGone });
    if (standing.kind === 'Reached') return standing.notes;
    if (standing.kind === 'Missed') throw new Refusal(`${title}: ${standing.because}`);
    view.show(standing.on);
    const leftMs = deadline === undefined ? longestRest : deadline - performance.now();
    if (leftMs <= 0)
      throw new Refusal(
        `${title}: gave up after ${duration(timeout)}, still waiting for ${listed(standing.on)}`,
      );
    await view.pause();
    await Promise.race([change, watching.rest(Math.min(leftMs, longestRest))]);
  }
}

/** Milliseconds. */
const shortestRest = 200;
/** Some things change by time alone. */
const longestRest = 1_000;

/** What the informer has, unless that is older than what is known already. */
function look(watching: Watching, newest: NodeMaintenance): { found: NodeMaintenance; isGone: boolean } {
  const { name, uid, generation = 0 } = newest.metadata;
  const seen = watching.maintenance(name);
  if (seen === undefined || seen.metadata.uid !== uid) return { found: newest, isGone: true };
  const isOlder = (seen.metadata.generation ?? 0) < generation;
  return { found: isOlder ? newest : seen, isGone: false };
}

/** What whoever waits gets to see: in a terminal what `status --watch` draws, else a line for each new reason. */
class WaitView {
  readonly #watching: Watching;
  readonly #screen = createScreen(process.stderr);
  readonly #live: LiveStatus;
  #said: readonly string[] = [];

  constructor(watching: Watching) {
    this.#watching = watching;
    this.#live = new LiveStatus(this.#screen, watching);
  }

  show(on: readonly string[]): void {
    if (this.#screen.isLive) this.#live.show();
    else for (const text of on) if (!this.#said.includes(text)) complain(`waiting for ${text}`);
    this.#said = on;
  }

  /** Nobody reads faster. */
  async pause(): Promise<void> {
    if (this.#screen.isLive) await this.#watching.rest(shortestRest);
  }

  end(): void {
    if (this.#said.length === 0) return;
    if (this.#screen.isLive) this.#live.show();
    this.#live.end();
  }
}
