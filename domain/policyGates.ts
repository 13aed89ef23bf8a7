import type { Node } from '../api/core.ts';
import type { NodeReadinessGate, SeenReadiness } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { compareNames } from './names.ts';
import { gatesInEffect, gatesWithheld, isChecked, policiesOf } from './readiness.ts';

/** How gates are written. */
export interface GateRules {
  /** Begins the field managers of policies; the name of the policy follows. */
  manager: string;
  /** So many gates may a NodeReadiness have. */
  mostGates: number;
}

/** A gate that a policy does not write, because somebody else has it otherwise; without `by`, because the node has too many. */
export interface Refusal {
  gate: string;
  by?: string;
}

/** What one policy writes into the NodeReadiness of one node. */
export interface GatesOfPolicy {
  policy: string;
  gates: NodeReadinessGate[];
  refused: readonly Refusal[];
}

/**
 * Who writes what into a NodeReadiness. A gate that somebody else than a policy wrote is theirs: a policy that says another thing
 * about it leaves it out. So does a policy that is younger than another one that says another thing, or that comes when there is
 * no room any more. What a policy withholds stays as the node has it.
 */
export function gatesOfPolicies(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
  seen: SeenReadiness | undefined,
  { manager, mostGates }: GateRules,
): GatesOfPolicy[] {
  const taken = new Map<string, { gate: NodeReadinessGate; by: string }>();
  for (const gate of seen?.spec.readinessGates ?? []) {
    const stranger = ownersOf(seen, gate.name).find((owner) => !owner.startsWith(manager));
    if (stranger !== undefined) taken.set(gate.name, { gate, by: `field manager ${stranger}` });
  }
  return policiesOf(node, policies).map((one) => {
    const policy = one.metadata.name;
    const gates: NodeReadinessGate[] = [];
    const refused: Refusal[] = [];
    for (const gate of [...gatesInEffect(one), ...formerGates(one, seen, manager)]) {
      const other = taken.get(gate.name);
      if (other === undefined && taken.size >= mostGates) refused.push({ gate: gate.name });
      else if (other !== undefined && !isSameGate(other.gate, gate))
        refused.push({ gate: gate.name, by: other.by });
      else {
        gates.push(gate);
        if (other === undefined) taken.set(gate.name, { gate, by: `NodeReadinessPolicy ${policy}` });
      }
    }
    return { policy, gates, refused };
  });
}

/**
 * What a policy has written of gates that it withholds by now: as they were before they were edited. To take them away would open
 * nodes that wait for them.
 */
function formerGates(
  policy: NodeReadinessPolicy,
  seen: SeenReadiness | undefined,
  manager: string,
): NodeReadinessGate[] {
  const withheld = gatesWithheld(policy);
  return (seen?.spec.readinessGates ?? []).filter(
    ({ name }) => withheld.includes(name) && isOfPolicy(ownersOf(seen, name), policy.metadata.name, manager),
  );
}

/** Whether the policy owns it, and nobody else than policies does. */
function isOfPolicy(owners: readonly string[], policy: string, manager: string): boolean {
  return owners.includes(manager + policy) && owners.every((owner) => owner.startsWith(manager));
}

/** One gate as a policy applies it: whole, or those parts of it that the policy has beside another writer's. */
export type AppliedGate = Pick<NodeReadinessGate, 'name'> & Partial<NodeReadinessGate>;

/** What is to be written into a NodeReadiness. */
export interface GateWrites {
  /** Gates that only policies own, and that none wants any more: they go together, whatever part of them each has. */
  orphans: string[];
  /** What each policy is to apply, as its whole, where that is not what it has. */
  applied: { policy: string; gates: AppliedGate[] }[];
}

/**
 * The difference between what policies have in a NodeReadiness and what they want there. What a policy has that was not checked
 * yet stays as it is; one that is being deleted wants nothing.
 */
export function gateWrites(
  node: Pick<Node, 'metadata'>,
  policies: readonly NodeReadinessPolicy[],
  seen: SeenReadiness,
  rules: GateRules,
): GateWrites {
  const { manager } = rules;
  const wanted = gatesOfPolicies(node, policies, seen, rules);
  const unchecked = new Set(
    policies
      .filter((policy) => policy.metadata.deletionTimestamp === undefined && !isChecked(policy))
      .map(({ metadata }) => manager + metadata.name),
  );
  const names = new Set(wanted.flatMap(({ gates }) => gates.map(({ name }) => name)));
  const isOrphan = (owners: readonly string[], name: string) =>
    owners.length > 0 &&
    owners.every((owner) => owner.startsWith(manager) && !unchecked.has(owner)) &&
    !names.has(name);
  const orphans = seen.spec.readinessGates
    .map(({ name }) => name)
    .filter((name) => isOrphan(ownersOf(seen, name), name));
  const former = policiesIn(seen, manager).filter((policy) => wanted.every((one) => one.policy !== policy));
  const applied = [...wanted, ...former.map((policy) => ({ policy, gates: [] }))]
    .filter(({ policy }) => !unchecked.has(manager + policy))
    .filter(({ policy, gates }) => !isWritten(seen, gates, manager + policy))
    .map(({ policy, gates }) => ({ policy, gates: [...gates, ...keptParts(seen, gates, manager + policy)] }));
  return { orphans, applied };
}

