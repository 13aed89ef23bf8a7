import type { Job, Node } from '../api/core.ts';
import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import {
  FIELD_MANAGER,
  NODE_MAINTENANCE,
  REVISION_LABEL,
  TurnAnnotation,
  WINDOW_LABEL,
  WORK_NAMESPACE,
} from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { newTurn } from '../api/windowTurn.ts';
import { type ConditionFacts, isTrue, withCondition } from '../domain/conditions.ts';
import { stageOf } from '../domain/stage.ts';
import { completeDrainPlan } from '../domain/drainPlan.ts';
import { compareNames } from '../domain/names.ts';
import { turnFailed as turnFailedNotice } from '../domain/notices.ts';
import { jobName, revisionOf, turnName } from '../domain/revision.ts';
import { decideTurn, doneWith, isUnfinished, type TurnPolicy, type TurnStep } from '../domain/turn.ts';
import { turnCancelled, turnFailed, turnSucceeded, verdictOn } from '../domain/turnVerdict.ts';
import { isTurnOf } from '../domain/windowProgress.ts';
import { workJobSpec } from '../domain/workJob.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { isKubeError, isRefusal, wordsOf } from '../kube/errors.ts';
import { lastHeard } from '../kube/kubeletLease.ts';
import { resources } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { noticedMaintenance } from './notices.ts';
import { isLeftOpen } from './readinessTaint.ts';
import { requestStage, updateStatus } from './stage.ts';

const nodesAtOnce = 8;

/** The turn of one node in a window: its NodeMaintenance, and what is to be done next. */
export interface SeenTurn {
  node: string;
  maintenance: NodeMaintenance;
  revision: string;
  /** Whether the node is still the machine that the turn was begun for. */
  isOfNode: boolean;
  job: Job | undefined;
  step: TurnStep;
  /** What the apiserver said that did not let the turn be judged. */
  refused?: string;
}

/** Since when turns were seen to wait for their nodes, by UID of the NodeMaintenance. Milliseconds. */
export type Awaited = Readonly<Record<string, number>>;

/** The turns that a window has begun, of whatever revision, by name. */
export async function turnsOf(
  deps: Deps,
  window: MaintenanceWindow,
  policy: TurnPolicy,
  awaited: Awaited = {},
): Promise<SeenTurn[]> {
  const { cluster } = deps;
  const found = cluster.maintenances
    .list()
    .filter(({ metadata }) => metadata.labels?.[WINDOW_LABEL] === window.metadata.name)
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
    .map((maintenance) => ({ maintenance, job: jobOf(deps, maintenance) }));
  const worked = found.filter((one) => doneWith(one) !== undefined);
  const heard = await heardFrom(
    deps,
    worked.map(({ maintenance }) => nodeOf(maintenance)),
  );
  const revision = revisionOf(window.spec);
  const now = cluster.kube.now().getTime();
  return found.map(({ maintenance, job }) => {
    const { annotations = {}, labels = {} } = maintenance.metadata;
    const node = nodeOf(maintenance);
    const machine = cluster.nodes.get(node);
    const nodeUid = annotations[TurnAnnotation.NodeUid] ?? '';
    const isOfNode = isTurnOf({ nodeUid, maintenance }, machine);
    const seen = { node, maintenance, revision: labels[REVISION_LABEL] ?? '', isOfNode, job };
    const heardAt = heard.get(node);
    if (typeof heardAt === 'string')
      return {
        ...seen,
        step: { kind: 'Wait', message: 'its kubelet cannot be asked for' },
        refused: heardAt,
      };
    const step = decideTurn({
      maintenance,
      node: isOfNode ? machine : undefined,
      isReplaced: machine !== undefined && machine.metadata.uid !== nodeUid,
      work: annotations[TurnAnnotation.Work] === 'Job' ? 'Job' : 'None',
      isOutdated: labels[REVISION_LABEL] !== revision,
      job,
      heardAt,
      isLeftOpen: isReturning(maintenance) && machine !== undefined && isLeftOpen(deps, machine),
      awaitedSince: awaited[maintenance.metadata.uid ?? ''],
      policy,
      readyTimeoutSeconds: window.spec.rollout.readyTimeoutSeconds,
      now,
    });
    return { ...seen, step };
  });
}

/** Whether its node is given back, and waited for. */
function isReturning(maintenance: NodeMaintenance): boolean {
  return stageOf(maintenance) === 'Complete' && verdictOn(maintenance)?.status !== 'True';
}

