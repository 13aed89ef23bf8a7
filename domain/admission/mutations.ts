import type { Node, NodeSelectorTerm, Pod } from '../../api/core.ts';
import type { DrainPlanEntry, NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { REQUESTER_ANNOTATION } from '../../api/names.ts';
import type { Requester } from '../../api/requester.ts';
import { canonicalJson } from '../common/canonicalJson.ts';
import { countsForEveryNode } from '../common/requester.ts';
import { completeDrainPlan, drainPlanProblems, podTypes } from '../drain/plan.ts';
import { targetsPod } from '../drain/targets.ts';
import { gatesInEffect, policiesOf } from '../readiness/gates.ts';

/**
 * Decides what the MutatingAdmissionPolicies of deploy/ decide, for apiservers that do not serve them (docs/adr/0047). The conditions of a policy that
 * only read the request are conditions of its webhook, and are not repeated here.
 */

/** Formats who makes a request: `user alice (field manager kubectl)`. */
export function requestAuthor({ username }: Requester, fieldManager = ''): string {
  return `user ${username}${fieldManager === '' ? '' : ` (field manager ${fieldManager})`}`;
}

/**
 * Returns the record of a user, as text that `authorityOf` reads. The policy that rejects every other record computes the same text, so the
 * order of its fields and the characters that are escaped are fixed.
 */
export function recordOfRequester(
  { username, uid = '', groups = [], extra = {} }: Requester,
  mayGateEveryNode: boolean,
): string {
  const texts = (values: readonly string[]) => `[${values.map(quoted).join(',')}]`;
  const keys = Object.keys(extra).toSorted(compareCodePoints);
  const extras = keys.map((key) => `${quoted(key)}:${texts(extra[key] ?? [])}`).join(',');
  return `{"everyNode":${mayGateEveryNode},"username":${quoted(username)},"uid":${quoted(uid)},"groups":${texts(groups)},"extra":{${extras}}}`;
}

/** Compares as CEL does. UTF-16, which JavaScript compares, has another order. */
function compareCodePoints(a: string, b: string): number {
  const [left, right] = [Array.from(a), Array.from(b)];
  const index = left.findIndex((character, i) => character !== right[i]);
  if (index < 0) return left.length - right.length;
  return (left[index]?.codePointAt(0) ?? -1) - (right[index]?.codePointAt(0) ?? -1);
}

/** Quotes a text as strings.quote of CEL does. */
function quoted(text: string): string {
  return `"${Array.from(text, (character) => escapes[character] ?? character).join('')}"`;
}

const escapes: Readonly<Record<string, string>> = {
  '\\': String.raw`\\`,
  '"': String.raw`\"`,
  '\x07': String.raw`\a`,
  '\b': String.raw`\b`,
  '\f': String.raw`\f`,
  '\n': String.raw`\n`,
  '\r': String.raw`\r`,
  '\t': String.raw`\t`,
  '\v': String.raw`\v`,
};

/** An object as a user wants to store it; the schema is validated later. */
interface Proposed {
  metadata: { annotations?: Readonly<Record<string, string>> | undefined };
  spec?: unknown;
}

/**
 * Returns the record that an object must have instead of the one that it would be stored with; '' for none, undefined if it stays as it is. An
 * update that loses the record, such as `kubectl replace`, keeps it.
 */
export function correctedRecord(
  after: Proposed,
  before: Proposed | undefined,
  record: string,
): string | undefined {
  const recorded = after.metadata.annotations?.[REQUESTER_ANNOTATION] ?? '';
  const previous = before?.metadata.annotations?.[REQUESTER_ANNOTATION] ?? '';
  const isRequest = before === undefined || !isSame(after.spec, before.spec);
  if (isRequest) return recorded === record ? undefined : record;
  const isLost = recorded !== previous && (recorded === '' || recorded === record);
  return isLost ? previous : undefined;
}

/**
 * Returns the complete plan of a maintenance whose plan is valid and incomplete. A plan that an update repeats as its author wrote it is
 * completed to the stored one; the schema rejects any other change.
 */
export function planToStore(
  plan: readonly DrainPlanEntry[] | undefined,
  before: Pick<NodeMaintenance, 'spec'> | undefined,
): DrainPlanEntry[] | undefined {
  if (plan?.every(isWellFormed) === false || drainPlanProblems(plan ?? []).length > 0) return undefined;
  const complete = completeDrainPlan(plan);
  const isRepeated = before === undefined || isSame(complete, before.spec.drainPlan);
  return isRepeated ? complete : undefined;
}

/** The schema, which rejects other entries, is validated later. */
function isWellFormed({ podType, podPriority }: DrainPlanEntry): boolean {
  return podTypes.includes(podType) && podPriority >= -2_147_483_648 && podPriority <= 2_147_483_647;
}

function isSame(a: unknown, b: unknown): boolean {
  return canonicalJson(a) === canonicalJson(b);
}

/** Returns the nodes for which the DaemonSet controller makes a pod: it writes one term with one field. */
export function nodesOfTerms(terms: readonly NodeSelectorTerm[] = []): string[] {
  return terms
    .flatMap(({ matchFields = [] }) => matchFields)
    .flatMap(({ key, operator, values = [] }) =>
      key === 'metadata.name' && operator === 'In' ? values : [],
    );
}

/** Reports whether a new DaemonSet pod for these nodes gets the scheduling gate (KEP-4212 > DaemonSet Controller). */
export function isGatedAtCreation(
  pod: Pod,
  nodes: readonly string[],
  maintenances: readonly NodeMaintenance[],
): boolean {
  return maintenances.some(
    ({ metadata, spec, status }) =>
      spec.stage === 'Drain' &&
      metadata.deletionTimestamp === undefined &&
      status?.nodeStatuses.some(
        ({ nodeRef, drainTargets }) => nodes.includes(nodeRef.name) && targetsPod(drainTargets, pod),
      ) === true,
  );
}

/**
 * Reports whether a new node gets the readiness taint (Node Readiness Gates > Design Details): because of a policy whose author may gate every
 * node, or because of the NodeReadiness that was created before its node.
 */
export function isTaintedAtCreation(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
  readiness: NodeReadiness | undefined,
): boolean {
  const blocks = ({ blocksReadiness }: { blocksReadiness?: boolean }) => blocksReadiness !== false;
  const counting = policies.filter(({ metadata }) =>
    countsForEveryNode(metadata.annotations?.[REQUESTER_ANNOTATION]),
  );
  if (policiesOf(node, counting).some((policy) => gatesInEffect(policy).some(blocks))) return true;
  const isPrepared = readiness !== undefined && readiness.metadata.deletionTimestamp === undefined;
  return isPrepared && readiness.spec.readinessGates.some(blocks);
}
