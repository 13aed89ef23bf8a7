import { isDeepStrictEqual } from 'node:util';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { WindowRequestAnnotation } from '../../api/names.ts';
import { isRequestRecorded, requestAnnotationValue } from '../../domain/windows/requests.ts';
import { sleep } from '../../kube/abort.ts';
import type { JsonPatchOperation, Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import { CommandError } from '../output.ts';
import { getWindow, windowTitleOf } from './windowObjects.ts';

/** A request to the opening of a window. */
interface WindowRequest {
  readonly annotation: WindowRequestAnnotation;
  /** Verb of the command. */
  readonly verb: string;
  readonly nodes?: readonly string[];
}

/** Time within which a worker must handle a request: workers may be busy. */
const defaultTimeoutMs = 30_000;
const pollMs = 200;

const fieldManager = 'kubectl-maintenance';

/**
 * Asks an open window for something by an annotation, with the permissions of the user, and waits until its status records the request. Rejects
 * with a CommandError that names the remedy.
 */
export async function requestOf(
  kube: Kube,
  window: MaintenanceWindow,
  request: WindowRequest,
  timeoutMs = defaultTimeoutMs,
): Promise<void> {
  const runId = window.status?.active?.runId;
  if (runId === undefined) throw notOpen(window, request);
  const pending = { ...request, runId, timeoutMs, deadline: performance.now() + timeoutMs };
  await annotated(kube, window, pending);
  await handled(kube, window, pending);
}

function notOpen({ metadata, status }: MaintenanceWindow, { verb }: WindowRequest): CommandError {
  const next = status?.nextTime === undefined ? '' : `; it opens next at ${status.nextTime}`;
  return new CommandError(`${windowTitleOf(metadata.name)} is not open: there is nothing to ${verb}${next}`);
}

interface PendingRequest extends WindowRequest {
  readonly runId: string;
  readonly timeoutMs: number;
  /** Deadline in milliseconds, as `performance.now()`. */
  readonly deadline: number;
}

/** Sets the annotation when no other request of the kind is left on the window. */
async function annotated(kube: Kube, window: MaintenanceWindow, request: PendingRequest): Promise<void> {
  const isPending = ({ metadata }: MaintenanceWindow) =>
    metadata.annotations?.[request.annotation] !== undefined;
  let current = await openingNow(kube, window, request);
  while (isPending(current)) {
    await nextPoll(window, request, {
      handles: 'the earlier request',
      outcome: 'This request was not sent: repeat it when a worker runs',
    });
    current = await openingNow(kube, window, request);
  }
  const { name } = window.metadata;
  const operations = operationsOf(current, request);
  try {
    await kube.jsonPatch(resources.maintenanceWindows, { name }, operations, { fieldManager });
  } catch (error) {
    if (!isKubeError(error, 'Invalid', 'Conflict')) throw error;
    const latest = await openingNow(kube, window, request);
    if (isDeepStrictEqual(latest.metadata.annotations, current.metadata.annotations)) throw error;
    throw new CommandError(
      `${windowTitleOf(name)} was changed by another client in the meantime: check it and try again`,
      { cause: error },
    );
  }
}

function operationsOf(
  { metadata: { uid, annotations } }: MaintenanceWindow,
  { annotation, runId, nodes }: PendingRequest,
): JsonPatchOperation[] {
  const path = '/metadata/annotations';
  const missing: JsonPatchOperation[] = [
    { op: 'test', path, value: null },
    { op: 'add', path, value: {} },
  ];
  const key = `${path}/${annotation.replace('/', '~1')}`;
  return [
    { op: 'test', path: '/metadata/uid', value: uid },
    { op: 'test', path: '/status/active/runId', value: runId },
    ...(annotations === undefined ? missing : []),
    { op: 'test', path: key, value: null },
    { op: 'add', path: key, value: requestAnnotationValue(runId, nodes) },
  ];
}

/** Waits until a worker has removed the annotation. Rejects unless the request is recorded then. */
async function handled(kube: Kube, window: MaintenanceWindow, request: PendingRequest): Promise<void> {
  const { annotation, runId, nodes, verb } = request;
  const value = requestAnnotationValue(runId, nodes);
  const { name } = window.metadata;
  const title = windowTitleOf(name);
  let current = await sameWindow(kube, window);
  while (current.metadata.annotations?.[annotation] === value) {
    await nextPoll(window, request, {
      handles: 'the request',
      outcome: 'The request stays on the window, and is handled when a worker runs',
    });
    current = await sameWindow(kube, window);
  }
  const active = current.status?.active;
  if (active === undefined && verb === 'cancel') return;
  if (active?.runId !== runId) throw closedMeanwhile(window, request);
  if (isRequestRecorded(active, annotation, nodes)) return;
  const hint = nodes === undefined ? '' : `; check that it selects ${nodes.join(', ')}`;
  throw new CommandError(
    `${title} rejected the request${hint}: its Event RequestRejected says why (kubectl describe mw ${name})`,
  );
}

async function nextPoll(
  { metadata }: MaintenanceWindow,
  { deadline, timeoutMs }: PendingRequest,
  { handles, outcome }: { handles: string; outcome: string },
): Promise<void> {
  if (performance.now() >= deadline)
    throw new CommandError(
      `${windowTitleOf(metadata.name)}: no worker handled ${handles} within ${timeoutMs / 1_000} s: check the workers (kubectl maintenance workers). ${outcome}`,
    );
  await sleep(pollMs);
}

/** Reads the window. Rejects if it has another opening, or none. */
async function openingNow(
  kube: Kube,
  window: MaintenanceWindow,
  request: PendingRequest,
): Promise<MaintenanceWindow> {
  const current = await sameWindow(kube, window);
  if (current.status?.active?.runId === request.runId) return current;
  throw closedMeanwhile(window, request);
}

async function sameWindow(kube: Kube, { metadata }: MaintenanceWindow): Promise<MaintenanceWindow> {
  const current = await getWindow(kube, metadata.name);
  if (current.metadata.uid === metadata.uid) return current;
  throw new CommandError(
    `${windowTitleOf(metadata.name)} was deleted and created again in the meantime: check it and try again`,
  );
}

function closedMeanwhile({ metadata: { name } }: MaintenanceWindow, { verb }: WindowRequest): CommandError {
  return new CommandError(
    `${windowTitleOf(name)} was closed, or is run by another workflow run, in the meantime: check it with kubectl maintenance windows ${name}, and ${verb} it again`,
  );
}
