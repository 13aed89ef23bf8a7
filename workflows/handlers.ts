import { ApplicationFailure, condition, log, setHandler } from '@temporalio/workflow';
import type { NodeMaintenanceActivities } from '../activities/contract.ts';
import type { AdvanceRequest } from '../api/maintenanceInput.ts';
import type { NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import { stagesAfter, transitionProblem } from '../domain/stage.ts';
import { withItsOwnFailure } from './failures.ts';
import {
  advanceSignal,
  advanceUpdate,
  cancelSignal,
  cancelUpdate,
  glance,
  observe,
  pauseSignal,
  pauseUpdate,
  progress,
  resumeSignal,
  resumeUpdate,
} from './messages.ts';
import { type Progress, progressOf, type Run, refTo, takeIn } from './run.ts';
import type { Turn } from './turn.ts';

type Acts = Pick<NodeMaintenanceActivities, 'requestStage' | 'recordPause'> & {
  /** Shows the page anew. */
  show: () => void;
};

/** Registers every message that a maintenance understands. Descriptions appear in the Temporal UI's dialogs. */
export function handleMessages(run: Run, turn: Turn, acts: Acts): void {
  const ready = () => condition(() => run.uid !== '');

  const moveTo = async (to: NodeMaintenanceStage): Promise<Progress> => {
    await ready();
    const seen = await withItsOwnFailure(acts.requestStage(refTo(run), to, 'Message'));
    if (takeIn(run, seen)) turn.interrupt();
    return progressOf(run);
  };
  const advance = async (request?: AdvanceRequest): Promise<Progress> => {
    await ready();
    const problem = advanceProblem(run, request);
    if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, 'InvalidInput');
    return moveTo(destination(run, request));
  };
  const setPaused = async (paused: boolean): Promise<Progress> => {
    await ready();
    run.paused = paused;
    turn.interrupt();
    // Answered only when the drain really rests: whoever paused may now touch the nodes.
    await Promise.all([turn.ended(), acts.recordPause(refTo(run), paused)]);
    return progressOf(run);
  };

  const descriptions = {
    advance: 'Go on to the next stage, or to {"to": "Cordon" | "Drain" | "Complete"}',
    cancel: 'Stop and give the nodes back: the same as advancing to Complete',
    pause: 'Begin no new Evacuation and no new tier; nodes stay cordoned, running Evacuations go on',
    resume: 'Undo pause',
  };
  setHandler(advanceUpdate, advance, {
    description: descriptions.advance,
    // Runs before admission too: then only the shape can be judged.
    validator: (request?: AdvanceRequest) =>
      refuse(run.uid === '' ? shapeProblem(request) : advanceProblem(run, request)),
  });
  setHandler(cancelUpdate, () => moveTo('Complete'), { description: descriptions.cancel });
  setHandler(pauseUpdate, () => setPaused(true), { description: descriptions.pause });
  setHandler(resumeUpdate, () => setPaused(false), { description: descriptions.resume });

  setHandler(advanceSignal, (request) => forgiving('advance', () => advance(request)), {
    description: descriptions.advance,
  });
  setHandler(cancelSignal, () => forgiving('cancel', () => moveTo('Complete')), {
    description: descriptions.cancel,
  });
  setHandler(pauseSignal, () => forgiving('pause', () => setPaused(true)), {
    description: descriptions.pause,
  });
  setHandler(resumeSignal, () => forgiving('resume', () => setPaused(false)), {
    description: descriptions.resume,
  });
  // The UI lists signals in this order: those for people first.
  handleNews(run, turn, acts.show);
}

/** What may be asked by anybody, and what the controllers tell. */
function handleNews(run: Run, turn: Turn, show: () => void): void {
  setHandler(progress, () => progressOf(run), { description: 'Stage, position in the drain plan, nodes' });
  setHandler(
    observe,
    (seen) =>
      forgiving('observe', async () => {
        refuse(observationProblem(seen));
        await condition(() => run.uid !== '');
        // A namesake of another UID is another maintenance, for a run of its own.
        if (seen.uid === run.uid && takeIn(run, seen)) turn.interrupt();
      }),
    { description: 'Internal: sent by the maintenance controller' },
  );
  setHandler(
    glance,
    (seen) => {
      if (seen?.uid !== run.uid || !isObject(seen.glance)) return;
      run.glance = seen.glance;
      show();
    },
    { description: 'Internal: sent by the maintenance controller, for this page' },
  );
}

/** Nobody waits for a signal's answer: a senseless one is logged and must not end the maintenance. */
async function forgiving(signal: string, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
  } catch (error) {
    log.warn('Signal ignored', { signal, reason: error instanceof Error ? error.message : String(error) });
  }
}

function destination(run: Run, request: AdvanceRequest | undefined): NodeMaintenanceStage {
  return request?.to ?? stagesAfter(run.stage)[0] ?? 'Complete';
}

function advanceProblem(run: Run, request: AdvanceRequest | undefined): string | undefined {
  const misshapen = shapeProblem(request);
  if (misshapen !== undefined) return misshapen;
  if (run.stage === 'Complete') return 'stage Complete is final: there is nothing to advance to';
  return transitionProblem(run.stage, destination(run, request));
}

/** The input is whatever a person typed into the UI's dialog. */
function shapeProblem(request: unknown): string | undefined {
  if (request === undefined || request === null) return undefined;
  if (typeof request !== 'object' || Array.isArray(request))
    return 'expected one JSON object, such as {"to": "Drain"}, or none';
  const { to, ...unknown } = request as Record<string, unknown>;
  const [field] = Object.keys(unknown);
  if (field !== undefined) return `${field}: unknown field; the only one is "to"`;
  if (to === undefined || ['Cordon', 'Drain', 'Complete'].includes(to as string)) return undefined;
  return `to: expected "Cordon", "Drain" or "Complete" (got ${JSON.stringify(to)})`;
}

/** These are the controller's, but the UI offers them to everybody. */
function observationProblem(seen: unknown): string | undefined {
  if (!isObject(seen)) return 'expected one JSON object';
  const { uid, kind, stage, generation } = seen as Record<string, unknown>;
  if (typeof uid !== 'string') return 'uid: expected that of the object';
  if (kind === 'Gone') return undefined;
  const isStage = ['Idle', 'Cordon', 'Drain', 'Complete'].includes(stage as string);
  return kind === 'StageChanged' && isStage && Number.isSafeInteger(generation)
    ? undefined
    : 'expected kind, stage and generation of the object';
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function refuse(problem: string | undefined): void {
  if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, 'InvalidInput');
}
