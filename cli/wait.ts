import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { awaited } from '../domain/awaiting.ts';
import { listed } from '../domain/names.ts';
import type { Kube } from '../kube/client.ts';
import { ContactLines } from './contact.ts';
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
    const clock = clockOf(goal.timeout);
    const contact = new ContactLines(complain);
    const watching = await begun(kube, goal, { stop, contact });
    watching.remember(goal.maintenance);
    const view = new WaitView(watching, contact);
    const notes = await followed(watching, view, { goal, clock }).finally(() => view.end());
    for (const note of notes) complain(note);
    (goal.isQuiet === true ? complain : say)(`${titleOf(name)} ${reached[goal.stage]}`);
  } finally {
    stop.abort();
  }
}

/** Milliseconds that are left of a timeout which begins now. */
type Clock = () => number;

function clockOf(timeout: number): Clock {
  const deadline = timeout === 0 ? Number.POSITIVE_INFINITY : performance.now() + timeout;
  return () => deadline - performance.now();
}

/** The longest time that timers know. Milliseconds. */
const longestTimer = 2 ** 31 - 1;

/** Rejects with a Refusal when not even the first look is had in time. */
async function begun(
  kube: Kube,
  { maintenance, timeout }: Goal,
  { stop, contact }: { stop: AbortController; contact: ContactLines },
): Promise<Watching> {
  const { name } = maintenance.metadata;
  const timer = timeout === 0 ? undefined : setTimeout(() => stop.abort(), Math.min(timeout, longestTimer));
  try {
    return await watchMaintenances(kube, { names: [name] }, { signal: stop.signal, contact });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    throw new Refusal(
      `${titleOf(name)}: gave up after ${duration(timeout)}: the apiserver has not told how it stands`,
      { cause: error },
    );
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves with what is worth knowing at the end, having said or drawn what is waited for until then. */
async function followed(
  watching: Watching,
  view: WaitView,
  { goal: { maintenance, stage, timeout }, clock }: { goal: Goal; clock: Clock },
): Promise<readonly string[]> {
  const title = titleOf(maintenance.metadata.name);
  let newest = maintenance;
  for (;;) {
    const change = watching.changed();
    const { found, isGone } = look(watching, newest);
    newest = found;
    watching.remember(newest);
    const standing = awaited(stage, { ...watching.sightOf(newest), isGone });
    if (standing.kind === 'Reached') return standing.notes;
    if (standing.kind === 'Missed') throw new Refusal(`${title}: ${standing.because}`);
    view.show(standing.on);
    if (clock() <= 0) {
      const { lostBecause } = watching;
      const lost = lostBecause === undefined ? '' : `; contact was lost: ${lostBecause}`;
      throw new Refusal(
        `${title}: gave up after ${duration(timeout)}, still waiting for ${listed(standing.on)}${lost}`,
      );
    }
    // Nobody reads faster.
    await watching.rest(Math.min(clock(), shortestRest));
    await Promise.race([change, watching.rest(Math.min(clock(), longestRest))]);
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
  readonly #contact: ContactLines;
  readonly #live: LiveStatus;
  #said: readonly string[] = [];

  constructor(watching: Watching, contact: ContactLines) {
    this.#watching = watching;
    this.#contact = contact;
    this.#live = new LiveStatus(this.#screen, watching);
  }

  show(on: readonly string[]): void {
    if (this.#screen.isLive) this.#live.show();
    else this.#tell(on);
    this.#said = on;
  }

  #tell(on: readonly string[]): void {
    this.#contact.tell(this.#watching.lostBecause);
    for (const text of on) if (!this.#said.includes(text)) complain(`waiting for ${text}`);
  }

  end(): void {
    if (this.#said.length === 0) return;
    if (this.#screen.isLive) this.#live.show();
    this.#live.end();
  }
}
