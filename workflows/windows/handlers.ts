import { CancellationScope, condition, setHandler } from '@temporalio/workflow';
import type { MaintenanceWindowActivities, WindowRequest } from '../../activities/contract.ts';
import { MAX_APPROVED_NODES } from '../../api/names.ts';
import type { NodesRequest } from '../../api/windowInput.ts';
import { isNameOrUid } from '../../domain/common/untrusted.ts';
import { unwrapActivityFailure } from '../shared/failures.ts';
import { inOrder } from '../shared/inOrder.ts';
import { checkedSignal, inputProblem, objectProblem, rejectIf } from '../shared/messageGuards.ts';
import { windowProgress, windowSignals, windowUpdates } from './messages.ts';
import {
  applyRequest,
  type WindowRun,
  type WindowRunProgress,
  windowRefTo,
  windowRunProgressOf,
} from './run.ts';

type Effects = Pick<MaintenanceWindowActivities, 'authorizeRequest' | 'advanceNode'>;

const descriptions = {
  approve:
    'Approve the maintenance of {"node": "n1"}, {"nodes": ["n1", "n2"]}, or of the whole window without input',
  advance: 'Mark the work on {"node": "n1"} as done; the node is uncordoned when it is Ready',
  cancel: 'End the window now, and uncordon the nodes whose work is not done',
  pause: 'Start no more nodes; nodes in progress continue',
  resume: 'Undo pause',
};

/** Registers the handlers of all messages of an open window. The Temporal UI shows their descriptions in its dialogs. */
export function handleWindowMessages(run: WindowRun, effects: Effects): void {
  const { approve, advance, ...plain } = commandsOf(run, effects);

  setHandler(windowProgress, () => windowRunProgressOf(run), {
    description: 'Times, nodes done, in progress, failed',
  });
  setHandler(windowUpdates.approve, approve, {
    description: descriptions.approve,
    validator: (request?: NodesRequest) => rejectIf(shapeProblem(request)),
  });
  setHandler(windowUpdates.advance, advance, {
    description: descriptions.advance,
    validator: (request?: NodesRequest) => rejectIf(advanceProblem(request)),
  });
  setHandler(
    windowSignals.approve,
    (request) => checkedSignal('approve', shapeProblem(request), () => approve(request)),
    { description: descriptions.approve },
  );
  setHandler(
    windowSignals.advance,
    (request) => checkedSignal('advance', advanceProblem(request), () => advance(request)),
    { description: descriptions.advance },
  );
  for (const name of ['cancel', 'pause', 'resume'] as const) {
    const description = descriptions[name];
    const validator = (input?: unknown) => rejectIf(inputProblem(input));
    setHandler(windowUpdates[name], plain[name], { description, validator });
    setHandler(windowSignals[name], (input) => checkedSignal(name, inputProblem(input), plain[name]), {
      description,
    });
  }
}

function commandsOf(run: WindowRun, effects: Effects) {
  /** Waits until the window is open. Not cancellable: the window is closed properly after a cancellation from Temporal. */
  const whenOpen = (handle: () => Promise<void>): Promise<WindowRunProgress> =>
    CancellationScope.nonCancellable(async () => {
      await condition(() => run.uid !== '');
      await handle();
      return windowRunProgressOf(run);
    });
  const inTurn = inOrder();
  /** Applies a request if users who send messages may maintain the nodes. The rollout in progress sees it on the object. */
  const authorized = async (request: WindowRequest) => {
    await unwrapActivityFailure(effects.authorizeRequest(windowRefTo(run), request));
    applyRequest(run, request);
  };
  const apply = (request: WindowRequest): Promise<WindowRunProgress> =>
    whenOpen(() => inTurn(() => authorized(request)));
  return {
    approve: (request?: NodesRequest) => {
      const nodes = nodesOf(request);
      return apply(nodes.length === 0 ? { approved: true } : { approvedNodes: nodes });
    },
    advance: (request?: NodesRequest) =>
      whenOpen(async () => {
        for (const node of nodesOf(request))
          await unwrapActivityFailure(effects.advanceNode(windowRefTo(run), node));
      }),
    // It is final, and waits for no other request.
    cancel: () => whenOpen(() => authorized({ cancelled: true })),
    pause: () => apply({ paused: true }),
    resume: () => apply({ paused: false }),
  };
}

function nodesOf(request: NodesRequest | undefined): string[] {
  return [...(request?.node === undefined ? [] : [request.node]), ...(request?.nodes ?? [])];
}

function shapeProblem(request: unknown): string | undefined {
  const problem = objectProblem(request, { fields: ['node', 'nodes'], example: '{"node": "n1"}' });
  if (problem !== undefined) return problem;
  const { node, nodes } = (request ?? {}) as Record<string, unknown>;
  if (node !== undefined && !isNameOrUid(node)) return 'node: expected the name of a node';
  const areNames = nodes === undefined || (Array.isArray(nodes) && nodes.every(isNameOrUid));
  if (!areNames) return 'nodes: expected a list of node names';
  const isTooLong = Array.isArray(nodes) && nodes.length > MAX_APPROVED_NODES;
  return isTooLong ? `nodes: expected at most ${MAX_APPROVED_NODES} node names` : undefined;
}

function advanceProblem(request: unknown): string | undefined {
  const problem = shapeProblem(request);
  if (problem !== undefined) return problem;
  const isNamed = nodesOf((request ?? undefined) as NodesRequest | undefined).length > 0;
  return isNamed ? undefined : 'node: required; name the node whose work is done, such as {"node": "n1"}';
}
