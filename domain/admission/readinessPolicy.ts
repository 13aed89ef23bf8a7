import type { NodeReadinessGate } from '../../api/nodeReadiness.ts';
import type { NodeReadinessPolicy } from '../../api/nodeReadinessPolicy.ts';
import { listed } from '../common/names.ts';
import { type SelectableNode, selectsNode } from '../common/nodeSelector.ts';
import {
  type GateWorkloads,
  noPodsMessage,
  selectsAnyPod,
  tolerationRemedy,
  workloadsWithoutToleration,
} from '../readiness/policyStatus.ts';
import { describeWholeSelection } from './maintenance.ts';

/** The state of the cluster that a proposed policy is checked against. */
export interface PolicyContext extends Omit<GateWorkloads, 'selected'> {
  nodes: readonly SelectableNode[];
}

/** Returns warnings that start with the field. The conditions of the policy report the same problems, and more, a second later. */
export function policyWarnings(
  { nodeSelector, readinessGates }: NodeReadinessPolicy['spec'],
  context: PolicyContext,
): string[] {
  const { nodes } = context;
  const selectedNodes = nodes.filter((node) => selectsNode(nodeSelector, node));
  const known = { ...context, selected: new Set(selectedNodes.map(({ metadata }) => metadata.name)) };
  const whole = describeWholeSelection(nodes, selectedNodes);
  const selectorWarnings =
    whole !== undefined && readinessGates.some((gate) => gate.blocksReadiness)
      ? [`spec.nodeSelector matches ${whole}: a gate that never becomes ready keeps new pods off all of them`]
      : [];
  return [...selectorWarnings, ...readinessGates.flatMap((gate, i) => gateWarnings(gate, i, known))];
}

function gateWarnings(gate: NodeReadinessGate, index: number, known: GateWorkloads): string[] {
  const field = `spec.readinessGates[${index}]`;
  if (!selectsAnyPod(gate, known)) {
    const subfield = known.missingNamespaces.includes(gate.namespace) ? 'namespace' : 'selector';
    return [
      `${field}.${subfield}: ${noPodsMessage(gate, known)}: gate ${gate.name} is not ready until such a pod is ready; check the namespace and the labels, or remove the gate`,
    ];
  }
  const intolerant = workloadsWithoutToleration(gate, known);
  if (intolerant.length === 0) return [];
  return [
    `${field}: gate ${gate.name} is suppressed on nodes that do not have it yet: ${listed(intolerant)}; ${tolerationRemedy(known.taint)}`,
  ];
}
