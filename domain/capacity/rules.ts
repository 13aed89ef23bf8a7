import type {
  Node,
  PersistentVolume,
  Pod,
  PodAffinityTerm,
  Taint,
  TopologySpreadConstraint,
} from '../../api/core.ts';
import { labelOf, selectsLabels } from '../common/labelSelector.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { toleratesTaint } from '../common/toleration.ts';
import { type ClusterState, domainOf, type NodeState, schedulingOf, termSelects } from './clusterState.ts';
import { allocatableOf, PODS, requestsOf } from './requests.ts';

/** Returns why a node does not fit; none if the rule allows it. */
export type NodeCheck = (node: NodeState) => readonly string[];

/** A rule of the scheduler, prepared for one pod; undefined if it allows every node. */
export type SchedulingRule = (pod: Pod, cluster: ClusterState) => NodeCheck | undefined;

/**
 * The filters of the default scheduler in its order, and with its reasons: the first that rejects a node is the reason. NodeName does not
 * apply to a pod that has no node yet. Not modelled: preemption, dynamic resource allocation, extenders and other profiles,
 * limits of volumes per node, claims that are not bound yet, preferences, resource quotas and autoscalers.
 */
export const schedulingRules: readonly SchedulingRule[] = [
  nodeIsSchedulable, // NodeUnschedulable: a cordoned node receives nothing
  toleratesTaints, // TaintToleration
  matchesNodeAffinity, // NodeAffinity, with the node selector of the pod
  hasFreePorts, // NodePorts
  fitsResources, // NodeResourcesFit
  reachesVolumes, // VolumeBinding and VolumeZone, for volumes that are bound
  keepsTopologySpread, // PodTopologySpread, constraints that must be met
  satisfiesPodAffinity, // InterPodAffinity, required terms of this pod and of those on the nodes
];

const passed: readonly string[] = [];

const unschedulableTaint = { key: 'node.kubernetes.io/unschedulable', effect: 'NoSchedule' } as const;

function nodeIsSchedulable(pod: Pod): NodeCheck | undefined {
  if (toleratesTaint(schedulingOf(pod).tolerations, unschedulableTaint)) return undefined;
  return ({ node }) => (node.spec.unschedulable === true ? ['node(s) were unschedulable'] : passed);
}

function toleratesTaints(pod: Pod): NodeCheck {
  return ({ node }) => {
    const taint = untolerated(pod, node);
    if (taint === undefined) return passed;
    return [`node(s) had untolerated taint {${taint.key}: ${taint.value ?? ''}}`];
  };
}

function untolerated(pod: Pod, { spec }: Node): Taint | undefined {
  const { tolerations } = schedulingOf(pod);
  return spec.taints?.find(
    (taint) => taint.effect !== 'PreferNoSchedule' && !toleratesTaint(tolerations, taint),
  );
}

function matchesNodeAffinity(pod: Pod): NodeCheck | undefined {
  const { nodeSelector, nodeAffinity } = schedulingOf(pod);
  if (nodeSelector === undefined && nodeAffinity === undefined) return undefined;
  return ({ node }) => (isAffine(pod, node) ? passed : ["node(s) didn't match Pod's node affinity/selector"]);
}

function isAffine(pod: Pod, node: Node): boolean {
  const { nodeSelector = {}, nodeAffinity } = schedulingOf(pod);
  const labels = node.metadata.labels ?? {};
  return (
    Object.entries(nodeSelector).every(([key, value]) => labelOf(labels, key) === value) &&
    (nodeAffinity === undefined || selectsNode(nodeAffinity, node))
  );
}

const everyAddress = '0.0.0.0';

function hasFreePorts(pod: Pod): NodeCheck | undefined {
  const { hostPorts: wanted = [] } = schedulingOf(pod);
  if (wanted.length === 0) return undefined;
  return ({ hostPorts }) => {
    const isTaken = wanted.some(({ port, protocol, ip }) =>
      hostPorts.some(
        (used) =>
          used.port === port &&
          used.protocol === protocol &&
          (used.ip === ip || used.ip === everyAddress || ip === everyAddress),
      ),
    );
    return isTaken ? ["node(s) didn't have free ports for the requested pod ports"] : passed;
  };
}

