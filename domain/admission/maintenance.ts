import type { Node } from '../../api/core.ts';
import { SHUTDOWN_MAINTENANCE_PREFIX, TEMPORAL_USER } from '../../api/names.ts';
import type { NodeDisruptionBudget, NodeReservation } from '../../api/nodeDisruptionBudget.ts';
import type {
  NodeMaintenance,
  NodeMaintenanceSpec,
  NodeMaintenanceStatus,
} from '../../api/nodeMaintenance.ts';
import { compareNames, listed } from '../common/names.ts';
import { deletesOnDeadline, drainDeadlineOf } from '../drain/escalation.ts';
import { completeDrainPlan } from '../drain/plan.ts';
import { desiredTargetsAt } from '../drain/targets.ts';
import { countOutOfService, limitsOf, outOfService } from '../budget/nodeDisruptionBudget.ts';
import { type SelectableNode, selectsNode } from '../common/nodeSelector.ts';
import { holdsNodes, stageOf } from '../common/stage.ts';
import { numbered } from '../common/text.ts';

/** A maintenance as a request proposes it; `before` is the stored spec, if there is one. */
export interface Proposal {
  name: string;
  spec: NodeMaintenanceSpec;
  before?: NodeMaintenanceSpec | undefined;
  /** The stored status, if there is one. */
  status?: Pick<NodeMaintenanceStatus, 'stageStatuses' | 'drainDeadline'> | undefined;
}

/** The state of the cluster that a proposal is checked against. */
export interface AdmissionContext {
  nodes: readonly (SelectableNode & Partial<Pick<Node, 'spec'>>)[];
  maintenances: readonly Pick<NodeMaintenance, 'metadata' | 'spec' | 'status'>[];
  /** None if they could not be read. */
  budgets?: readonly Pick<NodeDisruptionBudget, 'metadata' | 'spec'>[] | undefined;
  /** The active reservations of windows. */
  reservations?: readonly NodeReservation[] | undefined;
}

interface RuleInput extends Proposal, AdmissionContext {
  selected: readonly SelectableNode[];
}

/** Returns a warning that starts with the field, or undefined. */
type Rule = (input: RuleInput) => string | undefined;

const warningRules: readonly Rule[] = [
  selectsTooMuch, // "could select all the nodes (or just all master nodes)" (KEP-4212 > Risks and Mitigations)
  selectsNoNode, // nothing would happen, which is rarely intended
  namesUnknownNodes, // most likely a typing error
  exceedsBudget, // only windows enforce the budget
  overlapsOthers, // the drains wait for each other
  movesWhileInProgress, // newly selected nodes are cordoned and drained at once
];

/** "The warning is non-blocking and such NodeMaintenance is still valid and can proceed" (KEP-4212 > NodeMaintenance Admission). */
export function admissionWarnings(proposal: Proposal, context: AdmissionContext): string[] {
  const { spec, before } = proposal;
  if (spec.stage === 'Complete') return [];
  if (spec.stage === before?.stage && !changesSelector(proposal)) return [];
  const input = ruleInput(proposal, context);
  return warningRules.flatMap((rule) => rule(input) ?? []);
}

/** Returns why a new deadline cannot be met, or undefined: with Delete, pods would be deleted at once, with a grace period of a second. */
export function deadlineProblem(proposal: Proposal, now: Date): string | undefined {
  if (proposal.spec.stage === 'Complete') return undefined;
  return passedTimeProblem(proposal, now) ?? lateDeletionProblem(proposal, now);
}

function passedTimeProblem({ spec, before }: Proposal, now: Date): string | undefined {
  const { at } = spec.drainDeadline ?? {};
  if (at === undefined || Date.parse(at) > now.getTime()) return undefined;
  const isNew = at !== before?.drainDeadline?.at || (spec.stage === 'Drain' && before.stage !== 'Drain');
  return isNew
    ? `spec.drainDeadline.at: ${at} has passed: set a later time, or spec.drainDeadline.after`
    : undefined;
}

/** A drain keeps its earliest deadline, so that a later one that deletes would delete at once if that has passed. */
function lateDeletionProblem({ spec, before, status }: Proposal, now: Date): string | undefined {
  if (before === undefined || deletesAt({ spec: before, status }, now) !== undefined) return undefined;
  const time = deletesAt({ spec, status }, now);
  if (time === undefined) return undefined;
  const own = deletesAt({ spec, status: status && { ...status, drainDeadline: undefined } }, now);
  return own !== undefined
    ? `spec.drainDeadline: ${own} has passed, so that Delete would delete all pods that are left at once: set a later time, or delete them yourself`
    : `spec.drainDeadline: the drain keeps its earliest deadline, ${time}, which has passed, so that Delete would delete all pods that are left at once: keep onDeadline: Report and delete them yourself, or complete this NodeMaintenance and create another one`;
}

