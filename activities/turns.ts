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
import { type ConditionFacts, withCondition } from '../domain/conditions.ts';
import { completeDrainPlan } from '../domain/drainPlan.ts';
import { jobName, turnName } from '../domain/revision.ts';
import { decideTurn, type TurnPolicy, type TurnStep } from '../domain/turn.ts';
import { turnCancelled, turnFailed, turnSucceeded } from '../domain/turnVerdict.ts';
import { workJobSpec } from '../domain/workJob.ts';
import { isKubeError, wordsOf } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { requestStage, updateStatus } from './stage.ts';

/** The turn of one node in a window: its NodeMaintenance, and what is to be done next. */
export interface SeenTurn {
  node: string;
  maintenance: NodeMaintenance;
  revision: string;
  /** Whether the node is still the machine that the turn was begun for. */
  isOfNode: boolean;
  job: Job | undefined;
  step: TurnStep;
}

/** The turns that a window has begun, of whatever revision, oldest first. */
export function turnsOf(deps: Deps, window: MaintenanceWindow, policy: TurnPolicy): SeenTurn[] {
  const { name } = window.metadata;
  return deps.cluster.maintenances
    .list()
    .filter(({ metadata }) => metadata.labels?.[WINDOW_LABEL] === name)
    .map((maintenance) => seenTurn(deps, window, maintenance, policy))
    .toSorted((a, b) => (a.maintenance.metadata.name < b.maintenance.metadata.name ? -1 : 1));
}

function seenTurn(
  { cluster }: Deps,
  window: MaintenanceWindow,
  maintenance: NodeMaintenance,
  policy: TurnPolicy,
): SeenTurn {
  const { annotations = {}, labels = {}, name, uid } = maintenance.metadata;
  const node = annotations[TurnAnnotation.Node] ?? '';
  const found = cluster.nodes.get(node);
  const isOfNode = found !== undefined && found.metadata.uid === annotations[TurnAnnotation.NodeUid];
  const job = cluster.jobs.get(`${WORK_NAMESPACE}/${jobName(name)}`);
  const ownJob = job?.metadata.ownerReferences?.some((owner) => owner.uid === uid) ? job : undefined;
  const step = decideTurn({
    maintenance,
    node: isOfNode ? found : undefined,
    work: window.spec.work,
    job: ownJob,
    policy,
    readyTimeoutSeconds: window.spec.rollout.readyTimeoutSeconds,
    now: cluster.kube.now().getTime(),
  });
  return { node, maintenance, revision: labels[REVISION_LABEL] ?? '', isOfNode, job: ownJob, step };
}

/** Does what a turn needs next; the informers show it, and the next look goes on from there. */
export async function act(deps: Deps, window: MaintenanceWindow, turn: SeenTurn): Promise<void> {
  const { maintenance, step } = turn;
  const ref = refTo(maintenance);
  switch (step.kind) {
    case 'StartJob':
      return startJob(deps, window, turn);
    case 'DeleteJob':
      return deleteJob(deps, turn);
    case 'Complete':
      await requestStage(deps, ref, 'Complete');
      return undefined;
    case 'Cancel':
      return judge(deps, ref, turnCancelled);
    case 'Succeed':
      return judge(deps, ref, turnSucceeded);
    case 'Fail':
      return fail(deps, turn, step);
    case 'Forget':
      return forget(deps, maintenance);
    case 'Wait':
    case 'Failed':
    case 'Over':
      return undefined;
  }
}

/** Creates the NodeMaintenance that is the node's turn. One that is there is its turn already. */
export async function beginTurn(
  deps: Deps,
  window: MaintenanceWindow,
  revision: string,
  node: Node,
): Promise<void> {
  const { drainPlan, reason } = window.spec.template;
  const { name } = window.metadata;
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [node.metadata.name] }];
  const maintenance: NodeMaintenance = {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: {
      name: turnName(name, revision, node.metadata.name),
      labels: { [WINDOW_LABEL]: name, [REVISION_LABEL]: revision },
      annotations: {
        [TurnAnnotation.Node]: node.metadata.name,
        [TurnAnnotation.NodeUid]: node.metadata.uid ?? '',
      },
    },
    spec: {
      nodeSelector: { nodeSelectorTerms: [{ matchFields }] },
      stage: 'Drain',
      drainPlan: completeDrainPlan(drainPlan),
      reason: reason ?? `Window ${name}`,
    },
  };
  try {
    await deps.cluster.kube.create(resources.nodeMaintenances, maintenance, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
  }
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
  { node, maintenance }: SeenTurn,
  { reason, message }: Extract<TurnStep, { kind: 'Fail' }>,
): Promise<void> {
  await judge(deps, refTo(maintenance), turnFailed(reason, message));
  deps.events.record(maintenance, {
    type: 'Warning',
    reason: 'TurnFailed',
    message: `The turn of node ${node} failed: ${message}.`,
  });
}

async function startJob(deps: Deps, window: MaintenanceWindow, turn: SeenTurn): Promise<void> {
  const job = jobOf(window, turn);
  if (job === undefined) return;
  try {
    await deps.cluster.kube.create(resources.jobs, job, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (isKubeError(error, 'AlreadyExists')) return;
    if (!isKubeError(error, 'Invalid', 'Forbidden')) throw error;
    const message = `the apiserver refuses its Job, ${wordsOf(error)}: correct work.job.template, then delete the NodeMaintenance`;
    await fail(deps, turn, { kind: 'Fail', reason: 'JobRefused', message: message.slice(0, 1_000) });
  }
}

/** Undefined when there is no Job to run any more. */
function jobOf(window: MaintenanceWindow, { node, maintenance }: SeenTurn): Job | undefined {
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
async function deleteJob({ cluster }: Deps, { job }: SeenTurn): Promise<void> {
  if (job === undefined) return;
  const { name, namespace, uid = '' } = job.metadata;
  await cluster.kube.delete(resources.jobs, { namespace, name }, { uid, propagationPolicy: 'Foreground' });
}

async function forget({ cluster }: Deps, { metadata }: NodeMaintenance): Promise<void> {
  const { name, uid = '' } = metadata;
  await cluster.kube.delete(resources.nodeMaintenances, { name }, { uid, propagationPolicy: 'Background' });
}
