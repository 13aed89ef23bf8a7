import type { BudgetView, WindowDecision } from '../../domain/windows/decideWindow.ts';
import { rebootReasonOf } from '../../domain/reboot/nodeReboot.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { Deps } from '../deps.ts';
import { startNode } from './nodes.ts';
import type { WindowObservation } from './observe.ts';
import { type RejectedNodes, rejectionMessage } from './rejectedNodes.ts';
import type { Reservations } from './reservations.ts';

const maxConcurrentNodes = 8;
/**
 * A reservation is used within this time. Later, another worker may consider this one dead and reserve other nodes for the window
 * instead.
 */
const reservationTtlMs = 3_000;

type Decide = (budget: BudgetView, rejected: ReadonlyMap<string, string>) => WindowDecision;

interface StartOptions {
  reservations: Reservations;
  rejections: RejectedNodes;
  /** Asks the apiserver whether the window is still as it was observed: a user may have paused or cancelled it since. */
  isCurrent: () => Promise<boolean>;
}

/**
 * Reserves and starts the nodes that `decide` returns, until it starts no more. Returns the decision that applies after that: it starts nodes only if
 * they were reserved too late, or the window has changed, for which the caller observes the window again.
 */
export async function startNodes(
  deps: Deps,
  observation: WindowObservation,
  decide: Decide,
  { reservations, rejections, isCurrent }: StartOptions,
): Promise<WindowDecision> {
  const { name } = observation.window.metadata;
  for (;;) {
    const rejected = rejections.current();
    const first = decide(await reservations.read(name), rejected);
    if (first.rollout.kind !== 'Start') return first;
    const deadline = performance.now() + reservationTtlMs;
    if (!(await isCurrent())) return first;
    let nodes: readonly string[] = [];
    const budget = await reservations.reserve(name, (newest) => {
      nodes = startedBy(decide(newest, rejected));
      return nodes;
    });
    const started = await start(deps, observation, { nodes, deadline, rejections });
    if (started === 'All') return decide(budget, rejected);
    // The window releases the reservations of nodes that it did not start, so that others can start.
    const released = await reservations.reserve(name, () => []);
    if (started === 'Late') return decide(released, rejections.current());
  }
}

function startedBy({ rollout }: WindowDecision): readonly string[] {
  return rollout.kind === 'Start' ? rollout.nodes : [];
}

/** Returns Late if the deadline did not leave time for every node. */
async function start(
  deps: Deps,
  { window, nodes }: WindowObservation,
  {
    nodes: names,
    deadline,
    rejections,
  }: { nodes: readonly string[]; deadline: number; rejections: RejectedNodes },
): Promise<'All' | 'SomeRejected' | 'Late'> {
  const rejected = new Map<string, string>();
  let isLate = false;
  const starting = nodes.filter(({ metadata }) => names.includes(metadata.name));
  await forEachBounded(maxConcurrentNodes, starting, async (node) => {
    const { name } = node.metadata;
    isLate ||= performance.now() > deadline;
    if (isLate) return;
    try {
      await startNode(deps, window, node);
      const need = window.spec.work.type === 'Reboot' ? rebootReasonOf(node) : undefined;
      const message = `Started the maintenance of node ${name}${need ? `, which needs a reboot (${need})` : ''}.`;
      deps.events.record(window, { type: 'Normal', reason: 'NodeStarted', message });
    } catch (error) {
      rejected.set(name, rejectionMessage(error));
    }
  });
  rejections.add(window, rejected);
  if (isLate) return 'Late';
  return rejected.size === 0 ? 'All' : 'SomeRejected';
}
