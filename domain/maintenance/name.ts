import type { NodeMaintenance, NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { stageOf } from '../common/stage.ts';
import { compareNames } from '../common/names.ts';

/** Leaves room for a numeric suffix, and for the prefix of the workflow id. */
const maxNameLength = 200;

/** Returns the default name of a maintenance of these nodes: `node-1`, `node-1-and-2-more`, `pool-gpu`. */
export function nameFor(nodes: readonly string[], selector: string | undefined): string {
  if (selector !== undefined) return slugOf(selector) || 'nodes';
  const [first = 'nodes', ...more] = nodes.toSorted(compareNames);
  const name = first.slice(0, maxNameLength).replace(/[-.]+$/, '');
  return more.length === 0 ? name : `${name}-and-${more.length}-more`;
}

function slugOf(text: string): string {
  const slug = text
    .toLowerCase()
    .replaceAll('!', ' not ')
    .replaceAll(/[^a-z0-9]+/g, '-');
  return slug.slice(0, maxNameLength).replaceAll(/^-+|-+$/g, '');
}

export type FreeName =
  | { kind: 'Free'; name: string }
  /** A maintenance of the same nodes is in progress under this name. */
  | { kind: 'Taken'; name: string; stage: NodeMaintenanceStage };

/** Returns the name, with the lowest numeric suffix that makes it unique. */
export function freeName(wanted: NodeMaintenance, existing: readonly NodeMaintenance[]): FreeName {
  const { name } = wanted.metadata;
  const byName = new Map(existing.map((one) => [one.metadata.name, one] as const));
  const same = (one: NodeMaintenance) =>
    JSON.stringify(one.spec.nodeSelector) === JSON.stringify(wanted.spec.nodeSelector);
  for (let number = 1; ; number++) {
    const candidate = number === 1 ? name : `${name}-${number}`;
    const taken = byName.get(candidate);
    if (taken === undefined) return { kind: 'Free', name: candidate };
    const stage = stageOf(taken);
    if (stage !== 'Complete' && same(taken)) return { kind: 'Taken', name: candidate, stage };
  }
}
