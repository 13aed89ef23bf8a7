import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { Activities, MaintenanceRef } from '../../activities/contract.ts';
import { createActivities } from '../../activities/index.ts';
import type { Outbox } from '../../activities/notices.ts';
import { leaseHolderOf, SYSTEM_NAMESPACE } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { EventRecorder } from '../../kube/events.ts';
import { NodeLeases } from '../../node-lease/nodeLeases.ts';
import { silentLog, type TestCluster } from './cluster.ts';

/** All workers of an installation are one holder. */
export const holder = leaseHolderOf(SYSTEM_NAMESPACE);

/** Nobody starts these activities but a test. */
const starterOf = async () => 'jane@laptop';

const noReceiver: Outbox = { put: async () => undefined, lost: () => undefined };

/** The activities as the worker has them; `told` resolves when their Events are written. */
export function activitiesOn(
  { cluster }: { cluster: Cluster },
  isRunning: (workflowId: string) => Promise<boolean> = async () => false,
  notices: Outbox = noReceiver,
  keepsGates = true,
): {
  activities: Activities;
  told: () => Promise<void>;
} {
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const leases = new NodeLeases({ kube: cluster.kube, holder, leaseDurationSeconds: 900 });
  const deps = { cluster, events, nodeEvents: events, notices, leases, keepsGates, starterOf, isRunning };
  const activities = createActivities(deps);
  return { activities, told: () => events.flush() };
}

export function refOf({ metadata }: NodeMaintenance): MaintenanceRef {
  return { name: metadata.name, uid: metadata.uid ?? '', generation: metadata.generation ?? 0 };
}

/** Temporal logs every failure of an activity; one that a test expects is not news. */
const newEnvironment = () => new MockActivityEnvironment({}, { logger: new DefaultLogger('ERROR') });

/** Runs an activity as the Temporal worker does, until it ends. */
export function performed<T>(act: () => Promise<T>): Promise<T> {
  return newEnvironment().run(act);
}

/** Runs an activity twice, as Temporal does when a worker dies at its end: the second time it has nothing to write. */
export async function performedTwice<T>({ requests }: TestCluster, act: () => Promise<T>): Promise<T> {
  const first = await performed(act);
  const written = await requests.writesOf(async () => expect(await performed(act)).toEqual(first));
  expect(written).toEqual([]);
  return first;
}

export interface UnderWay<T> {
  /** How it ends. */
  ended: Promise<T>;
  /** Cancels it, as the workflow or a worker that stops does, and resolves when it has ended. */
  cancelled(): Promise<void>;
}

/** Starts an activity that lasts. */
export function started<T>(act: () => Promise<T>): UnderWay<T> {
  const environment = newEnvironment();
  const ended: Promise<T> = environment.run(act);
  // Awaited, if at all, only later: until then a failure is nobody's.
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
