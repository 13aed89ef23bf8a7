import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import { exceeds } from '../../domain/drainTargets.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { type Actor, entriesText } from './cast.ts';
import type { KepSnapshot } from './snapshots.ts';

/** What a maintenance's status says of one node: the KEP's fields, and no others. */
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

/** In the KEP's order of the nodes; one that the status does not have yet is left out. */
export function linesOf(actor: Actor, maintenance: Readonly<NodeMaintenance> | undefined): NodeLine[] {
  const statuses = maintenance?.status?.nodeStatuses ?? [];
  return actor.nodes.flatMap((name) => statuses.filter(({ nodeRef }) => nodeRef.name === name).map(lineOf));
}

/** `drainMessage [drainTargets] pending/evacuating` */
function textOf({ drainMessage, drainTargets, pending, evacuating }: NodeLine): string {
  return `${drainMessage} [${drainTargets}] ${pending}/${evacuating}`;
}

/** One node of a snapshot, as the KEP has it and as it is. */
export interface Comparison {
  maintenance: string;
  node: string;
  expected: string;
  seen: string;
}

export function compare(
  { published }: KepSnapshot,
  maintenanceOf: (name: string) => Readonly<NodeMaintenance> | undefined,
): Comparison[] {
  return Object.entries(published).flatMap(([maintenance, statuses]) =>
    statuses.map((expected) => {
      const node = expected.nodeRef.name;
      const seen = maintenanceOf(maintenance)?.status?.nodeStatuses.find(
        ({ nodeRef }) => nodeRef.name === node,
      );
      return {
        maintenance,
        node,
        expected: textOf(lineOf(expected)),
        seen: seen === undefined ? 'nothing' : textOf(lineOf(seen)),
      };
    }),
  );
}

/** Every change of drain targets that was published since it was made, and those that took something back. */
export interface TargetRecord {
  changes: number;
  /** `maintenance-a on one: from Default 10000 to Default 5000` */
  setbacks: string[];
}

export function recordTargets({ maintenances }: Cluster): { record: TargetRecord; stop: () => void } {
  const record: TargetRecord = { changes: 0, setbacks: [] };
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
      record.setbacks.push(`${object.metadata.name} on ${nodeRef.name}: ${fromTo}`);
    }
  });
  return { record, stop };
}
