import type { Lease } from '../../api/core.ts';
import { AgentCapability, IdentityAnnotation } from '../../api/names.ts';
import { oneLine } from '../common/text.ts';

/** Whether an agent works on a node, by its identity Lease. */
export type NodeAgent =
  | { readonly kind: 'Live'; readonly version: string; readonly capabilities: readonly AgentCapability[] }
  /** It has stopped renewing its Lease. `since` is undefined if the Lease does not say when. */
  | { readonly kind: 'Silent'; readonly since: string | undefined }
  /** It has no Lease. */
  | { readonly kind: 'None' }
  /** The worker may not read the Lease. */
  | { readonly kind: 'Unknown'; readonly because: string };

export const noAgent: NodeAgent = { kind: 'None' };

/** Whatever an agent writes, a Lease that it does not renew counts for this long at most. */
const maxDurationMs = 300_000;
/** A renewTime further in the future was written by the wrong clock. */
const maxAheadMs = 60_000;
const maxVersionLength = 63;

/** Returns the state of the agent at the time when its Lease was read, by the clock of the apiserver. */
export function nodeAgentOf(lease: Readonly<Lease> | undefined, now: Date): NodeAgent {
  if (lease === undefined) return noAgent;
  const { holderIdentity = '', leaseDurationSeconds = 0, renewTime = '' } = lease.spec;
  const ageMs = now.getTime() - Date.parse(renewTime);
  const isCurrent = ageMs >= -maxAheadMs && ageMs <= Math.min(leaseDurationSeconds * 1_000, maxDurationMs);
  if (holderIdentity === '' || !isCurrent)
    return { kind: 'Silent', since: ageMs >= 0 ? new Date(renewTime).toISOString() : undefined };
  const { annotations = {} } = lease.metadata;
  const version = oneLine(annotations[IdentityAnnotation.Version] ?? '', maxVersionLength);
  const capabilities = capabilitiesIn(annotations[IdentityAnnotation.Capabilities]?.split(',') ?? []);
  return { kind: 'Live', version: version || 'unknown', capabilities };
}

/** Returns those that this version knows, in their order by name. */
export function capabilitiesIn(names: readonly string[]): AgentCapability[] {
  return Object.values(AgentCapability).filter((capability) => names.includes(capability));
}

/** Returns how many manifests of static pods the agent holds, by its Lease; 0 if that says nothing. */
export function heldManifestsOf({ metadata }: Readonly<Lease>): number {
  const held = Number(metadata.annotations?.[IdentityAnnotation.HeldStaticPods] ?? 0);
  return held > 0 ? held : 0;
}

/** Whether an agent would reboot its node. */
export type RebootAbility = 'Able' | 'NoRebootCommand' | 'NotRunning';

export function rebootAbilityOf(agent: NodeAgent): RebootAbility {
  if (agent.kind !== 'Live') return 'NotRunning';
  return agent.capabilities.includes(AgentCapability.Reboot) ? 'Able' : 'NoRebootCommand';
}

/** Returns true if the agent stops static pods when their Evacuations ask for it. */
export function canStopStaticPods(agent: NodeAgent): boolean {
  return agent.kind === 'Live' && agent.capabilities.includes(AgentCapability.StaticPods);
}