/** Returns the time of the deadline in effect if pods are deleted because it has passed; otherwise undefined. */
function deletesAt({ spec, status }: Pick<Proposal, 'spec' | 'status'>, now: Date): string | undefined {
  const deadline = drainDeadlineOf(spec.drainDeadline, status);
  if (deadline === undefined || deadline.drainedAt !== undefined || !deletesOnDeadline({ spec }))
    return undefined;
  return Date.parse(deadline.time) <= now.getTime() ? deadline.time : undefined;
}

/** Returns why the status of a maintenance could not be stored, or undefined. */
export function storageProblem(proposal: Proposal, context: AdmissionContext): string | undefined {
  const { spec, before } = proposal;
  if (spec.stage === 'Complete' || (before !== undefined && !changesSelector(proposal))) return undefined;
  const nodes = ruleInput(proposal, context).selected.length;
  const plan = completeDrainPlan(spec.drainPlan);
  const targets = desiredTargetsAt(plan, plan.length - 1);
  const bytes = nodes * (JSON.stringify(targets).length + bytesWithoutTargets);
  if (bytes <= maxStatusBytes) return undefined;
  return `spec.drainPlan: the status of ${nodes} nodes with ${targets.length} drain targets each (one for every podType and podSelector) needs about ${mebibytes(bytes)} MiB, but only ${mebibytes(maxStatusBytes)} MiB can be stored: use fewer podSelectors, or select fewer nodes per NodeMaintenance`;
}

/** etcd stores at most 1.5 MiB per object: the difference is left for the selector and for metadata. */
const maxStatusBytes = 1024 * 1024;
/** A high estimate for the name, message, counts and field names of one node in `.status.nodeStatuses`. */
const bytesWithoutTargets = 300;

function mebibytes(bytes: number): string {
  return (bytes / (1024 * 1024)).toFixed(1).replace('.0', '');
}

/**
 * Returns the names of the nodes that "must pass an authorization check for the DELETE operation": all nodes that match one of the
 * specs, nodes that a spec names although they do not exist yet, and `held` nodes, which Complete uncordons although the selector may
 * no longer match them.
 */
export function nodesToAuthorize(
  specs: readonly NodeMaintenanceSpec[],
  nodes: readonly SelectableNode[],
  held: readonly string[] = [],
): string[] {
  const matching = nodes.filter((node) => specs.some((spec) => selectsNode(spec.nodeSelector, node)));
  const names = matching.map((node) => node.metadata.name);
  const future = specs.flatMap((spec) => unknownNames(spec, nodes));
  return [...new Set([...names, ...future, ...held])].toSorted(compareNames);
}

/** Returns the node whose agent gives this name to the maintenance of its shutdowns, which another object of the name would prevent. */
export function nodeOfReservedName(name: string): string | undefined {
  return name.startsWith(SHUTDOWN_MAINTENANCE_PREFIX)
    ? name.slice(SHUTDOWN_MAINTENANCE_PREFIX.length)
    : undefined;
}

/** `node` is that of the reserved name. */
export function nameDenialMessage(user: string, name: string, node: string): string {
  return `metadata.name: the agent of node "${node}" uses the name "${name}", and user "${user}" may not delete this node: choose another name, or request the verb delete on this node`;
}

/** The user may not delete these nodes; `unchecked` other nodes were not checked. */
export interface Denial {
  user: string;
  nodes: readonly string[];
  unchecked: number;
}

/** "All nodes matching the .spec.nodeSelector must pass an authorization check" (KEP-4212 > NodeMaintenance Admission). */
export function denialMessage(denial: Denial): string {
  return `${denialText(denial)}; select other nodes, or request the verb delete on these nodes`;
}

/** Names the remedy for the user of Temporal, who may maintain no node until an administrator grants it. */
export function temporalDenialMessage(denial: Omit<Denial, 'user'>): string {
  return `${denialText({ ...denial, user: TEMPORAL_USER })}, and requests from Temporal are those of this user: create or change the NodeMaintenance with kubectl, or have an administrator run kubectl apply --server-side -k deploy/temporal-user (all nodes; deploy/temporal-user/some-nodes.yaml for a part)`;
}

/** Names the remedy for the user of Temporal, who may not have pods deleted until an administrator grants it. */
export function temporalDeletionDenialMessage(): string {
  return `spec.drainDeadline.onDeadline: user "${TEMPORAL_USER}" may not delete pods in all namespaces, which Delete requires, and requests from Temporal are those of this user: create or change the NodeMaintenance with kubectl, set onDeadline to Report, or have an administrator grant this user the verb delete on pods in a ClusterRole`;
}

