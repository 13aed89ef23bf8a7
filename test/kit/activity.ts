import { Context } from '@temporalio/activity';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { Activities, MaintenanceRef } from '../../activities/contract.ts';
import { defaultEvictionApi, type EvictionApiSettings } from '../../domain/common/evictionApi.ts';
import { createActivities } from '../../activities/index.ts';
import type { NotificationOutbox } from '../../activities/notifications/notifications.ts';
import { type ClusterScope, leaseHolderOf, SYSTEM_NAMESPACE } from '../../api/names.ts';
import { testScope, windowWorkflowIdOf, workflowIdOf } from './temporalNames.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { defaultReviewTiming, type ReviewTiming, reviewsDue } from '../../domain/common/permissionReviews.ts';
import { mayDeleteNode } from '../../kube/authorization.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { EventRecorder } from '../../kube/events.ts';
import { jobPermission } from '../../kube/jobPermission.ts';
import { NodePermissions } from '../../kube/nodePermissions.ts';
import { NodeLeases } from '../../node-lease/nodeLeases.ts';
import { silentLog, type TestCluster } from './cluster.ts';

/** All workers of an installation are one holder. */
export const holder = leaseHolderOf(SYSTEM_NAMESPACE);

/** The tests start these activities, no workflow does. */
const starterOf = async () => 'jane@laptop';

const noReceiver: NotificationOutbox = { enqueue: async () => undefined, dropped: () => undefined };

interface ActivityOptions {
  isRunning?: (workflowId: string) => Promise<boolean>;
  notifications?: NotificationOutbox;
  readinessGatesEnabled?: boolean;
  autoscalerAnnotationsEnabled?: boolean;
  timing?: ReviewTiming;
  scope?: ClusterScope;
  stalledAfterMs?: number;
  resyncMs?: number;
  removalMs?: number;
  leaseDurationSeconds?: number;
  evictionApi?: EvictionApiSettings;
  /** Workflows schedule the activities, not the test. */
  areScheduled?: boolean;
}

/** Creates the activities as the worker does; `flushEvents` resolves when their Events are written. */
export function activitiesOn(
  { cluster }: { cluster: Cluster },
  {
    isRunning = async () => false,
    notifications = noReceiver,
    readinessGatesEnabled = true,
    autoscalerAnnotationsEnabled = true,
    timing = defaultReviewTiming,
    scope = testScope,
    stalledAfterMs = 60_000,
    resyncMs = 1_000,
    removalMs = 30_000,
    leaseDurationSeconds = 900,
    evictionApi = defaultEvictionApi,
    areScheduled = false,
  }: ActivityOptions = {},
): {
  activities: Activities;
  flushEvents: () => Promise<void>;
} {
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const leases = new NodeLeases({ kube: cluster.kube, holder, leaseDurationSeconds });
  const deps = {
    cluster,
    namespace: SYSTEM_NAMESPACE,
    scope,
    events,
    permissions: new NodePermissions(cluster.kube, {
      may: mayDeleteNode,
      validMs: timing.validMs,
      isDue: (nodes, answers, now) => reviewsDue(nodes, answers, timing, now),
    }),
    nodeEvents: events,
    notifications,
    leases,
    evictionApi,
    heartbeatTimeoutSeconds: 540,
    stalledAfterMs,
    resyncMs,
    removalMs,
    readinessGatesEnabled,
    autoscalerAnnotationsEnabled,
    mayRunJobs: jobPermission(cluster.kube),
    starterOf,
    isRunning,
  };
  const created = createActivities(deps);
  const activities = areScheduled ? created : scheduledByTheirWorkflows(created);
  return { activities, flushEvents: () => events.flush() };
}

/** The run that schedules the activities of the tests, unless `scheduledBy` says otherwise. */
export const testRunId = 'run-of-the-test';

const windowActivities: readonly string[] = ['rollOut', 'authorizeRequest', 'advanceNode', 'closeWindow'];

/** Returns activities that run as if the workflow of the object in their first argument had scheduled them. */
function scheduledByTheirWorkflows(activities: Activities): Activities {
  const wrapped = Object.entries(activities).map(([activity, act]) => [
    activity,
    (subject: unknown, ...args: unknown[]) => {
      const { runId = testRunId } = (subject ?? {}) as { runId?: string };
      const run = { workflowId: workflowIdFor(activity, subject), runId };
      return scheduledBy(run, () => (act as (...all: unknown[]) => unknown)(subject, ...args));
    },
  ]);
  return Object.fromEntries(wrapped) as Activities;
}

function workflowIdFor(activity: string, subject: unknown): string {
  const { name = '', workflowId, input } = (subject ?? {}) as Record<string, string | undefined>;
  if (workflowId !== undefined) return workflowId;
  if (activity === 'openWindow' || windowActivities.includes(activity)) return windowWorkflowIdOf(name);
  return workflowIdOf(name || ((input ?? {}) as { name?: string }).name || '');
}

/** Runs an activity as if this run had scheduled it. An outer call wins. */
export function scheduledBy<T>(
  { workflowId, runId = testRunId }: { workflowId: string; runId?: string },
  act: () => T,
): T {
  const { info } = Context.current();
  const execution = info.workflowExecution as { workflowId: string; runId: string };
  if (!schedulers.has(info)) Object.assign(execution, { workflowId, runId });
  schedulers.add(info);
  return act();
}

const schedulers = new WeakSet<object>();

export function refOf({ metadata }: NodeMaintenance): MaintenanceRef {
  return { name: metadata.name, uid: metadata.uid ?? '', generation: metadata.generation ?? 0 };
}

/** Temporal logs every failure of an activity, even one that a test expects. */
const newEnvironment = (info: { attempt?: number } = {}) =>
  new MockActivityEnvironment(
    { workflowExecution: { workflowId: 'none', runId: testRunId }, ...info },
    { logger: new DefaultLogger('ERROR') },
  );

/** Runs an activity as the Temporal worker does, until it ends. */
export function performed<T>(act: () => Promise<T>, info: { attempt?: number } = {}): Promise<T> {
  return newEnvironment(info).run(act);
}

/** Runs an activity twice, as Temporal does when a worker dies at its end, and expects the second run to write nothing. */
export async function performedTwice<T>({ requests }: TestCluster, act: () => Promise<T>): Promise<T> {
  const first = await performed(act);
  const written = await requests.writesOf(async () => expect(await performed(act)).toEqual(first));
  expect(written).toEqual([]);
  return first;
}

export interface InProgress<T> {
  /** Its result. */
  ended: Promise<T>;
  /** Cancels it, as the workflow does, or a worker that stops, and waits until it has ended. */
  cancelled(): Promise<void>;
}

/** Starts a long activity. */
export function started<T>(act: () => Promise<T>): InProgress<T> {
  const environment = newEnvironment();
  const ended: Promise<T> = environment.run(act);
  // Awaited later, if at all: until then a failure must not be unhandled.
  ended.catch(() => undefined);
  return {
    ended,
    cancelled: async () => {
      environment.cancel('CANCELLED');
      await ended.then(
        () => undefined,
        (error: unknown) => {
          if ((error as Error).name !== 'CancelledFailure') throw error;
        },
      );
    },
  };
}
