import type { Lease, Node } from '../../api/core.ts';
import {
  leaseHolderOf,
  MAINTENANCE_FINALIZER,
  NODE_CONDITIONS_MANAGER,
  READINESS_CONDITION_MANAGER,
  READINESS_TAINT,
  REBOOT_REQUIRED_MANAGER,
  RebootAnnotation,
  UNCORDONED_BY_ANNOTATION,
  WindowAnnotation,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { ownAutoscalerAnnotations } from '../common/autoscalers.ts';
import { isCordoned, isCordonedByAnother, isCordonedByMaintenance } from '../common/cordon.ts';
import { conditionsManagedBy, isManagedBy, type Managed } from '../common/managedFields.ts';
import { isJobRunning } from '../common/job.ts';
import { listed } from '../common/names.ts';
import { leaseStateOf } from '../leases/lease.ts';
import type { UninstallFacts } from './facts.ts';
import { itemsAbout, removeAt, removeKey, type UninstallItem } from './item.ts';

/** Restores a node: its cordon as it was before the first maintenance, without taint, conditions and annotation of node maintenance. */
export function nodeItems(node: Node & Managed, facts: UninstallFacts): UninstallItem[] {
  return [
    ...cordonItems(node, facts),
    ...taintItems(node),
    ...conditionItems(node),
    ...annotationItems(node),
  ];
}

const about = (node: Node) => itemsAbout({ phase: 'Nodes', kind: 'Node' }, node);

function cordonItems(
  node: Node & Managed,
  { maintenances, jobs, nodeLeases, namespace, now }: UninstallFacts,
) {
  if (!isCordoned(node)) return [];
  const { name } = node.metadata;
  switch (cordonOf(node, maintenances)) {
    case 'OfAnother':
      return [about(node).keep(`another client has cordoned it; kubectl uncordon ${name}`)];
    case 'FromBefore':
      return [about(node).keep(`it was cordoned before its maintenance; kubectl uncordon ${name}`)];
    case 'OfMaintenance': {
      const lease = nodeLeases.find(({ metadata }) => metadata.name === name);
      const holder = otherHolderOf(lease, namespace, now);
      if (holder !== undefined)
        return [
          about(node).blocked(
            `stays cordoned: ${holder} holds its maintenance Lease, and may be working on it; when that is over, kubectl uncordon ${name}`,
          ),
        ];
      const working = jobs.find(
        (job) => job.metadata.annotations?.[WindowAnnotation.Node] === name && isJobRunning(job),
      );
      if (working !== undefined)
        return [about(node).wait(`Job ${working.metadata.name} of a window works on it`)];
      const path = '/spec/unschedulable';
      return [
        about(node).patch('uncordon', [
          { op: 'test', path, value: true },
          { op: 'remove', path },
        ]),
      ];
    }
  }
}

/** Owner of the cordon of a node. */
type Cordon = 'OfMaintenance' | 'FromBefore' | 'OfAnother';

/**
 * The managed fields of the node show a cordon that a maintenance has set, also after its object was removed by force, and if it has cordoned the
 * node again after another client had uncordoned it. Otherwise the record of an unfinished maintenance decides, unless another client has cordoned the
 * node since.
 */
function cordonOf(node: Node & Managed, maintenances: readonly NodeMaintenance[]): Cordon {
  if (isCordonedByMaintenance(node)) return 'OfMaintenance';
  const recorded = maintenances
    .filter(({ metadata }) => metadata.finalizers?.includes(MAINTENANCE_FINALIZER))
    .flatMap(({ status }) => status?.nodeStatuses ?? [])
    .filter(({ nodeRef }) => nodeRef.name === node.metadata.name)
    .flatMap(({ unschedulableBefore }) => unschedulableBefore ?? []);
  if (recorded.includes(true)) return 'FromBefore';
  if (isCordonedByAnother(node)) return 'OfAnother';
  return recorded.includes(false) ? 'OfMaintenance' : 'OfAnother';
}

/** Returns who else holds the maintenance Lease; undefined if nobody does. */
export function otherHolderOf(lease: Lease | undefined, namespace: string, now: number): string | undefined {
  const state = leaseStateOf(lease, now);
  if (state.kind !== 'Held' && state.kind !== 'HeldByAdministrator') return undefined;
  return state.holder === leaseHolderOf(namespace) ? undefined : state.holder;
}

function taintItems(node: Node): UninstallItem[] {
  const { taints = [] } = node.spec;
  const index = taints.findIndex(
    ({ key, effect }) => key === READINESS_TAINT.key && effect === READINESS_TAINT.effect,
  );
  if (index === -1) return [];
  const reason = `${READINESS_TAINT.key}:${READINESS_TAINT.effect}`;
  return [about(node).patch('remove taint', removeAt('/spec/taints', index, taints[index]), reason)];
}

function conditionItems(node: Node & Managed): UninstallItem[] {
  const existing = new Set(node.status?.conditions?.map(({ type }) => type));
  const { uid = '' } = node.metadata;
  return [NODE_CONDITIONS_MANAGER, READINESS_CONDITION_MANAGER].flatMap((manager) => {
    const types = conditionsManagedBy(node, manager).filter((type) => existing.has(type));
    if (types.length === 0) return [];
    return [about(node).item('remove conditions', { kind: 'RemoveConditions', uid, manager }, listed(types))];
  });
}

function annotationItems(node: Node & Managed): UninstallItem[] {
  const { annotations = {} } = node.metadata;
  const keys = [
    ...(annotations[UNCORDONED_BY_ANNOTATION] === undefined ? [] : [UNCORDONED_BY_ANNOTATION]),
    ...ownAutoscalerAnnotations(node),
    ...rebootAnnotations(node),
  ];
  return keys.map((key) =>
    about(node).patch('remove annotation', removeKey('/metadata/annotations', key, annotations[key]), key),
  );
}

/** Requests are removed, so that no agent acts on them later, and what an agent has written. What a user has written stays. */
function rebootAnnotations(node: Node & Managed): string[] {
  const { Required, Requested, Started } = RebootAnnotation;
  const path = ['f:metadata', 'f:annotations', `f:${Required}`];
  const keys = [Requested, Started, ...(isManagedBy(node, REBOOT_REQUIRED_MANAGER, path) ? [Required] : [])];
  return keys.filter((key) => node.metadata.annotations?.[key] !== undefined);
}