function denialText({ user, nodes, unchecked }: Denial): string {
  const others = unchecked === 0 ? '' : ` (${unchecked} more were not checked)`;
  return `spec.nodeSelector: user "${user}" may not delete ${nodes.length === 1 ? 'node' : 'nodes'} ${quoted(nodes)}${others}: maintaining a node requires permission to delete it`;
}

function ruleInput(proposal: Proposal, context: AdmissionContext): RuleInput {
  const selected = context.nodes.filter((node) => selectsNode(proposal.spec.nodeSelector, node));
  return { ...proposal, ...context, selected };
}

function selectsTooMuch({ nodes, selected }: RuleInput): string | undefined {
  const whole = describeWholeSelection(nodes, selected);
  if (whole === undefined) return undefined;
  return `spec.nodeSelector matches ${whole}: the cluster may get into a degraded and unrecoverable state`;
}

const controlPlaneLabel = 'node-role.kubernetes.io/control-plane';

/** Describes a selection of all nodes, or of all control plane nodes: `all 3 control plane nodes`. Otherwise returns undefined. */
export function describeWholeSelection(
  nodes: readonly SelectableNode[],
  selected: readonly SelectableNode[],
): string | undefined {
  if (nodes.length > 0 && selected.length === nodes.length) return `all ${nodes.length} nodes`;
  const isControlPlane = ({ metadata }: SelectableNode) => metadata.labels?.[controlPlaneLabel] !== undefined;
  const all = nodes.filter(isControlPlane).length;
  if (all === 0 || selected.filter(isControlPlane).length < all) return undefined;
  return `all ${all} control plane nodes`;
}

/** The warning by which `kubectl maintenance doctor` recognizes an answer of the webhook. */
export const noNodeSelectedWarning =
  'spec.nodeSelector matches no node: check the names and labels of the nodes';

function selectsNoNode({ selected }: RuleInput): string | undefined {
  return selected.length > 0 ? undefined : noNodeSelectedWarning;
}

function namesUnknownNodes({ spec, nodes }: RuleInput): string | undefined {
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

function exceedsBudget(input: RuleInput): string | undefined {
  const { name, spec, nodes, maintenances, selected, budgets = [], reservations = [] } = input;
  if (budgets.length === 0 || !holdsNodes(spec.stage)) return undefined;
  const out = outOfService({
    nodes: nodes.map(({ metadata, spec: nodeSpec = {} }) => ({ metadata, spec: nodeSpec })),
    maintenances: maintenances.filter(({ metadata }) => metadata.name !== name),
    reservations,
  });
  const added = selected.filter(({ metadata }) => !out.has(metadata.name));
  const exceeded = limitsOf(budgets, nodes)
    .map((limit) => {
      const more = added.filter(({ metadata }) => limit.nodes.has(metadata.name)).length;
      return { limit, more, before: countOutOfService(limit, out) };
    })
    .filter(({ limit, more, before }) => more > 0 && before + more > limit.allowed);
  const [first, ...others] = exceeded;
  if (first === undefined) return undefined;
  const names = others.map(({ limit }) => limit.name);
  const also = names.length === 0 ? '' : ` (exceeded as well: ${listed(names)})`;
  return `spec.nodeSelector: ${numbered(first.before + first.more, 'node')} would be out of service, and NodeDisruptionBudget ${first.limit.name} allows ${first.limit.allowed}${also}: this maintenance is not blocked, but maintenance windows start no node until fewer are out of service`;
}

function overlapsOthers({ name, maintenances, selected }: RuleInput): string | undefined {
  const others = maintenances
    .filter(({ metadata }) => metadata.name !== name)
    .filter((one) => holdsNodes(stageOf(one)))
    .filter(({ spec }) => selected.some((node) => selectsNode(spec.nodeSelector, node)))
    .map(({ metadata }) => metadata.name)
    .toSorted(compareNames);
  if (others.length === 0) return undefined;
  return `spec.nodeSelector matches nodes that other maintenances hold: ${quoted(others)}; the slowest drain plan limits which pods are evacuated, and a node is uncordoned when its last maintenance is complete`;
}

function movesWhileInProgress(input: RuleInput): string | undefined {
  if (input.before === undefined || !holdsNodes(input.before.stage) || !changesSelector(input))
    return undefined;
  return `spec.nodeSelector changes in stage ${input.before.stage}: newly matching nodes are cordoned at once, and nodes that no longer match stay cordoned until Complete`;
}

function changesSelector({ spec, before }: Proposal): boolean {
  return JSON.stringify(before?.nodeSelector) !== JSON.stringify(spec.nodeSelector);
}

function quoted(names: readonly string[]): string {
  return listed(names.map((name) => `"${name}"`));
}
