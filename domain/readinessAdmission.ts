import type { NodeReadinessGate } from '../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../api/nodeReadinessPolicy.ts';
import { wholeOf } from './admission.ts';
import { listed } from './names.ts';
import { type SelectableNode, selectsNode } from './nodeSelector.ts';
import { type GatePods, intolerantOf, missingPods, remedyFor, selectsAnything } from './readinessPolicy.ts';

/** The rest of the cluster, as far as it matters for a policy that somebody wants to write. */
export interface PolicySurroundings extends Omit<GatePods, 'selected'> {
  nodes: readonly SelectableNode[];
}

/** Sentences for people that begin with the field. The conditions of the policy say the same, and more, a second later. */
export function policyWarnings(
  { nodeSelector, readinessGates }: NodeReadinessPolicy['spec'],
  surroundings: PolicySurroundings,
): string[] {
  const { nodes } = surroundings;
  const chosen = nodes.filter((node) => selectsNode(nodeSelector, node));
  const known = { ...surroundings, selected: new Set(chosen.map(({ metadata }) => metadata.name)) };
  const whole = wholeOf(nodes, chosen);
  const reach =
    whole !== undefined && readinessGates.some((gate) => gate.blocksReadiness)
      ? [`spec.nodeSelector matches ${whole}: a gate that never opens keeps new pods from all of them`]
      : [];
  return [...reach, ...readinessGates.flatMap((gate, i) => gateWarnings(gate, i, known))];
}

function gateWarnings(gate: NodeReadinessGate, index: number, known: GatePods): string[] {
  const field = `spec.readinessGates[${index}]`;
  if (!selectsAnything(gate, known)) {
    const isNamespace = known.missingNamespaces.includes(gate.namespace);
    return [
      `${field}.${isNamespace ? 'namespace' : 'selector'}: ${missingPods(gate, known)}: gate ${gate.name} is closed until there is such a pod, or until you remove it`,
    ];
  }
  const intolerant = intolerantOf(gate, known);
  if (intolerant.length === 0) return [];
  return [
    `${field}: gate ${gate.name} is withheld from nodes that do not have it yet: ${listed(intolerant)}; ${remedyFor(known.taint)}`,
  ];
}
