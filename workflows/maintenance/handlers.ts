import { condition, setHandler } from '@temporalio/workflow';
import type { NodeMaintenanceActivities } from '../../activities/contract.ts';
import type { AdvanceRequest } from '../../api/maintenanceInput.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { advanceProblem, destinationOf, missingFromProblem } from '../../domain/common/stage.ts';
import { isGeneration, isNameOrUid, isRecord, isStage, shown } from '../../domain/common/untrusted.ts';
import { isDetailsSnapshot } from '../../domain/maintenance/detailsSnapshot.ts';
import { unwrapActivityFailure } from '../shared/failures.ts';
import type { Interruptible } from '../shared/interruptible.ts';
import {
  checkedSignal,
  inputProblem,
  logAndIgnore,
  objectProblem,
  rejectIf,
} from '../shared/messageGuards.ts';
import {
  advanceSignal,
  advanceUpdate,
  cancelSignal,
  cancelUpdate,
  refreshDetails,
  observe,
  pauseSignal,
  pauseUpdate,
  progress,
  resumeSignal,
  resumeUpdate,
} from './messages.ts';
import { applyHint, applyObservation, type Progress, progressOf, type Run, refTo } from './run.ts';

type Effects = Pick<NodeMaintenanceActivities, 'requestStage' | 'recordPause'> & {
  /** Renders the current details. */
  renderDetails: () => void;
};

const descriptions = {
  advance:
    'Advance to the next stage, or to {"to": "Cordon" | "Drain" | "Complete"}; only from {"from": "Cordon"}, if it is given',
  cancel: 'Stop and uncordon the nodes: the same as advancing to Complete',
  pause: 'Start no new Evacuation and no new tier; nodes stay cordoned, running Evacuations continue',
  resume: 'Undo pause',
};

/** Registers the handlers of all messages of a maintenance. The Temporal UI shows their descriptions in its dialogs. */
export function handleMessages(run: Run, interruptible: Interruptible, effects: Effects): void {
  const { moveTo, advance, advanceOrAsk, setPaused } = commandsOf(run, interruptible, effects);

  setHandler(advanceUpdate, advanceOrAsk, {
    description: descriptions.advance,
    // Runs before admission too, when only the shape can be validated.
    validator: (request?: AdvanceRequest) =>
      rejectIf(shapeProblem(request) ?? (run.uid === '' ? undefined : orderProblem(run, request))),
  });
  const validator = (input?: unknown) => rejectIf(inputProblem(input));
  setHandler(cancelUpdate, () => moveTo('Complete'), { description: descriptions.cancel, validator });
  setHandler(pauseUpdate, () => setPaused(true), { description: descriptions.pause, validator });
  setHandler(resumeUpdate, () => setPaused(false), { description: descriptions.resume, validator });

  setHandler(advanceSignal, (order) => checkedSignal('advance', shapeProblem(order), () => advance(order)), {
    description: descriptions.advance,
  });
  setHandler(
    cancelSignal,
    (input) => checkedSignal('cancel', inputProblem(input), () => moveTo('Complete')),
    {
      description: descriptions.cancel,
    },
  );
  setHandler(pauseSignal, (input) => checkedSignal('pause', inputProblem(input), () => setPaused(true)), {
    description: descriptions.pause,
  });
  setHandler(resumeSignal, (input) => checkedSignal('resume', inputProblem(input), () => setPaused(false)), {
    description: descriptions.resume,
  });
  // The UI lists signals in this order: those for users come first.
  handleInternalMessages(run, interruptible, effects);
}

function commandsOf(run: Run, interruptible: Interruptible, { requestStage, recordPause }: Effects) {
  const admitted = () => condition(() => run.uid !== '');

  const moveTo = async (to: NodeMaintenanceStage): Promise<Progress> => {
    await admitted();
    const observed = await unwrapActivityFailure(requestStage(refTo(run), to, 'Message'));
    if (applyObservation(run, observed)) interruptible.interrupt();
    return progressOf(run);
  };
  const advance = async (order: AdvanceRequest = {}): Promise<Progress> => {
    await admitted();
    rejectIf(advanceProblem(run.stage, order));
    return moveTo(destinationOf(run.stage, order));
  };
  /** Only an update tells its sender what is missing. */
  const advanceOrAsk = async (order: AdvanceRequest = {}): Promise<Progress> => {
    await admitted();
    rejectIf(orderProblem(run, order));
    return advance(order);
  };
  const setPaused = async (paused: boolean): Promise<Progress> => {
    await admitted();
    const before = run.paused;
    const apply = (value: boolean) => {
      run.paused = value;
      interruptible.interrupt();
    };
    apply(paused);
    try {
      // Responds when the drain has stopped, because the user may then work on the nodes.
      await Promise.all([interruptible.settled(), unwrapActivityFailure(recordPause(refTo(run), paused))]);
    } catch (error) {
      apply(before);
      throw error;
    }
    return progressOf(run);
  };
  return { moveTo, advance, advanceOrAsk, setPaused };
}

/** Registers the query, and the signals of the maintenance controller. */
function handleInternalMessages(run: Run, interruptible: Interruptible, { renderDetails }: Effects): void {
  setHandler(progress, () => progressOf(run), { description: 'Stage, position in the drain plan, nodes' });
  setHandler(
    observe,
    (observed) =>
      logAndIgnore('observe', async () => {
        rejectIf(observationProblem(observed));
        await condition(() => run.uid !== '');
        // An object with the same name and another UID is another maintenance, with a run of its own.
        if (observed.uid === run.uid && applyHint(run, observed)) interruptible.interrupt();
      }),
    { description: 'Internal: sent by the maintenance controller' },
  );
  setHandler(
    refreshDetails,
    (refresh) => {
      if (refresh?.uid !== run.uid || !isDetailsSnapshot(refresh.details)) return;
      run.details = refresh.details;
      renderDetails();
    },
    { description: 'Internal: sent by the maintenance controller to update the current details' },
  );
}

function orderProblem(run: Run, order: AdvanceRequest = {}): string | undefined {
  // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
  const sinceChangeMs = Date.now() - run.stageChangedAtMs;
  return advanceProblem(run.stage, order) ?? missingFromProblem(run.stage, order, sinceChangeMs);
}

function shapeProblem(request: unknown): string | undefined {
  const problem = objectProblem(request, { fields: ['to', 'from'], example: '{"to": "Drain"}' });
  if (problem !== undefined) return problem;
  const { to, from } = (request ?? {}) as Record<string, unknown>;
  if (to !== undefined && !['Cordon', 'Drain', 'Complete'].includes(to as string))
    return `to: expected "Cordon", "Drain" or "Complete" (got ${shown(to)})`;
  if (from !== undefined && !['Idle', 'Cordon', 'Drain'].includes(from as string))
    return `from: expected "Idle", "Cordon" or "Drain" (got ${shown(from)})`;
  return undefined;
}

/** Validates a signal of the controller, because the UI lets any user send it. */
function observationProblem(observed: unknown): string | undefined {
  if (!isRecord(observed)) return 'expected one JSON object';
  const { uid, kind, stage, generation } = observed;
  if (!isNameOrUid(uid)) return 'uid: expected the UID of the object';
  if (kind === 'Gone') return undefined;
  return kind === 'StageChanged' && isStage(stage) && isGeneration(generation)
    ? undefined
    : 'expected kind, stage and generation of the object';
}
