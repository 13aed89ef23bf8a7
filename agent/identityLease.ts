import type { Lease, Node } from '../api/core.ts';
import {
  AGENT_COMPONENT,
  AGENT_LEASE_NAMESPACE,
  COMPONENT_LABEL,
  HOSTNAME_LABEL,
  IdentityAnnotation,
} from '../api/names.ts';
import { isTakenOver } from '../domain/leases/identityLease.ts';
import { anySignal, sleep } from '../kube/abort.ts';
import { errorMessage, isKubeError } from '../kube/errors.ts';
import { heldSpec } from '../kube/leaseRecord.ts';
import { resources } from '../kube/resources.ts';
import { packageVersion } from '../process/packageVersion.ts';
import type { AgentDeps } from './deps.ts';
import type { StaticPodState } from './staticPods/staticPods.ts';

const leaseDurationSeconds = 60;
const renewEveryMs = 15_000;
/** Before the first renewal, and after one that failed. */
const retryMs = 3_000;

/** Another agent has taken over this node. */
class TakenOverError extends Error {
  override readonly name = 'TakenOverError';
}

/**
 * Publishes the identity Lease of the agent, by which drains know that static pods of this node can be stopped, and renews it until the signal
 * aborts. It says how many manifests are held, so that an uninstallation waits until they are put back. The Lease is never deleted: it expires, and
 * ends with its Node. Of two agents on a node the later one takes the Lease over; the earlier one rejects with TakenOverError.
 */
export async function runIdentityLease(
  deps: Pick<AgentDeps, 'kube' | 'node' | 'log'>,
  staticPods: StaticPodState,
  signal: AbortSignal,
): Promise<void> {
  const { node, log } = deps;
  const holder = `${node}_${crypto.randomUUID()}`;
  let lease: Lease | undefined;
  let isPublished = false;
  let reported: string | undefined;
  while (!signal.aborted) {
    const { held } = staticPods;
    try {
      lease = await written(deps, { holder, held, lease, isPublished, signal });
      if (!isPublished) log.info('Identity Lease published', { node, holder });
      isPublished = true;
      reported = undefined;
      const wake = anySignal(staticPods.changedFrom(held), signal);
      await sleep(renewEveryMs, wake.signal);
      wake.dispose();
    } catch (error) {
      if (error instanceof TakenOverError) throw error;
      if (signal.aborted) return;
      lease = undefined;
      // Another agent wrote it, or a user: read it at once.
      if (isKubeError(error, 'Conflict') && isPublished) continue;
      const reason = errorMessage(error);
      if (reason !== reported) log.warn('Identity Lease could not be renewed', { node, reason });
      reported = reason;
      await sleep(retryMs, signal);
    }
  }
}

interface Attempt {
  readonly holder: string;
  /** Number of manifests. */
  readonly held: number;
  /** As this process wrote it last; undefined: it is read first. */
  readonly lease: Lease | undefined;
  readonly isPublished: boolean;
  readonly signal: AbortSignal;
}

/** Writes the Lease once, by one request if nothing else has written it since. Rejects with a KubeError, or with TakenOverError. */
async function written(
  { kube, node }: Pick<AgentDeps, 'kube' | 'node'>,
  { holder, held, lease, isPublished, signal }: Attempt,
): Promise<Lease> {
  const key = { namespace: AGENT_LEASE_NAMESPACE, name: node };
  const options = { signal, urgent: true };
  const current = lease ?? (await kube.get(resources.leases, key, options));
  if (isPublished && current !== undefined && isTakenOver(current, holder)) throw takenOver(node, current);
  const spec = heldSpec(current?.spec, { identity: holder, leaseDurationSeconds }, kube.now());
  if (lease !== undefined) {
    const { resourceVersion, annotations } = lease.metadata;
    const isReported = annotations?.[IdentityAnnotation.HeldStaticPods] === heldText(held);
    const metadata = { resourceVersion, ...(!isReported && { annotations: heldAnnotation(held) }) };
    return kube.mergePatch(resources.leases, key, { metadata, spec }, options);
  }
  const owner = await kube.get(resources.nodes, { name: node }, options);
  if (owner === undefined)
    throw new Error(`Node ${node} does not exist: the kubelet has not registered it, or --node is wrong`);
  const metadata = metadataOf(owner, current, held);
  if (current === undefined) return kube.create(resources.leases, { metadata, spec }, options);
  return kube.mergePatch(resources.leases, key, { metadata, spec }, options);
}

function takenOver(node: string, { spec: { holderIdentity = '' } }: Lease): TakenOverError {
  return new TakenOverError(
    `another agent of node ${node} has started since and holds Lease ${AGENT_LEASE_NAMESPACE}/${node} as ${holderIdentity}: this one ends; run one agent per node`,
  );
}

function heldText(held: number): string | undefined {
  return held === 0 ? undefined : String(held);
}

/** In a patch; null removes it. */
function heldAnnotation(held: number): Record<string, string> {
  return { [IdentityAnnotation.HeldStaticPods]: heldText(held) ?? (null as unknown as string) };
}

function metadataOf(node: Node, current: Lease | undefined, held: number): Lease['metadata'] {
  const { name, uid = '' } = node.metadata;
  const resourceVersion = current?.metadata.resourceVersion;
  return {
    name,
    namespace: AGENT_LEASE_NAMESPACE,
    ...(resourceVersion !== undefined && { resourceVersion }),
    labels: { [COMPONENT_LABEL]: AGENT_COMPONENT, [HOSTNAME_LABEL]: name },
    annotations: {
      [IdentityAnnotation.Version]: packageVersion(),
      [IdentityAnnotation.RenewIntervalSeconds]: String(renewEveryMs / 1_000),
      ...(current === undefined && held === 0 ? {} : heldAnnotation(held)),
    },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }],
  };
}