/** What is to be remembered for the next look: a turn that waits no more begins anew. */
export function awaitedIn(turns: readonly SeenTurn[], before: Awaited, now: number): Awaited {
  const waiting = turns.filter(({ step }) => step.kind === 'AwaitNode');
  const uids = waiting.map(({ maintenance }) => maintenance.metadata.uid ?? '');
  return Object.fromEntries(uids.map((uid) => [uid, before[uid] ?? now]));
}

function nodeOf({ metadata }: NodeMaintenance): string {
  return metadata.annotations?.[TurnAnnotation.Node] ?? '';
}

/** Its own: a namesake may be left of an earlier turn. */
function jobOf({ cluster }: Deps, maintenance: NodeMaintenance): Job | undefined {
  const job = cluster.jobs.get(`${WORK_NAMESPACE}/${jobName(maintenance.metadata.name)}`);
  return isJobOf(job, maintenance) ? job : undefined;
}

function isJobOf(job: Job | undefined, { metadata: { uid } }: NodeMaintenance): job is Job {
  return job?.metadata.ownerReferences?.some((owner) => owner.uid === uid) ?? false;
}

/**
 * When the kubelets of nodes last renewed their Leases, in milliseconds, or why that may not be read; nothing of a node that has
 * none.
 */
async function heardFrom({ cluster }: Deps, nodes: readonly string[]): Promise<Map<string, number | string>> {
  const heard = new Map<string, number | string>();
  await forEachBounded(nodesAtOnce, nodes, async (name) => {
    try {
      const at = await lastHeard(cluster.kube, name);
      if (at !== undefined) heard.set(name, at);
    } catch (error) {
      // Of one node nothing is known then; the others go on.
      if (!isKubeError(error, 'Forbidden')) throw error;
      heard.set(name, wordsOf(error));
    }
  });
  return heard;
}

/** Does what a turn needs next; the informers show it, and the next look goes on from there. */
export async function act(deps: Deps, window: MaintenanceWindow, turn: SeenTurn): Promise<void> {
  const { maintenance, step } = turn;
  const ref = refTo(maintenance);
  switch (step.kind) {
    case 'StartJob':
      return startJob(deps, window, turn);
    case 'NoteWork':
      return judge(deps, ref, step.facts);
    case 'DeleteJob':
      return deleteJob(deps, turn.job);
    case 'Complete':
      return complete(deps, turn);
    case 'Cancel':
      return judge(deps, ref, turnCancelled);
    case 'Succeed':
      return judge(deps, ref, turnSucceeded);
    case 'Fail':
      // The informer may have missed the Job.
      if (step.reason === 'JobDeleted' && (await jobNow(deps, maintenance)) !== undefined) return undefined;
      return fail(deps, window, turn, step);
    case 'Forget':
      return forget(deps, maintenance);
    case 'Wait':
    case 'AwaitNode':
    case 'Failed':
    case 'Over':
      return undefined;
  }
}

