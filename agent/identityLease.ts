import type { Lease, Node } from '../api/core.ts';
import {
  AgentCapability,
  AGENT_COMPONENT,
  AGENT_LEASE_NAMESPACE,
  COMPONENT_LABEL,
  HOSTNAME_LABEL,
  IdentityAnnotation,
} from '../api/names.ts';
import { isTakenOver } from '../domain/leases/identityLease.ts';
import { aborted, anySignal, sleep } from '../kube/abort.ts';
import { errorMessage, isKubeError } from '../kube/errors.ts';
import { heldSpec } from '../kube/leaseRecord.ts';
import { resources } from '../kube/resources.ts';
import { packageVersion } from '../process/packageVersion.ts';
import type { AgentDeps } from './deps.ts';
import type { StaticPodState } from './staticPods/staticPods.ts';

const leaseDurationSeconds = 60;
const renewEveryMs = 15_000;
/** Delay before another attempt, until the first renewal and after one that failed. */
const retryMs = 3_000;

/** Another agent has taken over this node. */
class TakenOverError extends Error {
  override readonly name = 'TakenOverError';
}

/** Abilities of the agent, as its Lease publishes them. */
export interface Abilities {
  readonly staticPods: StaticPodState;
  /** It has a reboot command. */
  readonly canReboot: boolean;
}

/**
 * Publishes the identity Lease of the agent, and renews it until the signal aborts. It says what the agent can do: drains stop static pods, and
 * windows reboot nodes, only where it does. It says how many manifests are held, so that an uninstallation waits until they are put back. The
 * Lease is never deleted: it expires, and ends with its Node. Of two agents on a node the later one takes the Lease over; the earlier one rejects
 * with TakenOverError.
 */
export async function runIdentityLease(
  deps: Pick<AgentDeps, 'kube' | 'node' | 'log'>,
  abilities: Abilities,
  signal: AbortSignal,
): Promise<void> {
  const { node, log } = deps;
  const holder = `${node}_${crypto.randomUUID()}`;
  let lease: Lease | undefined;
  let isPublished = false;
  let reported: string | undefined;
  const { staticPods } = abilities;
  // A restarted agent must not seem unable for a moment.
  if (staticPods.canHold === undefined) await untilAborted(staticPods.change, signal);
  while (!signal.aborted) {
    const { change } = staticPods;
    const report = reportOf(abilities);
    try {
      lease = await written(deps, { holder, report, lease, isPublished, signal });
      if (!isPublished) log.info('Identity Lease published', { node, holder });
      isPublished = true;
      reported = undefined;
      const wake = anySignal(change, signal);
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

async function untilAborted(...signals: AbortSignal[]): Promise<void> {
  const first = anySignal(...signals);
  await aborted(first.signal);
  first.dispose();
}

interface Attempt {
  readonly holder: string;
  readonly report: Report;
  /** The Lease as this process wrote it last; undefined: it is read first. */
  readonly lease: Lease | undefined;
  readonly isPublished: boolean;
  readonly signal: AbortSignal;
}

/** Writes the Lease once, by one request if nothing else has written it since. Rejects with a KubeError, or with TakenOverError. */
async function written(
  { kube, node }: Pick<AgentDeps, 'kube' | 'node'>,
  { holder, report, lease, isPublished, signal }: Attempt,
): Promise<Lease> {
  const key = { namespace: AGENT_LEASE_NAMESPACE, name: node };
  const options = { signal, urgent: true };
  const current = lease ?? (await kube.get(resources.leases, key, options));
  if (isPublished && current !== undefined && isTakenOver(current, holder)) throw takenOver(node, current);
  const spec = heldSpec(current?.spec, { identity: holder, leaseDurationSeconds }, kube.now());
  if (lease !== undefined) {
    const { resourceVersion, annotations } = lease.metadata;
    const metadata = { resourceVersion, ...(!says(annotations, report) && { annotations: patchOf(report) }) };
    return kube.mergePatch(resources.leases, key, { metadata, spec }, options);
  }
  const owner = await kube.get(resources.nodes, { name: node }, options);
  if (owner === undefined)
    throw new Error(`Node ${node} does not exist: the kubelet has not registered it, or --node is wrong`);
  const metadata = metadataOf(owner, current, report);
  if (current === undefined) return kube.create(resources.leases, { metadata, spec }, options);
  return kube.mergePatch(resources.leases, key, { metadata, spec }, options);
}

function takenOver(node: string, { spec: { holderIdentity = '' } }: Lease): TakenOverError {
  return new TakenOverError(
    `another agent of node ${node} has started since and holds Lease ${AGENT_LEASE_NAMESPACE}/${node} as ${holderIdentity}: this one ends; run one agent per node`,
  );
}

/** The annotations that change while the agent runs. Undefined: there is none. */
type Report = Readonly<Record<string, string | undefined>>;

function reportOf({ staticPods: { held, canHold }, canReboot }: Abilities): Report {
  const { Reboot, StaticPods } = AgentCapability;
  const capabilities = [...(canReboot ? [Reboot] : []), ...(canHold === true ? [StaticPods] : [])];
  return {
    [IdentityAnnotation.HeldStaticPods]: held === 0 ? undefined : String(held),
    [IdentityAnnotation.Capabilities]: capabilities.length === 0 ? undefined : capabilities.join(','),
  };
}

function says(annotations: Lease['metadata']['annotations'], report: Report): boolean {
  return Object.entries(report).every(([key, value]) => annotations?.[key] === value);
}

/** Returns the annotations of a patch, in which null removes one. */
function patchOf(report: Report): Record<string, string> {
  return Object.fromEntries(
    Object.entries(report).map(([key, value]) => [key, value ?? (null as unknown as string)]),
  );
}

/** Returns the annotations of a Lease that is created. */
function annotationsOf(report: Report): Record<string, string> {
  return Object.fromEntries(
    Object.entries(report).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
}

function metadataOf(node: Node, current: Lease | undefined, report: Report): Lease['metadata'] {
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
      ...(current === undefined ? annotationsOf(report) : patchOf(report)),
    },
    ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }],
  };
}
