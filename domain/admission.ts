import type { Node } from '../api/core.ts';
import type { NodeBudget } from '../api/nodeBudget.ts';
import type { NodeMaintenance, NodeMaintenanceSpec } from '../api/nodeMaintenance.ts';
import { compareNames, listed } from './names.ts';
import { completeDrainPlan } from './drainPlan.ts';
import { wishAt } from './drainTargets.ts';
import { limitOf, outOfService } from './nodeBudget.ts';
import { type SelectableNode, selectsNode } from './nodeSelector.ts';
import { holdsNodes, stageOf } from './stage.ts';

/** What somebody wants to become of one maintenance; `before` is what is stored, if anything is. */
export interface Proposal {
  name: string;
  spec: NodeMaintenanceSpec;
  before?: NodeMaintenanceSpec | undefined;
}

/** The rest of the cluster, as far as it matters for a proposal. */
export interface Surroundings {
  nodes: readonly (SelectableNode & Partial<Pick<Node, 'spec'>>)[];
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec'>[];
  /** Of the cluster; absent when it is not known. */
  budget?: Pick<NodeBudget, 'spec' | 'status'> | undefined;
}

/** What the rules judge. */
interface Seen extends Proposal, Surroundings {
  selected: readonly SelectableNode[];
}

/** A sentence for people that begins with the field, or undefined when there is nothing to say. */
type Rule = (seen: Seen) => string | undefined;

const warningRules: readonly Rule[] = [
  selectsTooMuch, // "could select all the nodes (or just all master nodes)" (KEP-4212 > Risks and Mitigations)
  selectsNoNode, // nothing would happen, and that is seldom meant
  namesUnknownNodes, // a name that was mistyped
  exceedsBudget, // windows keep to it; people are only told
  overlapsOthers, // the drain waits for others, and they for it
  movesWhileInProgress, // nodes are cordoned and drained at once
];

/** "The warning is non-blocking and such NodeMaintenance is still valid and can proceed" (KEP-4212 > NodeMaintenance Admission). */
export function admissionWarnings(proposal: Proposal, surroundings: Surroundings): string[] {
  const { spec, before } = proposal;
  if (spec.stage === 'Complete') return [];
  if (spec.stage === before?.stage && !changesSelector(proposal)) return [];
  const seen = seenOf(proposal, surroundings);
  return warningRules.flatMap((rule) => rule(seen) ?? []);
}

/** Why the status of a maintenance could not be stored; undefined when it can. */
export function storageProblem(proposal: Proposal, surroundings: Surroundings): string | undefined {
  const { spec, before } = proposal;
  if (spec.stage === 'Complete' || (before !== undefined && !changesSelector(proposal))) return undefined;
  const nodes = seenOf(proposal, surroundings).selected.length;
  const plan = completeDrainPlan(spec.drainPlan);
  const targets = wishAt(plan, plan.length - 1);
  const bytes = nodes * (JSON.stringify(targets).length + bytesBesideTargets);
  if (bytes <= largestStatus) return undefined;
  return `spec.drainPlan: the status of ${nodes} nodes with ${targets.length} drain targets each (one for every podType and podSelector) needs about ${mebibytes(bytes)} MiB, and ${mebibytes(largestStatus)} MiB can be stored: use fewer podSelectors, or select fewer nodes in each NodeMaintenance`;
}

/** etcd takes 1.5 MiB an object: the rest is for the selector and what clients write into metadata. */
const largestStatus = 1024 * 1024;
/** Name, message, counts and field names of one node in `.status.nodeStatuses`, all of them long. */
const bytesBesideTargets = 300;

function mebibytes(bytes: number): string {
  return (bytes / (1024 * 1024)).toFixed(1).replace('.0', '');
}

/**
 * Names of the nodes that "must pass an authorization check for the DELETE operation": those that match one of the specs,
 * and those that one names and that may come later.
 */
export function nodesToAuthorize(
  specs: readonly NodeMaintenanceSpec[],
  nodes: readonly SelectableNode[],
): string[] {
  const matching = nodes.filter((node) => specs.some((spec) => selectsNode(spec.nodeSelector, node)));
  const names = matching.map((node) => node.metadata.name);
  const expected = specs.flatMap((spec) => unknownNames(spec, nodes));
  return [...new Set([...names, ...expected])].toSorted(compareNames);
}

/** Whoever asks may not delete these nodes; `unchecked` others were not asked about any more. */
export interface Denial {
  user: string;
  nodes: readonly string[];
  unchecked: number;
}