/** Whether the NodeReadiness has exactly these gates of the policy, and what it cannot let go. */
export function isWritten(
  seen: SeenReadiness,
  gates: readonly NodeReadinessGate[],
  manager: string,
): boolean {
  const kept = keptParts(seen, gates, manager);
  if (gatesOwnedBy(seen, manager).length !== gates.length + kept.length) return false;
  return gates.every((gate) => hasGate(seen, gate, manager));
}

/** Whether this very gate is there, and the manager owns it. */
export function hasGate(seen: SeenReadiness, gate: NodeReadinessGate, manager: string): boolean {
  const written = seen.spec.readinessGates.find(({ name }) => name === gate.name);
  return written !== undefined && ownersOf(seen, gate.name).includes(manager) && isSameGate(written, gate);
}

/** Whether a gate is there as this policy, and nobody else, had it before an edit. */
export function hasFormerGate(
  seen: SeenReadiness,
  gate: NodeReadinessGate,
  { policy, manager }: { policy: string; manager: string },
): boolean {
  const written = seen.spec.readinessGates.find(({ name }) => name === gate.name);
  const isItsOwn = isOfPolicy(ownersOf(seen, gate.name), policy, manager);
  return written !== undefined && isItsOwn && !isSameGate(written, gate);
}

/**
 * What a policy has of gates that it does not want, and cannot let go: without it half a gate would be left of what others own,
 * which the apiserver refuses, or undoes their part of (structured-merge-diff issue 335).
 */
function keptParts(seen: SeenReadiness, gates: readonly NodeReadinessGate[], manager: string): AppliedGate[] {
  return seen.spec.readinessGates
    .filter(({ name }) => gates.every((gate) => gate.name !== name))
    .filter(({ name }) => ownersOf(seen, name).includes(manager) && isHalfWithout(seen, name, manager))
    .map((gate) => {
      const fields = seen.gateOwners[gate.name]?.[manager] ?? [];
      const own = Object.entries(gate).filter(([field]) => field === 'name' || fields.includes(field));
      return Object.fromEntries(own) as AppliedGate;
    });
}

/** What a policy could not write as it wants it, and what it could not let go. */
export function refusalsOf(
  seen: SeenReadiness | undefined,
  own: GatesOfPolicy | undefined,
  manager: string,
): Refusal[] {
  const { gates = [], refused = [] } = own ?? {};
  const kept = seen === undefined ? [] : keptParts(seen, gates, manager);
  const others = kept
    .map(({ name }) => ({ gate: name, by: ownersOf(seen, name).find((owner) => owner !== manager) ?? '' }))
    .filter(({ gate }) => refused.every((refusal) => refusal.gate !== gate))
    .map(({ gate, by }) => ({ gate, by: `field manager ${by}, a part of it` }));
  return [...refused, ...others];
}

/** Without these a gate is none. */
const requiredFields = ['selector', 'namespace'];

function isHalfWithout(seen: SeenReadiness, gate: string, manager: string): boolean {
  const others = Object.entries(seen.gateOwners[gate] ?? {}).filter(([owner]) => owner !== manager);
  const theirs = new Set(others.flatMap(([, fields]) => fields));
  return others.length > 0 && !requiredFields.every((field) => theirs.has(field));
}

/** The policies that own a part of it. */
export function policiesIn({ gateOwners }: SeenReadiness, manager: string): string[] {
  const owners = Object.values(gateOwners).flatMap((managers) => Object.keys(managers));
  const policies = owners
    .filter((owner) => owner.startsWith(manager))
    .map((owner) => owner.slice(manager.length));
  return [...new Set(policies)].toSorted(compareNames);
}

function gatesOwnedBy(seen: SeenReadiness, manager: string): string[] {
  return Object.keys(seen.gateOwners).filter((name) => ownersOf(seen, name).includes(manager));
}

function ownersOf(seen: SeenReadiness | undefined, gate: string): string[] {
  return Object.keys(seen?.gateOwners[gate] ?? {});
}

function isSameGate(a: NodeReadinessGate, b: NodeReadinessGate): boolean {
  return canonical(a) === canonical(b);
}

/** The same whatever the order in which its fields were written. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => compareNames(a, b)))
      : part,
  );
}
