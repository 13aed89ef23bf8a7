import type { Condition, Node, Pod } from '../../api/core.ts';
import { REQUESTER_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceNodeStatus } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import {
  isCordoned,
  isCordonedByAnother,
  isCordonedByMaintenance,
  type NotUncordoned,
} from '../common/cordon.ts';
import { listed } from '../common/names.ts';
import { holdsNode } from '../common/nodePermission.ts';
import { countsForEveryNode } from '../common/requester.ts';
import { isFromIdle } from '../common/stage.ts';
import { oneLine } from '../common/text.ts';
import { evaluateGate, gatesOf, isEvaluated } from '../readiness/gates.ts';
import { staleContainers } from '../readiness/reboots.ts';
import { hasCordonRecord } from './status.ts';

/** The facts about a node that decide whether it is in service. */
export interface NodeServiceInput {
  /** The Node with all of its conditions. */
  node: Node;
  pods: readonly Pod[];
  readiness: NodeReadiness | undefined;
  /** The node has the readiness taint. */
  isTainted: boolean;
}

export interface GatesSummary {
  /** Number of blocking gates that are ready, and of all blocking gates. */
  readonly ready: number;
  readonly all: number;
  /** The blocking gates that are not ready, and why. */
  readonly notReady: readonly { readonly gate: string; readonly message: string }[];
}

const maxReasonLength = 300;

/** Summarizes the blocking readiness gates of a node from its current pods. Undefined for a node without such gates. */
export function gatesSummary(
  { node, pods, readiness }: NodeServiceInput,
  policies: readonly NodeReadinessPolicy[],
): GatesSummary | undefined {
  // The gates of other policies count once they are written, because the permissions of their authors are asked for before.
  const counting = policies.filter(({ metadata }) =>
    countsForEveryNode(metadata.annotations?.[REQUESTER_ANNOTATION]),
  );
  const gates = gatesOf(node, readiness?.spec.readinessGates ?? [], counting);
  const stale = staleContainers(readiness?.status, node.status?.nodeInfo?.bootID);
  const blocking = gates.map((gate) => evaluateGate(gate, pods, stale)).filter(({ blocks }) => blocks);
  if (blocking.length === 0) return undefined;
  const notReady = blocking.filter(({ ready }) => !ready);
  return {
    ready: blocking.length - notReady.length,
    all: blocking.length,
    notReady: notReady.map(({ name, message = '' }) => ({ gate: name, message })),
  };
}

/** Returns true if a gate of the node is not ready and the node has no readiness taint. Ignores policies that have not been checked yet. */
export function lacksReadinessTaint(
  input: NodeServiceInput,
  policies: readonly NodeReadinessPolicy[],
): boolean {
  const notReady = gatesSummary(input, policies.filter(isEvaluated))?.notReady ?? [];
  return !input.isTainted && notReady.length > 0;
}

/** The other objects of the cluster that decide whether a node is in service. */
export interface ServiceContext {
  maintenances: readonly NodeMaintenance[];
  policies: readonly NodeReadinessPolicy[];
}

/**
 * Returns why a node of a completed maintenance is out of service. Empty for a node that is schedulable, Ready, and has all readiness gates
 * ready, and for a node that the maintenance has never cordoned.
 */
export function outOfServiceReasons(
  input: NodeServiceInput,
  maintenance: NodeMaintenance,
  context: ServiceContext,
): string[] {
  const { node } = input;
  const notUncordoned = notUncordonedReason(node, maintenance);
  if (notUncordoned === 'NeverCordoned') return [];
  return [
    ...(notUncordoned === undefined ? cordonReasons(node, maintenance, context.maintenances) : []),
    ...notReadyReasons(input, context.policies),
  ];
}

/** Returns why Complete does not uncordon the node; undefined if it does. */
export function notUncordonedReason(node: Node, maintenance: NodeMaintenance): NotUncordoned | undefined {
  const record = recordOf(maintenance, node.metadata.name);
  const isForeign = record !== undefined || !isFromIdle(maintenance);
  // Another maintenance may have left its cordon to this one.
  if (!hasCordonRecord(record))
    return isForeign && !isCordonedByMaintenance(node) ? 'NeverCordoned' : undefined;
  if (isCordoned(node) && record?.unschedulableBefore === true) return 'CordonedBefore';
  return isCordonedByAnother(node) ? 'CordonedByAnother' : undefined;
}

/** Returns true if the node accepts pods, for any maintenance. */
export function isInService(input: NodeServiceInput, policies: readonly NodeReadinessPolicy[]): boolean {
  return !isCordoned(input.node) && notReadyReasons(input, policies).length === 0;
}

function notReadyReasons(input: NodeServiceInput, policies: readonly NodeReadinessPolicy[]): string[] {
  return [...conditionReasons(input.node.status?.conditions ?? []), ...gateReasons(input, policies)];
}

function cordonReasons(node: Node, maintenance: NodeMaintenance, all: readonly NodeMaintenance[]): string[] {
  if (!isCordoned(node)) return [];
  const others = all
    .filter(({ metadata }) => metadata.name !== maintenance.metadata.name)
    .filter((other) => holdsNode(other, node))
    .map(({ metadata }) => metadata.name);
  return [others.length === 0 ? 'cordoned' : `cordoned, also for ${listed(others.toSorted())}`];
}

function conditionReasons(conditions: readonly Condition[]): string[] {
  const ready = conditions.find(({ type }) => type === 'Ready');
  if (ready?.status === 'True') return [];
  // The kubelet writes the message.
  return [
    ready === undefined
      ? 'not Ready'
      : `not Ready: ${oneLine(ready.message || ready.reason, maxReasonLength)}`,
  ];
}

function gateReasons(input: NodeServiceInput, policies: readonly NodeReadinessPolicy[]): string[] {
  const notReady = gatesSummary(input, policies)?.notReady ?? [];
  if (notReady.length > 0) return notReady.map(({ gate, message }) => `gate ${gate}: ${message}`);
  const { isTainted, readiness } = input;
  const ready = readiness?.status?.conditions.find(({ type }) => type === 'Ready');
  if (isTainted)
    return [
      ready?.reason === 'Flapping'
        ? ready.message
        : 'gates are ready, and the readiness taint is not removed yet',
    ];
  const isStale = ready !== undefined && ready.status !== 'True' && readiness?.status?.gates !== '0/0';
  return isStale ? ['gates are ready, and the NodeReadiness status is not updated yet'] : [];
}

export function recordOf({ status }: NodeMaintenance, node: string): NodeMaintenanceNodeStatus | undefined {
  return status?.nodeStatuses.find(({ nodeRef }) => nodeRef.name === node);
}
