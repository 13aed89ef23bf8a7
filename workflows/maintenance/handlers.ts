import { CancellationScope, condition, patched, setHandler } from '@temporalio/workflow';
import type { NodeMaintenanceActivities } from '../../activities/contract.ts';
import type { AdvanceRequest } from '../../api/maintenanceInput.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { advanceProblem, destinationOf, missingFromProblem } from '../../domain/common/stage.ts';
import { isGeneration, isNameOrUid, isRecord, isStage, shown } from '../../domain/common/untrusted.ts';
import { isDetailsSnapshot } from '../../domain/maintenance/detailsSnapshot.ts';
import { unwrapActivityFailure } from '../shared/failures.ts';
import { inOrder } from '../shared/inOrder.ts';
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

/** Work in progress for which the handlers of signals and updates wait. */
export interface Work {
  /** An activity that evacuates pods is in progress. */
  evacuating: boolean;
}

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
export function handleMessages(run: Run, work: Work, effects: Effects): void {
  const { moveTo, advance, advanceOrReject, setPaused } = commandsOf(run, work, effects);

  setHandler(advanceUpdate, advanceOrReject, {
    description: descriptions.advance,
    // Runs before admission too, when only the shape can be validated.
    validator: (request?: AdvanceRequest) =>
      rejectIf(shapeProblem(request) ?? (run.uid === '' ? undefined : requestProblem(run, request))),
  });
  const validator = (input?: unknown) => rejectIf(inputProblem(input));
  setHandler(cancelUpdate, () => moveTo('Complete'), { description: descriptions.cancel, validator });
  setHandler(pauseUpdate, () => setPaused(true), { description: descriptions.pause, validator });
  setHandler(resumeUpdate, () => setPaused(false), { description: descriptions.resume, validator });

  setHandler(
    advanceSignal,
    (request) => checkedSignal('advance', shapeProblem(request), () => advance(request)),
    {
      description: descriptions.advance,
    },
  );
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
  handleInternalMessages(run, effects);
}

function commandsOf(run: Run, work: Work, { requestStage, recordPause }: Effects) {
  /** Not cancellable: the maintenance continues if Temporal users may not complete it. */
  const whenAdmitted = (handle: () => Promise<void>): Promise<Progress> =>
    CancellationScope.nonCancellable(async () => {
      await condition(() => run.uid !== '');
      await handle();
      return progressOf(run);
    });
  /** The activity in progress ends when it sees the stage. */
  const writeStage = async (to: NodeMaintenanceStage) =>
    applyObservation(run, await unwrapActivityFailure(requestStage(refTo(run), to, 'Message')));
  const advance = (request: AdvanceRequest = {}) =>
    whenAdmitted(async () => {
      rejectIf(advanceProblem(run.stage, request));
      await writeStage(destinationOf(run.stage, request));
    });
  const inTurn = inOrder();
  return {
    moveTo: (to: NodeMaintenanceStage) => whenAdmitted(() => writeStage(to)),
    advance,
    /** Only an update reports to its sender what is missing. */
    advanceOrReject: (request: AdvanceRequest = {}) =>
      whenAdmitted(async () => {
        rejectIf(requestProblem(run, request));
        await advance(request);
      }),
    setPaused: (paused: boolean) =>
      whenAdmitted(async () => {
        await inTurn(async () => {
          await unwrapActivityFailure(recordPause(refTo(run), paused));
          run.paused = paused;
        });
        // Responds when the drain has stopped, because the user may then work on the nodes, or when another user has resumed it.
        const endsWhenResumed = paused && patched('requests-in-order');
        if (paused) await condition(() => !work.evacuating || (endsWhenResumed && !run.paused));
      }),
  };
}

/** Registers the query, and the signals of the maintenance controller. */
function handleInternalMessages(run: Run, { renderDetails }: Pick<Effects, 'renderDetails'>): void {
  setHandler(progress, () => progressOf(run), { description: 'Stage, position in the drain plan, nodes' });
  setHandler(
    observe,
    (observed) =>
      logAndIgnore('observe', async () => {
        rejectIf(observationProblem(observed));
        if (!isCancelled()) await condition(() => run.uid !== '');
        // An object with the same name and another UID is another maintenance, with a run of its own.
        if (observed.uid === run.uid) applyHint(run, observed);
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

/**
 * Reports whether Temporal has cancelled the run, which continues because its users may not complete it. In such a run every condition rejects. One that
 * was cancelled while it was admitted ignores these signals until then: it reads the object before its first stage.
 */
function isCancelled(): boolean {
  return CancellationScope.current().consideredCancelled && patched('observe-after-cancellation');
}

function requestProblem(run: Run, request: AdvanceRequest = {}): string | undefined {
  // oxlint-disable-next-line pure/no-clock -- in a workflow it is the time of the history, which replays
  const sinceChangeMs = Date.now() - run.stageChangedAtMs;
  return advanceProblem(run.stage, request) ?? missingFromProblem(run.stage, request, sinceChangeMs);
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
