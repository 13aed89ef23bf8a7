import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { exceeds } from '../../domain/drain/targets.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { type KepMaintenance, entriesText } from './fixtures.ts';
import type { KepSnapshot } from './snapshots.ts';

/** The fields of the KEP in the status of one node. */
export interface NodeLine {
  node: string;
  drainMessage: string;
  drainTargets: string;
  pending: number;
  evacuating: number;
}

function lineOf(status: NodeMaintenanceNodeStatus): NodeLine {
  return {
    node: status.nodeRef.name,
    drainMessage: status.drainMessage,
    drainTargets: entriesText(status.drainTargets),
    pending: status.podsPendingEvacuation,
    evacuating: status.podsEvacuating,
  };
}

/** Returns the node statuses in the order of the KEP, without nodes that have no status yet. */
export function linesOf(
  kepMaintenance: KepMaintenance,
  maintenance: Readonly<NodeMaintenance> | undefined,
): NodeLine[] {
  const statuses = maintenance?.status?.nodeStatuses ?? [];
  return kepMaintenance.nodes.flatMap((name) =>
    statuses.filter(({ nodeRef }) => nodeRef.name === name).map(lineOf),
  );
}

/** Returns `drainMessage [drainTargets] pending/evacuating`. */
function textOf({ drainMessage, drainTargets, pending, evacuating }: NodeLine): string {
  return `${drainMessage} [${drainTargets}] ${pending}/${evacuating}`;
}

/** The expected status of a node in a snapshot of the KEP, and its actual status. */
export interface Comparison {
  maintenance: string;
  node: string;
  expected: string;
  actual: string;
}

export function compare(
  { published }: KepSnapshot,
  maintenanceOf: (name: string) => Readonly<NodeMaintenance> | undefined,
): Comparison[] {
  return Object.entries(published).flatMap(([maintenance, statuses]) =>
    statuses.map((expected) => {
      const node = expected.nodeRef.name;
      const actual = maintenanceOf(maintenance)?.status?.nodeStatuses.find(
        ({ nodeRef }) => nodeRef.name === node,
      );
      return {
        maintenance,
        node,
        expected: textOf(lineOf(expected)),
        actual: actual === undefined ? 'nothing' : textOf(lineOf(actual)),
      };
    }),
  );
}

/** Counts the changes of drain targets in the status, and lists those that reduced them. */
export interface TargetRecord {
  changes: number;
  /** Reductions, such as `maintenance-a on one: from Default 10000 to Default 5000`. */
  reductions: string[];
}

export function recordTargets({ maintenances }: Cluster): { record: TargetRecord; stop: () => void } {
  const record: TargetRecord = { changes: 0, reductions: [] };
  const stop = maintenances.subscribe((change) => {
    if (change.type !== 'Updated') return;
    const { previous, object } = change;
    for (const { nodeRef, drainTargets: after } of object.status?.nodeStatuses ?? []) {
      const before =
        previous.status?.nodeStatuses.find((status) => status.nodeRef.name === nodeRef.name)?.drainTargets ??
        [];
      if (entriesText(before) === entriesText(after)) continue;
      record.changes += 1;
      if (!exceeds(before, after)) continue;
      const fromTo = `from ${entriesText(before)} to ${entriesText(after)}`;
      record.reductions.push(`${object.metadata.name} on ${nodeRef.name}: ${fromTo}`);
    }
  });
  return { record, stop };
}