function fitsResources(pod: Pod): NodeCheck {
  const requests = requestsOf(schedulingOf(pod));
  return ({ node, used, podCount }) => {
    const allocatable = allocatableOf(node);
    const reasons = podCount + 1 > (allocatable.get(PODS) ?? 0) ? ['Too many pods'] : [];
    for (const [resource, amount] of requests)
      if (amount > (allocatable.get(resource) ?? 0) - (used.get(resource) ?? 0))
        reasons.push(`Insufficient ${resource}`);
    return reasons;
  };
}

function reachesVolumes({ metadata, spec }: Pod, { volumes }: ClusterState): NodeCheck | undefined {
  const bound = (spec.claims ?? []).flatMap((claim) => volumes.get(`${metadata.namespace}/${claim}`) ?? []);
  if (bound.length === 0) return undefined;
  return ({ node }) => {
    const unreachable = bound.find((volume) => !isReachable(volume, node));
    return unreachable === undefined
      ? passed
      : [`node(s) cannot use PersistentVolume ${unreachable.metadata.name}`];
  };
}

const zoneLabels = [
  'topology.kubernetes.io/zone',
  'topology.kubernetes.io/region',
  'failure-domain.beta.kubernetes.io/zone',
  'failure-domain.beta.kubernetes.io/region',
];

function isReachable({ metadata, spec }: PersistentVolume, node: Node): boolean {
  const required = spec.nodeAffinity?.required;
  if (required !== undefined && !selectsNode(required, node)) return false;
  const labels = node.metadata.labels ?? {};
  // "Nodes that don't have any zone or region labels" are not compared with the labels of a volume.
  if (zoneLabels.every((key) => labelOf(labels, key) === undefined)) return true;
  return zoneLabels.every((key) => {
    const zones = labelOf(metadata.labels ?? {}, key);
    const zone = labelOf(labels, key);
    return zones === undefined || (zone !== undefined && zones.split('__').includes(zone));
  });
}

function keepsTopologySpread(pod: Pod, cluster: ClusterState): NodeCheck | undefined {
  const { topologySpread = [] } = schedulingOf(pod);
  if (topologySpread.length === 0) return undefined;
  const prepared = topologySpread.map((_, index) => preparedSpread(pod, index, cluster));
  return ({ node }) => {
    for (const { topologyKey, maxSkew, self, counts, minimum } of prepared) {
      const domain = domainOf(node, topologyKey);
      if (domain === undefined)
        return ["node(s) didn't match pod topology spread constraints (missing required label)"];
      if ((counts.get(domain) ?? 0) + self - minimum > maxSkew)
        return ["node(s) didn't match pod topology spread constraints"];
    }
    return passed;
  };
}

/** Domains are those of the nodes that the constraints include, with all of their topology keys; without a pod, their count is 0. */
function preparedSpread(pod: Pod, index: number, cluster: ClusterState) {
  const scheduling = schedulingOf(pod);
  const { topologySpread = [] } = scheduling;
  const constraint = topologySpread[index] as TopologySpreadConstraint;
  const { topologyKey, maxSkew, minDomains = 1 } = constraint;
  const includes = (node: Node) =>
    topologySpread.every((one) => domainOf(node, one.topologyKey) !== undefined) &&
    isIncluded(pod, constraint, node);
  const selects = spreadSelector(pod, constraint);
  const key = `spread ${index} ${pod.metadata.namespace} ${JSON.stringify(matchedLabels(pod, constraint))}`;
  const counts = cluster.counts(
    { of: scheduling, key },
    topologyKey,
    (other, node) => selects(other) && other.metadata.deletionTimestamp === undefined && includes(node),
  );
  const domains = new Set(
    cluster.nodes.flatMap(({ node }) => (includes(node) ? (domainOf(node, topologyKey) ?? []) : [])),
  );
  const least = [...domains].reduce((min, domain) => Math.min(min, counts.get(domain) ?? 0), Infinity);
  const minimum = domains.size < minDomains || domains.size === 0 ? 0 : least;
  return { topologyKey, maxSkew, self: selects(pod) ? 1 : 0, counts, minimum };
}

