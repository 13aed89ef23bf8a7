import type { Node } from '../../api/core.ts';
import type { NodeReadinessGate, ObservedNodeReadiness } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { canonicalJson } from '../common/canonicalJson.ts';
import { compareNames } from '../common/names.ts';
import { gatesInEffect, isEvaluated, policiesOf, suppressedGatesOf } from './gates.ts';

export interface GateRules {
  /** The field manager of a policy is this prefix followed by the name of the policy. */
  managerPrefix: string;
  /** The limit of gates per NodeReadiness. */
  maxGates: number;
}

/** A gate that a policy does not apply: `by` names the field manager of a conflicting definition; without it the node has too many gates. */
export interface Rejection {
  gate: string;
  by?: string;
}

/** The gates that one policy applies to the NodeReadiness of one node. */
export interface GatesOfPolicy {
  policy: string;
  gates: NodeReadinessGate[];
  rejected: readonly Rejection[];
}

/**
 * Returns the gates that each policy applies to a NodeReadiness. A gate whose definition differs from that of a field manager other
 * than a policy, or from that of an older policy, is rejected. So is a gate that exceeds the limit. A suppressed gate that the node already
 * has stays unchanged.
 */
export function policyGatesFor(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
  readiness: ObservedNodeReadiness | undefined,
  { managerPrefix, maxGates }: GateRules,
): GatesOfPolicy[] {
  const taken = new Map<string, { gate: NodeReadinessGate; by: string }>();
  for (const gate of readiness?.spec.readinessGates ?? []) {
    const other = ownersOf(readiness, gate.name).find((owner) => !owner.startsWith(managerPrefix));
    if (other !== undefined) taken.set(gate.name, { gate, by: `field manager ${other}` });
  }
  return policiesOf(node, policies).map((one) => {
    const policy = one.metadata.name;
    const gates: NodeReadinessGate[] = [];
    const rejected: Rejection[] = [];
    for (const gate of [...gatesInEffect(one), ...retainedGates(one, readiness, managerPrefix)]) {
      const other = taken.get(gate.name);
      if (other === undefined && taken.size >= maxGates) rejected.push({ gate: gate.name });
      else if (other !== undefined && !isSameGate(other.gate, gate))
        rejected.push({ gate: gate.name, by: other.by });
      else {
        gates.push(gate);
        if (other === undefined) taken.set(gate.name, { gate, by: `NodeReadinessPolicy ${policy}` });
      }
    }
    return { policy, gates, rejected };
  });
}

/**
 * Returns the suppressed gates that the policy applied before an edit, with their previous definition. Removing them would
 * remove the taint from nodes that are still waiting for them.
 */
function retainedGates(
  policy: NodeReadinessPolicy,
  readiness: ObservedNodeReadiness | undefined,
  managerPrefix: string,
): NodeReadinessGate[] {
  const suppressed = suppressedGatesOf(policy);
  return (readiness?.spec.readinessGates ?? []).filter(
    ({ name }) =>
      suppressed.includes(name) &&
      isOwnedByPolicy(ownersOf(readiness, name), policy.metadata.name, managerPrefix),
  );
}

/** Reports whether the policy is an owner, and all other owners are policies too. */
function isOwnedByPolicy(owners: readonly string[], policy: string, managerPrefix: string): boolean {
  return owners.includes(managerPrefix + policy) && owners.every((owner) => owner.startsWith(managerPrefix));
}

/** A gate as a policy applies it: complete, or only the fields that the policy owns in addition to another field manager. */
export type AppliedGate = Pick<NodeReadinessGate, 'name'> & Partial<NodeReadinessGate>;

/** The changes to make to a NodeReadiness. */
export interface GateWrites {
  /** Gates that only policies own and that no policy requires any more: they are removed together. */
  orphans: string[];
  /** The complete list of gates that each policy applies, for policies whose gates differ from it. */
  applied: { policy: string; gates: AppliedGate[] }[];
}

/**
 * Compares the gates that policies own in a NodeReadiness with those that they require. The gates of a policy whose current spec was
 * not evaluated yet stay unchanged; a policy that is being deleted requires no gates.
 */
export function gateWrites(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
  readiness: ObservedNodeReadiness,
  rules: GateRules,
): GateWrites {
  const { managerPrefix } = rules;
  const required = policyGatesFor(node, policies, readiness, rules);
  const unevaluated = new Set(
    policies
      .filter((policy) => policy.metadata.deletionTimestamp === undefined && !isEvaluated(policy))
      .map(({ metadata }) => managerPrefix + metadata.name),
  );
  const names = new Set(required.flatMap(({ gates }) => gates.map(({ name }) => name)));
  const isOrphan = (owners: readonly string[], name: string) =>
    owners.length > 0 &&
    owners.every((owner) => owner.startsWith(managerPrefix) && !unevaluated.has(owner)) &&
    !names.has(name);
  const orphans = readiness.spec.readinessGates
    .map(({ name }) => name)
    .filter((name) => isOrphan(ownersOf(readiness, name), name));
  const previous = policiesIn(readiness, managerPrefix).filter((policy) =>
    required.every((one) => one.policy !== policy),
  );
  const applied = [...required, ...previous.map((policy) => ({ policy, gates: [] }))]
    .filter(({ policy }) => !unevaluated.has(managerPrefix + policy))
    .filter(({ policy, gates }) => !isApplied(readiness, gates, managerPrefix + policy))
    .map(({ policy, gates }) => ({
      policy,
      gates: [...gates, ...retainedParts(readiness, gates, managerPrefix + policy)],
    }));
  return { orphans, applied };
}

