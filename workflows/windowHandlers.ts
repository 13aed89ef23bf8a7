import { ApplicationFailure, CancellationScope, condition, log, setHandler } from '@temporalio/workflow';
import type { MaintenanceWindowActivities, SomeOrders } from '../activities/contract.ts';
import type { NodesRequest } from '../api/windowInput.ts';
import { withItsOwnFailure } from './failures.ts';
import type { Turn } from './turn.ts';
import { windowProgress, windowSignals, windowUpdates } from './windowMessages.ts';
import { answerOf, takeInOrder, type WindowAnswer, type WindowRun, windowRefTo } from './windowRun.ts';

type Acts = Pick<MaintenanceWindowActivities, 'authorizeOrder' | 'advanceTurn'>;

const descriptions = {
  approve:
    'Let nodes begin their turn: {"node": "n1"}, {"nodes": ["n1", "n2"]}, or none for the whole window',
  advance: 'End the turn of {"node": "n1"}: its work is done, or need not be done',
  cancel: 'End the window now, and give back the nodes whose work is not done',
  pause: 'Begin no further turn; those under way go on',
  resume: 'Undo pause',
};

/** Registers every message that an open window understands. Descriptions appear in the Temporal UI's dialogs. */
export function handleWindowMessages(run: WindowRun, turn: Turn, acts: Acts): void {
  /** Once it is open; also when it goes on after a cancellation from Temporal. */
  const whenOpen = (act: () => Promise<void>): Promise<WindowAnswer> =>
    CancellationScope.nonCancellable(async () => {
      await condition(() => run.uid !== '');
      await act();
      return answerOf(run);
    });
  /** What an order changes, once those who gave it may maintain the nodes. */
  const ordered = (order: SomeOrders): Promise<WindowAnswer> =>
    whenOpen(async () => {
      await withItsOwnFailure(acts.authorizeOrder(windowRefTo(run), order));
      takeInOrder(run, order);
      turn.interrupt();
    });
  const approve = (request?: NodesRequest) => {
    const nodes = nodesOf(request);
    return ordered(nodes.length === 0 ? { approved: true } : { approvedNodes: nodes });
  };
  const advance = (request?: NodesRequest): Promise<WindowAnswer> =>
    whenOpen(async () => {
      for (const node of nodesOf(request)) await withItsOwnFailure(acts.advanceTurn(windowRefTo(run), node));
    });
  const orders = {
    cancel: () => ordered({ cancelled: true }),
    pause: () => ordered({ paused: true }),
    resume: () => ordered({ paused: false }),
  };

  setHandler(windowProgress, () => answerOf(run), { description: 'Times, nodes done, under way, failed' });
  setHandler(windowUpdates.approve, approve, {
    description: descriptions.approve,
    validator: (request?: NodesRequest) => refuse(shapeProblem(request)),
  });
  setHandler(windowUpdates.advance, advance, {
    description: descriptions.advance,
    validator: (request?: NodesRequest) => refuse(advanceProblem(request)),
  });
  setHandler(
    windowSignals.approve,
    (request) => forgiving('approve', shapeProblem(request), () => approve(request)),
    { description: descriptions.approve },
  );
  setHandler(
    windowSignals.advance,
    (request) => forgiving('advance', advanceProblem(request), () => advance(request)),
    { description: descriptions.advance },
  );
  for (const name of ['cancel', 'pause', 'resume'] as const) {
    const description = descriptions[name];
    setHandler(windowUpdates[name], orders[name], { description });
    setHandler(windowSignals[name], () => forgiving(name, undefined, orders[name]), { description });
  }
}

/** Nobody waits for a signal's answer: a senseless one is logged and must not end the window. */
async function forgiving(
  signal: string,
  problem: string | undefined,
  act: () => Promise<unknown>,
): Promise<void> {
  try {
    refuse(problem);
    await act();
  } catch (error) {
    log.warn('Signal ignored', { signal, reason: error instanceof Error ? error.message : String(error) });
  }
}

function nodesOf(request: NodesRequest | undefined): string[] {
  return [...(request?.node === undefined ? [] : [request.node]), ...(request?.nodes ?? [])];
}

/** The input is whatever a person typed into the UI's dialog. */
function shapeProblem(request: unknown): string | undefined {
  if (request === undefined || request === null) return undefined;
  if (typeof request !== 'object' || Array.isArray(request))
    return 'expected one JSON object, such as {"node": "n1"}, or none';
  const { node, nodes, ...unknown } = request as Record<string, unknown>;
  const [field] = Object.keys(unknown);
  if (field !== undefined) return `${field}: unknown field; there are "node" and "nodes"`;
  if (node !== undefined && typeof node !== 'string') return 'node: expected the name of a node';
  const areNames =
    nodes === undefined || (Array.isArray(nodes) && nodes.every((one) => typeof one === 'string'));
  return areNames ? undefined : 'nodes: expected a list of names of nodes';
}

function advanceProblem(request: unknown): string | undefined {
  const misshapen = shapeProblem(request);
  if (misshapen !== undefined) return misshapen;
  const isNamed = nodesOf((request ?? undefined) as NodesRequest | undefined).length > 0;
  return isNamed ? undefined : 'node: say whose turn ends, such as {"node": "n1"}';
}

function refuse(problem: string | undefined): void {
  if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, 'InvalidInput');
}
