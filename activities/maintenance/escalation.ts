import type { Pod } from '../../api/core.ts';
import type {
  DeadlineStepStatus,
  DrainDeadlineStatus,
  NodeMaintenance,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { listed } from '../../domain/common/names.ts';
import { isLeftRunning, podName, podTypeOf } from '../../domain/common/pod.ts';
import { stageOf } from '../../domain/common/stage.ts';
import { numbered } from '../../domain/common/text.ts';
import {
  escalationAt,
  nextStepInMs,
  ownersOf,
  stepsDone,
  withStepsDone,
} from '../../domain/drain/escalation.ts';
import { otherHolderOf } from '../../domain/leases/lease.ts';
import { withDrainDeadline } from '../../domain/maintenance/status.ts';
import { deadline as deadlineNotification } from '../../domain/notifications/events.ts';
import { byNode, nodeLeaseOf } from '../../kube/cluster.ts';
import { aboutPod } from '../../kube/events.ts';
import { resources } from '../../kube/resources.ts';
import type { EscalationStep, MaintenanceRef } from '../contract.ts';
import type { Deps } from '../deps.ts';
import { updateStatus } from './stage.ts';
import { notifiedMaintenanceOf } from '../notifications/notifications.ts';
import { nodeStatusOf, selectedNodes } from '../view.ts';

/** Pods that have an Event of a step; the notification counts all of them. */
const maxPodsWithEvent = 100;

/**
 * Activity: does the steps of the escalation that are due, by the apiserver's clock. Steps that are overdue together are reported as one, the
 * last. They are recorded as done afterwards: an activity that runs again sends the same notification, which is delivered once, and returns the steps
 * that an earlier attempt has done, unless they are among those that the history has (`recorded`).
 */
export async function escalate(
  deps: Deps,
  ref: MaintenanceRef,
  recorded: unknown = [],
): Promise<EscalationStep> {
  const { kube } = deps.cluster;
  const current = await kube.get(resources.nodeMaintenances, { name: ref.name });
  if (current === undefined || current.metadata.uid !== ref.uid) return { done: [] };
  const { generation = 0 } = current.metadata;
  const known = Array.isArray(recorded) ? recorded : [];
  if (stageOf(current) !== 'Drain' || current.status === undefined)
    return { generation, ...stepsDone(current.status?.drainDeadline, known) };
  const maintenance = { ...current, status: withDrainDeadline(current.status, current.spec.drainDeadline) };
  const { drainDeadline } = maintenance.status;
  if (drainDeadline === undefined) return { generation, ...stepsDone(undefined) };
  const now = kube.now();
  const { due } = escalationAt(drainDeadline, now.getTime());
  const last = due.at(-1);
  if (last !== undefined) await report(deps, maintenance, drainDeadline, last);
  const updated = await updateStatus(deps, ref, (status) => withSteps(status, maintenance, due, now));
  const latest = updated?.latest ?? maintenance;
  const nextInMs = nextStepInMs(latest, kube.now());
  return {
    generation,
    ...stepsDone(latest.status?.drainDeadline, known),
    ...(nextInMs !== undefined && { nextInMs }),
  };
}

function withSteps(
  status: NodeMaintenanceStatus,
  { spec }: NodeMaintenance,
  due: readonly DeadlineStepStatus[],
  now: Date,
): NodeMaintenanceStatus {
  const next = withDrainDeadline(status, spec.drainDeadline);
  if (next.drainDeadline === undefined || due.length === 0) return next;
  return { ...next, drainDeadline: withStepsDone(next.drainDeadline, due, now.toISOString()) };
}

/** Sends the notification of a step, and records its Events on the maintenance and on pods that are left. */
async function report(
  deps: Deps,
  maintenance: NodeMaintenance,
  { time }: DrainDeadlineStatus,
  step: DeadlineStepStatus,
): Promise<void> {
  const pods = podsLeft(deps, maintenance);
  const { onDeadline = 'Report' } = maintenance.spec.drainDeadline ?? {};
  const isPaused = isTrue(maintenance.status?.conditions, 'Paused');
  const isOfOthers = heldByOthers(deps);
  const onNodesOfOthers = pods.filter(isOfOthers).length;
  const facts = {
    time,
    step,
    onDeadline,
    isPaused,
    pods: pods.map(podName),
    onNodesOfOthers,
    owners: ownersOf(pods),
  };
  const notification = deadlineNotification(notifiedMaintenanceOf(maintenance), facts);
  await deps.notifications.enqueue(notification);
  const isExceeded = step.action !== 'Notify';
  deps.events.record(maintenance, {
    type: isExceeded ? 'Warning' : 'Normal',
    reason: isExceeded ? 'DrainDeadlineExceeded' : 'DrainDeadline',
    message: `${notification.data.message}${pods.length === 0 ? '' : ` Pods: ${listed(pods.map(podName))}.`}`,
  });
  if (isExceeded) return;
  for (const pod of pods.slice(0, maxPodsWithEvent)) {
    const isDeleted = onDeadline === 'Delete' && !isOfOthers(pod);
    const effect = isDeleted ? '; pods that are left are deleted one grace period earlier' : '';
    deps.nodeEvents.record(aboutPod(pod), {
      type: 'Normal',
      reason: 'DrainDeadline',
      message: `Node ${pod.spec.nodeName} is to be drained by ${time}${effect} (NodeMaintenance ${maintenance.metadata.name}, ${numbered(pods.length, 'pod')} left).`,
    });
  }
}

/** Returns whether someone else holds the maintenance Lease of the node of a pod. */
function heldByOthers({ cluster, leases }: Pick<Deps, 'cluster' | 'leases'>): (pod: Pod) => boolean {
  const nowMs = cluster.kube.now().getTime();
  return ({ spec: { nodeName = '' } }) =>
    otherHolderOf(nodeLeaseOf(cluster, nodeName), leases.holder, nowMs) !== undefined;
}

/**
 * Returns the pods that the drain evacuates, sorted by name. Static pods stay, or are stopped by the agents of their nodes. Nothing is started on nodes
 * that the requester may not maintain.
 */
function podsLeft({ cluster, namespace }: Deps, maintenance: NodeMaintenance): Pod[] {
  return selectedNodes(maintenance, cluster.nodes.list())
    .filter((node) => nodeStatusOf(maintenance, node)?.authorized !== false)
    .flatMap(({ metadata }) => cluster.pods.byIndex(byNode, metadata.name))
    .filter((pod) => !isLeftRunning(pod, namespace) && podTypeOf(pod) !== 'Static')
    .toSorted((a, b) => (podName(a) < podName(b) ? -1 : 1));
}
