import { type Client, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { type ClusterScope, isOfWindow } from '../../api/names.ts';
import type { ConditionFacts } from '../../domain/common/conditions.ts';
import {
  failingRuns,
  healthOf,
  isStalled,
  notStalled,
  type ObservedRun,
  resolvedStalled,
} from '../../domain/common/stalledRun.ts';
import {
  afterRestart,
  failsRepeatedly,
  restartDelayMs,
  type Restarts,
} from '../../domain/maintenance/runRestarts.ts';
import { windowStaticSummaryOf } from '../../domain/maintenance/staticSummary.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { readableMemo } from '../../temporal-config/readableMemo.ts';
import type { Schedules } from './schedules.ts';
import type { LostStarts } from '../lostStarts.ts';
import { type DescribedRun, findRun, handleFailingRun, latestProblem } from '../runInspection.ts';

interface Deps {
  cluster: FencedCluster;
  temporal: Client;
  scope: ClusterScope;
  schedules: Schedules;
  events: EventRecorder;
  log: Log;
  /** A run whose workflow task fails for so long is replaced; 0: never. */
  stalledRunTimeoutSeconds: number;
  /** Called for each run that is started because the one before ended too early. */
  onRestart?: () => void;
  /** Window UID -> the runs that were started because one had ended too early. */
  restarts: Map<string, Restarts>;
  lostStarts: LostStarts;
}

type ActiveWindow = NonNullable<NonNullable<MaintenanceWindow['status']>['active']>;

export interface WindowRunState {
  isOpen: boolean;
  /** Its run makes no progress. */
  isStalled: boolean;
}

const working: WindowRunState = { isOpen: true, isStalled: false };
const stalled: WindowRunState = { isOpen: true, isStalled: true };
const closed: WindowRunState = { isOpen: false, isStalled: false };

/** Writes the condition Stalled of the window. `now` is the time of the transition: times in the message count from it. */
type Publish = (facts: ConditionFacts, now?: Date) => Promise<void>;

/**
 * Ensures that a workflow runs as long as the window is open. If its run was terminated, failed, or cannot continue, a new one continues until
 * the recorded end. Reports, too, that the run which would open the window makes no progress.
 */
export async function ensureRun(
  deps: Deps,
  window: MaintenanceWindow,
  publish: Publish,
): Promise<WindowRunState> {
  const { active } = window.status ?? {};
  const { name, uid = '' } = window.metadata;
  const workflowId = active ? workflowIdOf(deps, name, active) : deps.schedules.startedWorkflowId(name);
  const run = workflowId === undefined ? undefined : await findRun(deps.temporal, workflowId, deps.scope.uid);
  if (active === undefined) deps.restarts.delete(uid);
  if (run?.isOpen === true) return check(deps, window, { run, publish });
  if (workflowId !== undefined) deps.lostStarts.forget(workflowId);
  if (active !== undefined) return restart(deps, window, { active, run, publish });
  if (workflowId !== undefined) deps.schedules.ended(name, workflowId);
  if (isStalled(window.status?.conditions))
    await publish(notStalled('WorkflowContinues', deps.scope.names.windowId(name)));
  return closed;
}

/** Checks the open run of a window, and replaces it if it cannot continue. */
async function check(
  deps: Deps,
  window: MaintenanceWindow,
  { run, publish }: { run: DescribedRun; publish: Publish },
): Promise<WindowRunState> {
  const { active, conditions = [] } = window.status ?? {};
  const isOpen = active !== undefined;
  if (healthOf(run) !== 'Failing') {
    await deps.lostStarts.check(run);
    const resolved = resolvedStalled(run, conditions, deps.cluster.kube.now().getTime());
    if (resolved !== undefined) await publish(resolved);
    return { isOpen, isStalled: resolved === undefined && isStalled(conditions) };
  }
  // Only an open window is recorded on the object.
  const input = { fields: { window: window.metadata.name }, run, conditions, isReplaceable: isOpen };
  await handleFailingRun(deps, input, async ({ kind, facts }, now) => {
    if (kind === 'Report') report(deps, window, facts);
    await publish(facts, now);
  });
  return { isOpen, isStalled: true };
}

/** Records an Event when the condition becomes True. */
function report({ events, log }: Deps, window: MaintenanceWindow, { message }: ConditionFacts): void {
  if (isStalled(window.status?.conditions)) return;
  log.warn('Window stalled', { window: window.metadata.name, reason: message });
  events.record(window, { type: 'Warning', reason: 'WorkflowStalled', message });
}

interface EndedRun {
  active: ActiveWindow;
  run: ObservedRun | undefined;
  publish: Publish;
}

async function restart(
  deps: Deps,
  window: MaintenanceWindow,
  { active, run, publish }: EndedRun,
): Promise<WindowRunState> {
  const { cluster, temporal, restarts } = deps;
  const { name, uid = '' } = window.metadata;
  if (restartDelayMs(restarts.get(uid), performance.now()) > 0) return stalled;
  // Read after the run: a workflow closes its window before it ends, and a closed window must not be opened again.
  const newest = await cluster.kube.get(resources.maintenanceWindows, { name });
  const recorded = newest?.metadata.uid === uid ? newest.status?.active : undefined;
  if (newest === undefined || recorded === undefined) return closed;
  if (recorded.runId !== active.runId) return working;
  if (!(await startRun(deps, newest, recorded))) return working;
  const known = afterRestart(restarts.get(uid), { hasFailed: run?.hasFailed === true }, performance.now());
  restarts.set(uid, known);
  if (run === undefined || !failsRepeatedly(known)) return working;
  const facts = failingRuns(
    run.workflowId,
    await latestProblem(temporal, run),
    'cancel the window to end it',
  );
  report(deps, window, facts);
  await publish(facts);
  return stalled;
}

/**
 * Returns the workflow id of an opening. One that was recorded under another value of `--cluster`, which has no workers any more, continues under the
 * window's own id.
 */
function workflowIdOf({ scope }: Pick<Deps, 'scope'>, window: string, { workflowId }: ActiveWindow): string {
  return isOfWindow(scope.names, window, workflowId) ? workflowId : scope.names.windowId(window);
}

/** Resolves with false if the window has a run already. */
async function startRun(deps: Deps, window: MaintenanceWindow, active: ActiveWindow): Promise<boolean> {
  const { temporal, scope, events, log, onRestart } = deps;
  const { name } = window.metadata;
  const { end } = active;
  const workflowId = workflowIdOf(deps, name, active);
  const summary = windowStaticSummaryOf(window, scope);
  try {
    await temporal.workflow.start('maintenanceWindow', {
      taskQueue: scope.names.taskQueue,
      workflowId,
      args: [{ name }],
      ...summary,
      memo: readableMemo(summary.memo),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return false;
    throw error;
  }
  onRestart?.();
  log.warn('Window resumed', { window: name, workflowId });
  events.record(window, {
    type: 'Warning',
    reason: 'WindowResumed',
    message: `Workflow ${workflowId} ended without closing the window: a new run continues until ${end}. Cancel the window to end it.`,
  });
  return true;
}
