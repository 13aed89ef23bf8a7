import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../../../api/core.ts';
import type { UninstallFacts } from '../../../domain/uninstall/facts.ts';
import type { PatchOperation, UninstallItem } from '../../../domain/uninstall/item.ts';

/** Carries out items on facts, as an apiserver and Temporal would. */

type Lists = {
  [Key in keyof UninstallFacts]: UninstallFacts[Key] extends readonly KubeObject[] ? Key : never;
};
type ListKey = Lists[keyof Lists];

const lists: readonly ListKey[] = [
  'maintenances',
  'windows',
  'evacuations',
  'readinesses',
  'readinessPolicies',
  'budgets',
  'nodes',
  'pods',
  'jobs',
  'nodeLeases',
  'agentLeases',
  'processLeases',
  'installed',
  'definitions',
  'namespaces',
];

export function carriedOut(facts: UninstallFacts, item: UninstallItem): UninstallFacts {
  const { action, name } = item;
  const { temporal } = facts;
  if (action.kind === 'TerminateRun' || action.kind === 'DeleteSchedule') {
    if (temporal.kind === 'Unreachable') throw new Error('Temporal does not answer');
    const { runs, claims, schedules } = temporal;
    return {
      ...facts,
      temporal: {
        ...temporal,
        runs: runs.filter(({ workflowId }) => workflowId !== name),
        claims: claims.filter(({ workflowId }) => workflowId !== name),
        schedules: schedules.filter((id) => id !== name),
      },
    };
  }
  // A worker without permissions loses its Lease.
  if (item.kind === 'Worker') return { ...facts, leader: undefined };
  const change = (object: KubeObject) => changed(object, item);
  const changedLists = lists.map((key) => [key, (facts[key] as readonly KubeObject[]).flatMap(change)]);
  return { ...facts, ...(Object.fromEntries(changedLists) as Partial<UninstallFacts>) };
}

function changed(object: KubeObject, { action }: UninstallItem): KubeObject[] {
  const { uid, finalizers = [] } = object.metadata;
  switch (action.kind) {
    case 'Delete':
      if (action.uid !== uid) return [object];
      return finalizers.length === 0
        ? []
        : [{ ...object, metadata: { ...object.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } }];
    case 'RemoveConditions':
      if (action.uid !== uid) return [object];
      return [withoutConditions(object, action.manager)];
    case 'Patch': {
      if (action.operations[0]?.value !== uid) return [object];
      const result = JSON.parse(JSON.stringify(object)) as KubeObject;
      for (const operation of action.operations) apply(result, operation);
      const isGone =
        result.metadata.deletionTimestamp !== undefined && (result.metadata.finalizers ?? []).length === 0;
      return isGone ? [] : [result];
    }
    default:
      return [object];
  }
}

function withoutConditions(object: KubeObject, manager: string): KubeObject {
  const { managedFields = [] } = object.metadata as { managedFields?: { manager: string }[] };
  const left = managedFields.filter((one) => one.manager !== manager);
  return { ...object, metadata: { ...object.metadata, managedFields: left } } as KubeObject;
}

/** Applies an operation in place. Throws if a test fails or the path does not exist, as an apiserver rejects it. */
function apply(object: object, { op, path, value }: PatchOperation): void {
  const keys = path
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  const last = keys.pop() ?? '';
  const parent = keys.reduce<unknown>((one, key) => (one as Record<string, unknown>)[key], object);
  if (typeof parent !== 'object' || parent === null) throw new Error(`${path} has no parent`);
  const fields = parent as Record<string, unknown>;
  if (op === 'test' && !isDeepStrictEqual(fields[last], value)) throw new Error(`test of ${path} failed`);
  if (op === 'remove' && !(last in fields)) throw new Error(`${path} does not exist`);
  if (op === 'remove' && Array.isArray(parent)) parent.splice(Number(last), 1);
  else if (op === 'remove') delete fields[last];
  if (op === 'add' || op === 'replace') fields[last] = value;
}