/** Creates the NodeMaintenance that is the node's turn. One that is there is its turn already, unless it is not the window's. */
export async function beginTurn(
  deps: Deps,
  window: MaintenanceWindow,
  revision: string,
  { metadata: { name: node, uid = '' } }: Node,
): Promise<void> {
  const maintenance = newTurn(window, {
    name: turnName(window.metadata.name, revision, node),
    revision,
    drainPlan: completeDrainPlan(window.spec.template.drainPlan),
    node: { name: node, uid },
  });
  const { kube } = deps.cluster;
  try {
    await kube.create(resources.nodeMaintenances, maintenance, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
    const found = await kube.get(resources.nodeMaintenances, { name: maintenance.metadata.name });
    if (found !== undefined && found.metadata.labels?.[WINDOW_LABEL] !== window.metadata.name) throw error;
  }
}

/** Whether the window has the maintenance paused, or wants to. */
export function isResting({ metadata }: NodeMaintenance): boolean {
  return metadata.annotations?.[TurnAnnotation.Resting] !== undefined;
}

/** Notes on the turn that its pause is the window's, so that no person's is ever taken back. */
export async function markResting(deps: Deps, { metadata }: NodeMaintenance, rests: boolean): Promise<void> {
  const { name, uid } = metadata;
  const annotations = { [TurnAnnotation.Resting]: rests ? 'true' : null };
  const body = { metadata: { uid, annotations } };
  await deps.cluster.kube.mergePatch(resources.nodeMaintenances, { name }, body, {
    fieldManager: FIELD_MANAGER,
  });
}

/** The verdict on a turn, on its NodeMaintenance, where people see it. */
export async function judge(deps: Deps, ref: MaintenanceRef, verdict: ConditionFacts): Promise<void> {
  const now = deps.cluster.kube.now().toISOString();
  await updateStatus(deps, ref, (status) => ({
    ...status,
    conditions: withCondition(status.conditions, verdict, now),
  }));
}

export function refTo({ metadata }: NodeMaintenance): MaintenanceRef {
  const { name, uid = '', generation = 0 } = metadata;
  return { name, uid, generation };
}

async function fail(
  deps: Deps,
  window: MaintenanceWindow,
  { node, maintenance }: SeenTurn,
  { reason, message }: Extract<TurnStep, { kind: 'Fail' }>,
): Promise<void> {
  const now = deps.cluster.kube.now().toISOString();
  const notice = turnFailedNotice(noticedMaintenance(maintenance), { node, reason, message }, now);
  // Once the verdict stands, nobody comes here again.
  await deps.notices.put(notice);
  await judge(deps, refTo(maintenance), turnFailed(reason, message));
  const event = { reason: 'TurnFailed', message: `The turn of node ${node} failed: ${message}.` };
  for (const about of [maintenance, window]) deps.events.record(about, { type: 'Warning', ...event });
}

/** Gives the node back, unless the informer has missed a Job that may still work on it. */
async function complete(deps: Deps, { maintenance }: SeenTurn): Promise<void> {
  if (isUnfinished(await jobNow(deps, maintenance))) return;
  await requestStage(deps, refTo(maintenance), 'Complete');
}

/** The Job of a turn, as the apiserver has it. */
async function jobNow({ cluster }: Deps, maintenance: NodeMaintenance): Promise<Job | undefined> {
  const key = { namespace: WORK_NAMESPACE, name: jobName(maintenance.metadata.name) };
  const job = await cluster.kube.get(resources.jobs, key);
  return isJobOf(job, maintenance) ? job : undefined;
}

async function startJob(deps: Deps, window: MaintenanceWindow, turn: SeenTurn): Promise<void> {
  const job = newJob(window, turn);
  // The informer may have missed that somebody completed it.
  if (job === undefined || !(await isDrained(deps, turn.maintenance))) return;
  try {
    await deps.cluster.kube.create(resources.jobs, job, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (isKubeError(error, 'AlreadyExists')) return;
    if (!isKubeError(error, 'Invalid', 'Forbidden')) {
      // A webhook that is down must not keep the other turns from going on: this one is tried again.
      if (!isRefusal(error)) throw error;
      const told = `The Job of node ${turn.node} cannot be made now: ${wordsOf(error)}`;
      deps.events.record(window, { type: 'Warning', reason: 'JobNotStarted', message: told.slice(0, 1_000) });
      return;
    }
    const message = `the apiserver refuses its Job, ${wordsOf(error)}: correct work.job.template, then delete the NodeMaintenance`;
    await fail(deps, window, turn, { kind: 'Fail', reason: 'JobRefused', message: message.slice(0, 1_000) });
  }
}

async function isDrained({ cluster }: Deps, { metadata: { name, uid } }: NodeMaintenance): Promise<boolean> {
  const found = await cluster.kube.get(resources.nodeMaintenances, { name });
  if (found === undefined || found.metadata.uid !== uid || stageOf(found) !== 'Drain') return false;
  return isTrue(found.status?.conditions, 'Drained');
}

/** Undefined when there is no Job to run any more. */
function newJob(window: MaintenanceWindow, { node, maintenance }: SeenTurn): Job | undefined {
  const { job } = window.spec.work;
  if (job === undefined) return undefined;
  const { name, uid = '' } = maintenance.metadata;
  const { apiVersion, kind } = NODE_MAINTENANCE;
  return {
    metadata: {
      name: jobName(name),
      namespace: WORK_NAMESPACE,
      labels: { [WINDOW_LABEL]: window.metadata.name },
      annotations: { [TurnAnnotation.Node]: node },
      ownerReferences: [{ apiVersion, kind, name, uid }],
    },
    spec: workJobSpec(job, node),
  };
}

/** Its pods go first, so that the node is not given back under them. */
async function deleteJob({ cluster }: Deps, job: Job | undefined): Promise<void> {
  if (job === undefined) return;
  const { name, namespace, uid = '' } = job.metadata;
  await cluster.kube.delete(resources.jobs, { namespace, name }, { uid, propagationPolicy: 'Foreground' });
}

async function forget({ cluster }: Deps, { metadata }: NodeMaintenance): Promise<void> {
  const { name, uid = '' } = metadata;
  await cluster.kube.delete(resources.nodeMaintenances, { name }, { uid, propagationPolicy: 'Background' });
}