/** "All nodes matching the .spec.nodeSelector must pass an authorization check" (KEP-4212 > NodeMaintenance Admission). */
export function denialMessage({ user, nodes, unchecked }: Denial): string {
  const others = unchecked === 0 ? '' : ` (${unchecked} others were not checked)`;
  return `spec.nodeSelector: user "${user}" may not delete ${nodes.length === 1 ? 'node' : 'nodes'} ${quoted(nodes)}${others}: whoever maintains a node needs the right to delete it; select other nodes, or ask for verb delete on these`;
}

function seenOf(proposal: Proposal, surroundings: Surroundings): Seen {
  const selected = surroundings.nodes.filter((node) => selectsNode(proposal.spec.nodeSelector, node));
  return { ...proposal, ...surroundings, selected };
}

function selectsTooMuch({ nodes, selected }: Seen): string | undefined {
  const whole = wholeOf(nodes, selected);
  if (whole === undefined) return undefined;
  return `spec.nodeSelector matches ${whole}: the cluster may get into a degraded and unrecoverable state`;
}

const controlPlaneLabel = 'node-role.kubernetes.io/control-plane';

/** What of the cluster is selected as a whole, in words: `all 3 control plane nodes`. */
export function wholeOf(
  nodes: readonly SelectableNode[],
  selected: readonly SelectableNode[],
): string | undefined {
  if (nodes.length > 0 && selected.length === nodes.length) return `all ${nodes.length} nodes`;
  const isControlPlane = ({ metadata }: SelectableNode) => metadata.labels?.[controlPlaneLabel] !== undefined;
  const all = nodes.filter(isControlPlane).length;
  if (all === 0 || selected.filter(isControlPlane).length < all) return undefined;
  return `all ${all} control plane nodes`;
}

function selectsNoNode({ selected }: Seen): string | undefined {
  return selected.length > 0 ? undefined : 'spec.nodeSelector matches no node now';
}

function namesUnknownNodes({ spec, nodes }: Seen): string | undefined {
  const unknown = unknownNames(spec, nodes);
  if (unknown.length === 0) return undefined;
  return `spec.nodeSelector names ${unknown.length === 1 ? 'a node that does' : 'nodes that do'} not exist: ${quoted(unknown)}`;
}

function unknownNames({ nodeSelector }: NodeMaintenanceSpec, nodes: readonly SelectableNode[]): string[] {
  const known = new Set(nodes.map((node) => node.metadata.name));
  const named = nodeSelector.nodeSelectorTerms
    .flatMap(({ matchFields = [] }) => matchFields)
    .filter(({ key, operator }) => key === 'metadata.name' && operator === 'In')
    .flatMap(({ values = [] }) => values);
  return [...new Set(named)].filter((name) => !known.has(name)).toSorted(compareNames);
}

function exceedsBudget({ name, spec, nodes, maintenances, selected, budget }: Seen): string | undefined {
  if (budget === undefined || !holdsNodes(spec.stage)) return undefined;
  const out = outOfService({
    nodes: nodes.map(({ metadata, spec: nodeSpec = {} }) => ({ metadata, spec: nodeSpec })),
    maintenances: maintenances.filter(({ metadata }) => metadata.name !== name),
    claims: budget.status?.claims ?? [],
  });
  const more = selected.filter(({ metadata }) => !out.has(metadata.name)).length;
  const allowed = limitOf(budget.spec.maxUnavailable, nodes.length);
  if (more === 0 || out.size + more <= allowed) return undefined;
  return `spec.nodeSelector takes ${more} more nodes out of service, ${out.size} are already, and the NodeBudget of the cluster allows ${allowed}: windows wait until there are fewer`;
}

function overlapsOthers({ name, maintenances, selected }: Seen): string | undefined {
  const others = maintenances
    .filter(({ metadata }) => metadata.name !== name)
    .filter((one) => holdsNodes(stageOf(one)))
    .filter(({ spec }) => selected.some((node) => selectsNode(spec.nodeSelector, node)))
    .map(({ metadata }) => metadata.name)
    .toSorted(compareNames);
  if (others.length === 0) return undefined;
  return `spec.nodeSelector matches nodes that other maintenances hold: ${quoted(others)}; pods leave as the slowest plan says, and a node is given back when the last one is complete`;
}

function movesWhileInProgress(seen: Seen): string | undefined {
  if (seen.before === undefined || !holdsNodes(seen.before.stage) || !changesSelector(seen)) return undefined;
  return `spec.nodeSelector changes in stage ${seen.before.stage}: nodes that match now are cordoned at once, nodes that match no longer stay cordoned until Complete`;
}

function changesSelector({ spec, before }: Proposal): boolean {
  return JSON.stringify(before?.nodeSelector) !== JSON.stringify(spec.nodeSelector);
}

function quoted(names: readonly string[]): string {
  return listed(names.map((name) => `"${name}"`));
}
