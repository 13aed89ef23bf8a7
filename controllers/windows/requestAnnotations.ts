import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import {
  type AnnotatedRequests,
  decideAnnotatedRequests,
  hasRequestAnnotation,
} from '../../domain/windows/requests.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import { ignoreNotFound } from '../../kube/errors.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { WorkQueue } from '../../kube/workQueue.ts';

interface Deps {
  cluster: FencedCluster;
  events: EventRecorder;
  log: Log;
}

const workers = 2;

/**
 * Records in the status of an open window what users ask of it by annotation, and removes the annotation. The workflow of the window acts on
 * the status. The policy `window-author.nodemaintenance.k8s.io` has asked for the permissions of the user, so that none is asked for here.
 */
export async function runWindowRequestController(deps: Deps, signal: AbortSignal): Promise<void> {
  const { cluster, log } = deps;
  const queue = new WorkQueue('window-requests');
  const unsubscribe = cluster.windows.subscribe(({ type, object }) => {
    if (type !== 'Deleted' && hasRequestAnnotation(object)) queue.add(object.metadata.name);
  });
  for (const one of cluster.windows.list()) if (hasRequestAnnotation(one)) queue.add(one.metadata.name);
  try {
    await queue.run({
      workers,
      reconcile: (name) => reconcile(deps, name),
      fieldsOf: (name) => ({ window: name }),
      signal,
      log,
      observer: cluster.queues,
    });
  } finally {
    unsubscribe();
  }
}

async function reconcile({ cluster, events, log }: Deps, name: string): Promise<undefined> {
  const window = cluster.windows.get(name);
  if (window === undefined || !hasRequestAnnotation(window)) return undefined;
  const isSelected = (node: string) => {
    const found = cluster.nodes.get(node);
    return found !== undefined && selectsNode(window.spec.nodeSelector, found);
  };
  const decision = decideAnnotatedRequests(window, isSelected);
  try {
    await applyDecision(cluster, window, decision);
  } catch (error) {
    return ignoreNotFound(error);
  }
  const { annotations, problems } = decision;
  if (problems.length < annotations.length)
    log.info('Window requests recorded', { window: name, annotations });
  for (const problem of problems)
    events.record(window, { type: 'Warning', reason: 'RequestRejected', message: `Rejected: ${problem}.` });
  return undefined;
}

/** Records the requests first: an annotation that is left is handled once more, with the same result. */
async function applyDecision(
  { kube }: FencedCluster,
  { metadata: { name, uid, resourceVersion } }: Readonly<MaintenanceWindow>,
  { requests, annotations }: AnnotatedRequests,
): Promise<void> {
  // The decision is based on this version of the object.
  let version = resourceVersion;
  if (requests !== undefined) {
    const body = { metadata: { uid, resourceVersion: version }, status: { active: { requests } } };
    const options = { subresource: 'status', fieldManager: FIELD_MANAGER };
    const recorded = await kube.mergePatch(resources.maintenanceWindows, { name }, body, options);
    version = recorded.metadata.resourceVersion;
  }
  const removed = Object.fromEntries(annotations.map((key) => [key, null]));
  const body = { metadata: { uid, resourceVersion: version, annotations: removed } };
  await kube.mergePatch(resources.maintenanceWindows, { name }, body, { fieldManager: FIELD_MANAGER });
}
