import { listed } from '../../domain/common/names.ts';
import { type UninstallItem, type UninstallPhase, uninstallPhases } from '../../domain/uninstall/item.ts';
import { sleep } from '../../kube/abort.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage, isKubeError } from '../../kube/errors.ts';
import { CommandError, printError } from '../output.ts';
import type { Temporal } from '../temporal.ts';
import { execute } from './execute.ts';

interface Uninstallation {
  readonly kube: Kube;
  readonly temporal: Temporal | undefined;
  /** Observes, and decides what is left to do. */
  readonly plan: () => Promise<UninstallItem[]>;
  /** Timeout of each phase; 0 disables it. */
  readonly timeoutMs: number;
}

const concurrentWrites = 16;
const pollMs = 500;
/** Maximum number of rounds: a later one finds what was started at the last moment, such as a run. */
const maxRounds = 3;

/** Carries out the phases in order, each until nothing of it is left to do. Returns what stays. */
export async function carryOut(uninstallation: Uninstallation): Promise<UninstallItem[]> {
  const first = await uninstallation.plan();
  for (let round = 1; ; round++) {
    for (const phase of uninstallPhases) await carryOutPhase(uninstallation, phase);
    const items = await uninstallation.plan();
    if (!items.some(isPending))
      return [...leftInTemporal(first), ...items.filter((item) => !isOfTemporal(item))];
    if (round === maxRounds)
      throw new CommandError(`something creates again what was removed: ${namesOf(items.filter(isPending))}`);
  }
}

/** Returns the items that stay in a Temporal that does not answer. They are known from the objects, which are gone at the end. */
function leftInTemporal(items: readonly UninstallItem[]): UninstallItem[] {
  return items.filter((item) => isOfTemporal(item) && !isPending(item));
}

function isOfTemporal({ phase }: UninstallItem): boolean {
  return phase === 'Temporal';
}

/** Plans again after each pass: other clients, and the worker that is asked, change the cluster at the same time. */
async function carryOutPhase(uninstallation: Uninstallation, phase: UninstallPhase): Promise<void> {
  const { timeoutMs } = uninstallation;
  const deadline = timeoutMs === 0 ? Infinity : performance.now() + timeoutMs;
  const announced = new Set<string>();
  const problems = new Map<string, string>();
  for (;;) {
    const items = (await uninstallation.plan()).filter((item) => item.phase === phase && isPending(item));
    if (items.length === 0) return;
    if (performance.now() > deadline) return timedOut(phase, items, problems);
    for (const item of items) announce(item, announced);
    problems.clear();
    await forEachBounded(concurrentWrites, items, (item) => attempt(uninstallation, item, problems));
    await sleep(pollMs);
  }
}

function isPending({ action }: UninstallItem): boolean {
  return action.kind !== 'Keep' && action.kind !== 'Blocked';
}

function announce(item: UninstallItem, announced: Set<string>): void {
  const line = `${titleOf(item)}: ${item.verb}${item.reason === undefined ? '' : ` (${item.reason})`}`;
  if (announced.has(line)) return;
  announced.add(line);
  printError(line);
}

function titleOf({ kind, namespace, name }: UninstallItem): string {
  return `${kind} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

async function attempt(
  { kube, temporal }: Uninstallation,
  item: UninstallItem,
  problems: Map<string, string>,
): Promise<void> {
  try {
    await execute(kube, temporal, item);
  } catch (error) {
    // The object was changed since it was read, or something rejects the request: the next plan says whether anything is left to do.
    if (!isKubeError(error) || isKubeError(error, 'Unauthorized', 'NotSent')) throw error;
    problems.set(titleOf(item), errorMessage(error));
  }
}

/** A worker that does not answer is done without; nothing else is. */
function timedOut(
  phase: UninstallPhase,
  items: readonly UninstallItem[],
  problems: ReadonlyMap<string, string>,
): void {
  const names = namesOf(items);
  if (phase === 'Ask') {
    printError(`warning: the worker has not completed ${names} in time: the command does it instead`);
    return;
  }
  const [problem] = problems.values();
  const because = problem === undefined ? '' : `: ${problem}`;
  throw new CommandError(
    `phase ${phase} timed out with ${names} left${because}; what was done stays done: remove the cause, and run the command again`,
  );
}

function namesOf(items: readonly UninstallItem[]): string {
  return listed([...new Set(items.map(titleOf))]);
}