/** Reports whether the NodeReadiness has exactly these gates of the field manager, and the parts that it cannot release. */
export function isApplied(
  readiness: ObservedNodeReadiness,
  gates: readonly NodeReadinessGate[],
  manager: string,
): boolean {
  const retained = retainedParts(readiness, gates, manager);
  if (gatesOwnedBy(readiness, manager).length !== gates.length + retained.length) return false;
  return gates.every((gate) => hasGate(readiness, gate, manager));
}

/** Reports whether the NodeReadiness has this gate with this definition, and the field manager owns it. */
export function hasGate(readiness: ObservedNodeReadiness, gate: NodeReadinessGate, manager: string): boolean {
  const written = readiness.spec.readinessGates.find(({ name }) => name === gate.name);
  return (
    written !== undefined && ownersOf(readiness, gate.name).includes(manager) && isSameGate(written, gate)
  );
}

/** Reports whether the NodeReadiness has the gate with a previous definition, and only this policy or other policies own it. */
export function hasPreviousGate(
  readiness: ObservedNodeReadiness,
  gate: NodeReadinessGate,
  { policy, managerPrefix }: { policy: string; managerPrefix: string },
): boolean {
  const written = readiness.spec.readinessGates.find(({ name }) => name === gate.name);
  const isOwned = isOwnedByPolicy(ownersOf(readiness, gate.name), policy, managerPrefix);
  return written !== undefined && isOwned && !isSameGate(written, gate);
}

/**
 * Returns the fields of gates that the manager no longer requires but cannot release. Without them the gate of another owner would
 * lack required fields: the apiserver either rejects that, or removes the fields of the other owner (structured-merge-diff issue
 * 335).
 */
function retainedParts(
  readiness: ObservedNodeReadiness,
  gates: readonly NodeReadinessGate[],
  manager: string,
): AppliedGate[] {
  return readiness.spec.readinessGates
    .filter(({ name }) => gates.every((gate) => gate.name !== name))
    .filter(
      ({ name }) =>
        ownersOf(readiness, name).includes(manager) && isIncompleteWithout(readiness, name, manager),
    )
    .map((gate) => {
      const fields = readiness.gateOwners.get(gate.name)?.get(manager) ?? [];
      const own = Object.entries(gate).filter(([field]) => field === 'name' || fields.includes(field));
      return Object.fromEntries(own) as AppliedGate;
    });
}

/** Returns the gates that a policy could not apply, and the gates whose fields it could not release. */
export function rejectionsOf(
  readiness: ObservedNodeReadiness | undefined,
  own: GatesOfPolicy | undefined,
  manager: string,
): Rejection[] {
  const { gates = [], rejected = [] } = own ?? {};
  const retained = readiness === undefined ? [] : retainedParts(readiness, gates, manager);
  const shared = retained
    .map(({ name }) => ({
      gate: name,
      by: ownersOf(readiness, name).find((owner) => owner !== manager) ?? '',
    }))
    .filter(({ gate }) => rejected.every((rejection) => rejection.gate !== gate))
    .map(({ gate, by }) => ({ gate, by: `field manager ${by} owns a part of it` }));
  return [...rejected, ...shared];
}

const requiredFields = ['selector', 'namespace'];

function isIncompleteWithout(readiness: ObservedNodeReadiness, gate: string, manager: string): boolean {
  const others = [...(readiness.gateOwners.get(gate) ?? [])].filter(([owner]) => owner !== manager);
  const theirs = new Set(others.flatMap(([, fields]) => fields));
  return others.length > 0 && !requiredFields.every((field) => theirs.has(field));
}

/** Returns the names of the policies that own at least one field of a gate. */
export function policiesIn({ gateOwners }: ObservedNodeReadiness, managerPrefix: string): string[] {
  const owners = [...gateOwners.values()].flatMap((managers) => [...managers.keys()]);
  const policies = owners
    .filter((owner) => owner.startsWith(managerPrefix))
    .map((owner) => owner.slice(managerPrefix.length));
  return [...new Set(policies)].toSorted(compareNames);
}

function gatesOwnedBy(readiness: ObservedNodeReadiness, manager: string): string[] {
  return [...readiness.gateOwners.keys()].filter((name) => ownersOf(readiness, name).includes(manager));
}

function ownersOf(readiness: ObservedNodeReadiness | undefined, gate: string): string[] {
  return [...(readiness?.gateOwners.get(gate)?.keys() ?? [])];
}

function isSameGate(a: NodeReadinessGate, b: NodeReadinessGate): boolean {
  return canonicalJson(a) === canonicalJson(b);
}
