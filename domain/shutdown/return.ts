import type { Condition, KubeObject } from '../../api/core.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { awaitsNetworkPlugin } from '../common/networkPlugin.ts';
import { bootIdOf, selectsOnly, shutdownMaintenanceName } from './maintenance.ts';

/** The part of a Node that shows whether it is back after a boot. */
export interface BootedNode extends KubeObject {
  readonly status?: {
    readonly nodeInfo?: { readonly bootID?: string };
    readonly conditions?: readonly (Pick<Condition, 'type' | 'status'> & {
      message?: string;
      lastHeartbeatTime?: string;
    })[];
  };
}

/** The boot in which the agent runs. */
export interface Boot {
  readonly node: string;
  readonly bootId: string;
  /** Start of the boot by the clock of the node, in milliseconds since the epoch. */
  readonly bootedAtMs: number;
  /** Whether logind prepares for a shutdown; undefined while it cannot be asked. */
  readonly preparing: boolean | undefined;
}

/** Whether the maintenance of a shutdown is over. */
export type ReturnStep =
  /** There is none, or it is not of this agent. */
  | { readonly kind: 'Nothing' }
  | { readonly kind: 'Complete'; readonly because: 'Booted' | 'Cancelled' }
  /** The shutdown is in progress, or logind does not answer. */
  | { readonly kind: 'AwaitLogind' }
  /** "The node is healthy and can run pods again" is not known yet. */
  | { readonly kind: 'AwaitNode'; readonly missing: string };

/** Decides whether to complete the maintenance of a shutdown: when the node is Ready in another boot, or the shutdown was cancelled. */
export function decideReturn(
  maintenance: NodeMaintenance | undefined,
  observed: BootedNode | undefined,
  { node, bootId, bootedAtMs, preparing }: Boot,
): ReturnStep {
  if (maintenance === undefined || !isOfShutdown(maintenance, node)) return { kind: 'Nothing' };
  if (preparing === true || (preparing === undefined && bootIdOf(maintenance) === bootId))
    return { kind: 'AwaitLogind' };
  if (bootIdOf(maintenance) === bootId) return { kind: 'Complete', because: 'Cancelled' };
  const missing = missingFrom(observed, { bootId, bootedAtMs });
  return missing === undefined ? { kind: 'Complete', because: 'Booted' } : { kind: 'AwaitNode', missing };
}

function isOfShutdown(maintenance: NodeMaintenance, node: string): boolean {
  const { metadata, spec } = maintenance;
  return (
    metadata.name === shutdownMaintenanceName(node) &&
    metadata.deletionTimestamp === undefined &&
    spec.stage !== 'Complete' &&
    bootIdOf(maintenance) !== undefined &&
    selectsOnly(maintenance, node)
  );
}

function missingFrom(
  observed: BootedNode | undefined,
  { bootId, bootedAtMs }: Pick<Boot, 'bootId' | 'bootedAtMs'>,
): string | undefined {
  if (observed === undefined) return 'the Node was not seen yet';
  if (observed.status?.nodeInfo?.bootID !== bootId) return 'the kubelet has not reported this boot';
  const { conditions } = observed.status;
  const ready = conditions?.find(({ type }) => type === 'Ready');
  if (ready?.status !== 'True' && !awaitsNetworkPlugin(conditions)) return 'the Node is not Ready';
  const heartbeat = Date.parse(ready?.lastHeartbeatTime ?? '');
  return heartbeat >= bootedAtMs ? undefined : 'the kubelet has sent no status since this boot';
}
