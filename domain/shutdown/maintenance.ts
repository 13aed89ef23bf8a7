import { SHUTDOWN_BOOT_ID_ANNOTATION, SHUTDOWN_MAINTENANCE_PREFIX } from '../../api/names.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isDrained } from '../common/stage.ts';

/** The shutdown of a node, as its agent requests it. */
export interface Shutdown {
  readonly node: string;
  /** The boot that ends. */
  readonly bootId: string;
  readonly drainPlan: readonly DrainPlanEntry[];
}

export function shutdownMaintenanceName(node: string): string {
  return `${SHUTDOWN_MAINTENANCE_PREFIX}${node}`;
}

/** Two texts, so that a change of the spec can always make the agent its requester. */
const reasons = (bootId: string) =>
  [
    `The node is shutting down: boot ${bootId} ends.`,
    `The node is shutting down, and boot ${bootId} ends.`,
  ] as const;

/** "When a shutdown is detected, the kubelet would create a NodeMaintenance object for that node." */
export function shutdownMaintenance({ node, bootId, drainPlan }: Shutdown): NodeMaintenance {
  return {
    metadata: {
      name: shutdownMaintenanceName(node),
      annotations: { [SHUTDOWN_BOOT_ID_ANNOTATION]: bootId },
    },
    spec: {
      nodeSelector: {
        nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
      },
      stage: 'Drain',
      ...(drainPlan.length > 0 && { drainPlan: [...drainPlan] }),
      reason: reasons(bootId)[0],
    },
  };
}

/** Returns the fields with which another maintenance of the node becomes that of this shutdown. Its drain plan is immutable. */
export function adoption(
  { metadata, spec }: NodeMaintenance,
  bootId: string,
): { readonly annotations: Readonly<Record<string, string>>; readonly reason: string } {
  const [first, second] = reasons(bootId);
  return {
    annotations: { ...metadata.annotations, [SHUTDOWN_BOOT_ID_ANNOTATION]: bootId },
    reason: spec.reason === first ? second : first,
  };
}

/** The next step of a shutdown for its maintenance. */
export type ShutdownStep =
  | { readonly kind: 'Create' }
  /** It is that of an earlier shutdown, and "stage cannot go back". */
  | { readonly kind: 'Delete'; readonly uid: string }
  /** It is being deleted. */
  | { readonly kind: 'AwaitDeletion' }
  /** It is that of an earlier boot, or of a user who may not maintain the node: it becomes that of this shutdown. */
  | { readonly kind: 'Adopt' }
  | { readonly kind: 'Draining' }
  | { readonly kind: 'Drained' }
  /** A user has completed it during this shutdown, and does not want the node to wait. */
  | { readonly kind: 'EndedByUser' }
  /** An object of this name selects other nodes, or is of a user and does not drain the node. */
  | { readonly kind: 'Foreign' };

/** `drainingUid`: the maintenance that this shutdown has seen in Drain already. */
export function nextShutdownStep(
  existing: NodeMaintenance | undefined,
  { node, bootId, drainingUid }: Pick<Shutdown, 'node' | 'bootId'> & { drainingUid?: string | undefined },
): ShutdownStep {
  if (existing === undefined) return { kind: 'Create' };
  const { uid = '', deletionTimestamp } = existing.metadata;
  if (deletionTimestamp !== undefined) return { kind: 'AwaitDeletion' };
  const { stage } = existing.spec;
  if (stage === 'Complete' && uid === drainingUid) return { kind: 'EndedByUser' };
  if (!selectsOnly(existing, node)) return { kind: 'Foreign' };
  // Its agent may not write it.
  if (bootIdOf(existing) === undefined) return { kind: stage === 'Drain' ? followed(existing) : 'Foreign' };
  if (stage === 'Complete') return { kind: 'Delete', uid };
  if (stage !== 'Drain' || bootIdOf(existing) !== bootId) return { kind: 'Adopt' };
  return { kind: drainStepOf(existing) };
}

/** Returns the step for the maintenance of a user that drains the node. */
function followed(maintenance: NodeMaintenance): 'Draining' | 'Drained' | 'Foreign' {
  const step = drainStepOf(maintenance);
  return step === 'Adopt' ? 'Foreign' : step;
}

function drainStepOf(maintenance: NodeMaintenance): 'Adopt' | 'Draining' | 'Drained' {
  const { metadata, status } = maintenance;
  if (status === undefined || status.observedGeneration < (metadata.generation ?? 0)) return 'Draining';
  if (status.nodeStatuses.some(({ authorized }) => authorized === false)) return 'Adopt';
  return isDrained(maintenance) ? 'Drained' : 'Draining';
}

/** Returns the boot that ends with the shutdown for which the maintenance was created. */
export function bootIdOf({ metadata }: Pick<NodeMaintenance, 'metadata'>): string | undefined {
  return metadata.annotations?.[SHUTDOWN_BOOT_ID_ANNOTATION];
}

/** Returns true if the selector is the one that the agent of the node writes. */
export function selectsOnly({ spec }: Pick<NodeMaintenance, 'spec'>, node: string): boolean {
  const [term, ...otherTerms] = spec.nodeSelector.nodeSelectorTerms;
  if (term === undefined || otherTerms.length > 0 || (term.matchExpressions ?? []).length > 0) return false;
  const [field, ...otherFields] = term.matchFields ?? [];
  if (field === undefined || otherFields.length > 0) return false;
  const { key, operator, values = [] } = field;
  return key === 'metadata.name' && operator === 'In' && values.length === 1 && values[0] === node;
}