function isIncluded(
  pod: Pod,
  { nodeAffinityPolicy = 'Honor', nodeTaintsPolicy = 'Ignore' }: TopologySpreadConstraint,
  node: Node,
): boolean {
  return (
    (nodeAffinityPolicy === 'Ignore' || isAffine(pod, node)) &&
    (nodeTaintsPolicy === 'Ignore' || untolerated(pod, node) === undefined)
  );
}

/** Returns the labels that the constraint takes from the pod, such as the hash of its revision. */
function matchedLabels(
  { metadata }: Pod,
  { matchLabelKeys = [] }: TopologySpreadConstraint,
): Record<string, string> {
  const labels = metadata.labels ?? {};
  return Object.fromEntries(
    matchLabelKeys.flatMap((key) => {
      const value = labelOf(labels, key);
      return value === undefined ? [] : [[key, value]];
    }),
  );
}

function spreadSelector(pod: Pod, constraint: TopologySpreadConstraint): (other: Pod) => boolean {
  const { labelSelector } = constraint;
  const matched = matchedLabels(pod, constraint);
  return ({ metadata }) =>
    labelSelector !== undefined &&
    metadata.namespace === pod.metadata.namespace &&
    selectsLabels(labelSelector, metadata.labels ?? {}) &&
    selectsLabels({ matchLabels: matched }, metadata.labels ?? {});
}

function satisfiesPodAffinity(pod: Pod, cluster: ClusterState): NodeCheck | undefined {
  const affinity = podAffinity(pod, cluster);
  const antiAffinity = podAntiAffinity(pod, cluster);
  const repelling = [...cluster.repulsions].filter(({ matches }) => matches(pod));
  if (affinity === undefined && antiAffinity.length === 0 && repelling.length === 0) return undefined;
  return ({ node }) => {
    if (affinity?.(node) === false) return ["node(s) didn't match pod affinity rules"];
    if (antiAffinity.some((one) => isOccupied(one, node)))
      return ["node(s) didn't match pod anti-affinity rules"];
    return repelling.some((one) => isOccupied(one, node))
      ? ["node(s) didn't satisfy existing pods anti-affinity rules"]
      : passed;
  };
}

interface Occupation {
  topologyKey: string;
  counts: ReadonlyMap<string, number>;
}

function isOccupied({ topologyKey, counts }: Occupation, node: Node): boolean {
  const domain = domainOf(node, topologyKey);
  return domain !== undefined && (counts.get(domain) ?? 0) > 0;
}

function podAntiAffinity(pod: Pod, cluster: ClusterState): Occupation[] {
  const scheduling = schedulingOf(pod);
  const { podAntiAffinity: terms = [] } = scheduling;
  const { namespace = '' } = pod.metadata;
  return terms.map((term, index) => ({
    topologyKey: term.topologyKey,
    counts: cluster.counts({ of: scheduling, key: `anti ${index} ${namespace}` }, term.topologyKey, (other) =>
      termSelects(term, namespace, other, 'Likely'),
    ),
  }));
}

/** Every term needs a pod in the domain of the node, and a pod counts only if it matches all terms. The first pod of a group that selects itself needs none. */
function podAffinity(pod: Pod, cluster: ClusterState): ((node: Node) => boolean) | undefined {
  const scheduling = schedulingOf(pod);
  const { podAffinity: terms = [] } = scheduling;
  if (terms.length === 0) return undefined;
  const { namespace = '' } = pod.metadata;
  const matchesAll = (other: Pod) =>
    terms.every((term: PodAffinityTerm) => termSelects(term, namespace, other, 'Unlikely'));
  const groups = terms.map(({ topologyKey }) => ({
    topologyKey,
    counts: cluster.counts(
      { of: scheduling, key: `affinity ${namespace} ${topologyKey}` },
      topologyKey,
      matchesAll,
    ),
  }));
  const isFirst = groups.every(({ counts }) => counts.size === 0) && matchesAll(pod);
  return (node) =>
    groups.every((group) =>
      isFirst ? domainOf(node, group.topologyKey) !== undefined : isOccupied(group, node),
    );
}
