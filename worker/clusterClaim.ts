import {
  type Client,
  ServiceError,
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { CLUSTER_NAME_MEMO, CLUSTER_UID_MEMO, type ClusterScope, temporalNames } from '../api/names.ts';
import { shortUid } from '../domain/common/clusterName.ts';
import { oneLine } from '../domain/common/text.ts';
import { repeat } from '../controllers/repeat.ts';
import { type TemporalAvailability, untilAvailable } from '../controllers/temporalAvailability.ts';
import type { Kube } from '../kube/client.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';
import { claimedTaskQueues } from '../temporal-config/clusterClaims.ts';
import { readableMemo } from '../temporal-config/readableMemo.ts';
import { describeRun, isOpen } from '../temporal-config/runs.ts';
import { retryUntilAvailable, type WaitOptions } from './startupRetry.ts';
import type { Temporal } from './temporal.ts';

/**
 * Several clusters may share a Temporal namespace. A cluster claims its task queue, and with it the ids of its workflows and Schedules, by
 * a workflow that never ends and whose memo contains the UID of the cluster (ADR 37). Temporal runs one workflow of an id at a time, so that
 * two clusters cannot have the same claim.
 */

/** Returns how Temporal knows the cluster. Waits while the apiserver does not answer. */
export async function readScope(
  kube: Kube,
  cluster: string | undefined,
  wait: WaitOptions,
): Promise<ClusterScope> {
  const api = { name: 'the UID of namespace kube-system', remedy: 'apply the RBAC of deploy/', ...wait };
  const found = await retryUntilAvailable(api, () => kube.get(resources.namespaces, { name: 'kube-system' }));
  const uid = found?.metadata.uid ?? '';
  if (uid === '') throw new Error('the cluster has no namespace kube-system, whose UID identifies it');
  return { name: cluster ?? shortUid(uid), uid, names: temporalNames(cluster) };
}

/** Another cluster has the names. Waiting does not help: the message is one line with the remedies. */
export class ClaimedByOther extends Error {}

type ClaimClient = Pick<Temporal, 'client' | 'namespace'>;

/** Claims the names of the cluster. Rejects with ClaimedByOther if another cluster has claimed them. */
export async function claimNames(temporal: ClaimClient, scope: ClusterScope, log: Log): Promise<void> {
  await renewClaim(temporal, scope);
  log.info('Cluster claimed', { cluster: scope.name, uid: scope.uid, taskQueue: scope.names.taskQueue });
}

interface FormerClaimsDeps {
  readonly client: Client;
  readonly availability: TemporalAvailability;
  readonly scope: ClusterScope;
  /** Reports whether a worker of this cluster runs on the task queue: while `--cluster` is being changed, there are workers with both names. */
  readonly isUsed: (taskQueue: string) => boolean;
  readonly log: Log;
}

const releaseEveryMs = 5 * 60_000;

/**
 * Ends the former claims of the cluster until the signal aborts. Not part of claiming: it needs the list of runs, which Temporal may not be able to
 * answer while it runs workflows. Repeated, because a worker with the former name renews its claim until it is replaced.
 */
export async function runFormerClaimsController(
  { client, availability, scope, isUsed, log }: FormerClaimsDeps,
  signal: AbortSignal,
): Promise<void> {
  const release = () => releaseFormerClaims(client, scope, { isUsed, log });
  const pass = async () => {
    await untilAvailable(availability, signal);
    if (!signal.aborted) await client.withAbortSignal(signal, release);
  };
  const failure = 'Former claims of this cluster could not be listed, retrying';
  await repeat(pass, { everyMs: releaseEveryMs, failure, log, signal });
}

/** Renews a claim that a user has terminated. Rejects with ClaimedByOther if another cluster has taken it. */
export async function renewClaim({ client, namespace }: ClaimClient, scope: ClusterScope): Promise<void> {
  const owner = await explained(ownerAfterClaim(client, scope));
  if (owner.uid !== scope.uid) throw new ClaimedByOther(claimedByOther(namespace, scope, owner));
}

/** The errors of the client say what was tried; their causes say why it failed. */
async function explained<T>(attempt: Promise<T>): Promise<T> {
  try {
    return await attempt;
  } catch (error) {
    if (!(error instanceof ServiceError) || !(error.cause instanceof Error)) throw error;
    throw new Error(`${error.message}: ${error.cause.message}`, { cause: error });
  }
}

/** Ends the claims that the cluster made before its `--cluster` was changed: the CLI searches them by UID. */
export async function releaseFormerClaims(
  client: Client,
  { uid, names }: ClusterScope,
  { isUsed, log }: Pick<FormerClaimsDeps, 'isUsed' | 'log'>,
): Promise<void> {
  for await (const taskQueue of claimedTaskQueues(client, uid)) {
    if (taskQueue === names.taskQueue || isUsed(taskQueue)) continue;
    await client.workflow.getHandle(taskQueue).terminate('--cluster was changed').catch(ignoreNotFound);
    log.warn('The former claim of this cluster was ended: runs on its task queue have no worker any more', {
      taskQueue,
    });
  }
}

function ignoreNotFound(error: unknown): void {
  if (!(error instanceof WorkflowNotFoundError)) throw error;
}

interface Owner {
  name: string;
  uid: string;
}

const maxNameLength = 80;

/** Starts the workflow of the claim unless it runs. Returns the cluster that has the claim. */
async function ownerAfterClaim(client: Client, { name, uid, names }: ClusterScope): Promise<Owner> {
  const existing = await ownerOf(client, names.taskQueue);
  if (existing !== undefined) return existing;
  try {
    await client.workflow.start('clusterClaim', {
      workflowId: names.taskQueue,
      taskQueue: names.taskQueue,
      memo: readableMemo({ [CLUSTER_UID_MEMO]: uid, [CLUSTER_NAME_MEMO]: name }),
      staticSummary: `Cluster ${name}`,
      staticDetails: `Cluster \`${name}\` (UID \`${uid}\`) runs its maintenances on task queue \`${names.taskQueue}\`. This run only says so. Terminate it when the cluster does not exist any more: another cluster can then use the names.`,
    });
    return { name, uid };
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    const winner = await ownerOf(client, names.taskQueue);
    if (winner === undefined) throw error;
    return winner;
  }
}

async function ownerOf(client: Client, workflowId: string): Promise<Owner | undefined> {
  const run = await describeRun(client, { workflowId });
  if (run === undefined || !isOpen(run)) return undefined;
  return { uid: textOf(run.memo[CLUSTER_UID_MEMO]), name: textOf(run.memo[CLUSTER_NAME_MEMO]) };
}

function textOf(entry: string | undefined): string {
  return oneLine(entry || 'unknown', maxNameLength);
}

function claimedByOther(namespace: string, { uid, names }: ClusterScope, owner: Owner): string {
  const claimed = `task queue ${names.taskQueue} in Temporal namespace ${namespace} belongs to cluster ${owner.name} (UID ${owner.uid}), and this is cluster ${uid}`;
  return `${claimed}: choose another --cluster or TEMPORAL_NAMESPACE; if that cluster does not exist any more, run temporal workflow terminate --workflow-id ${names.taskQueue}`;
}
