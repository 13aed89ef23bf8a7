import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { MAX_READINESS_GATES } from './names.ts';
import { type CelRule, cel, int32, int64, listMap, text, timestamp } from './schema.ts';
import { LabelSelector } from './selectors.ts';

/**
 * NodeReadiness, the only source of its TypeScript types and of its CRD: `NodeSpec.readinessGates` and
 * `NodeStatus.readiness` of the proposal "Node Readiness Gates", in an object that has the name of its node. Descriptions are
 * the proposal's sentences; what it does not have says "Extension".
 */

const MAX_GATE_NAME = 128;
const MAX_NAMESPACE = 63;

function lines(...sentences: string[]): string {
  return sentences.join('\n');
}

export function gateName() {
  const error =
    'expected lower case letters, digits, "-", "." and "/", starting and ending with a letter or digit, at most 128 characters';
  return z
    .string({ error })
    .min(1, { error })
    .max(MAX_GATE_NAME, { error })
    .regex(/^[a-z0-9]([-a-z0-9./]*[a-z0-9])?$/, { error });
}

function namespaceName() {
  const error = 'expected the name of a namespace';
  return z
    .string({ error })
    .min(1, { error })
    .max(MAX_NAMESPACE, { error })
    .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, { error });
}

const selectsSomething: CelRule = {
  rule: '(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)',
  message:
    'selector: an empty selector would select every pod of the namespace; give the labels of the pods that the node needs, or, for a gate that you remove yourself, a label that no pod has',
};

const NodeReadinessGate = z
  .strictObject({
    name: gateName().describe('The name of the readiness gate, mainly required as the patch merge key.'),
    selector: LabelSelector.describe(
      lines(
        'A label query for pods representing this readiness gate.',
        'Generally, labels here should point to a specific pod on a node.',
        'A gate that is opened from outside has a reserved selector, that no pod matches: it is not ready until whoever owns it removes it.',
        'Extension: a selector that is empty is refused.',
      ),
    ).meta(cel(selectsSomething)),
    namespace: namespaceName().describe(
      lines(
        'The namespace query for the pods representing this readiness gate.',
        'Extension: required, so that labels in the namespaces of other people neither open nor close a gate.',
      ),
    ),
    blocksReadiness: z
      .boolean({ error: 'expected true or false' })
      .default(true)
      .describe(
        lines(
          'Indicates if this readiness gate should block the overall readiness of a node. Default: true.',
          'Pods of a gate that does not are reported in the status.',
        ),
      ),
  })
  .describe(
    'NodeReadinessGate indicates a set of pods that must be ready on a given node before the node itself is considered ready. Pods listed under NodeReadinessGates should be system critical pods that should block other workloads from running on a node until it is ready.',
  );
export type NodeReadinessGate = z.infer<typeof NodeReadinessGate>;

/** The list of gates of a node, or of a policy. */
export function readinessGates(description: string) {
  return z
    .array(NodeReadinessGate, { error: 'expected a list of readiness gates' })
    .max(MAX_READINESS_GATES, { error: `expected at most ${MAX_READINESS_GATES} readiness gates` })
    .default([])
    .describe(description)
    .meta(listMap('name'));
}

export const NodeReadinessSpec = z.strictObject({
  readinessGates: readinessGates(
    lines(
      'Defines the list of readiness gates for a node.',
      'They are merged by name under server-side apply, so that each writer owns its gates and takes them back: NodeReadinessPolicies write theirs as the field manager node-readiness-policy/<name>, other components and people under a field manager of their own (kubectl apply --server-side --field-manager=...).',
    ),
  ),
});

const NodeReadinessGateStatus = z.strictObject({
  name: gateName().describe('The name of the node readiness gate.'),
  definition: text(8).describe(
    'Extension: hash of the namespace, the selector and blocksReadiness that this was computed from: by it a gate that was defined anew is told from one that was lost.',
  ),
  ready: z.boolean().describe('Whether a node is ready based on its corresponding readiness gate.'),
  reason: text(64)
    .exactOptional()
    .describe('Extension: why it is not ready, in CamelCase, for machines: NoPods or PodsNotReady.'),
  message: text(1024).exactOptional().describe('Extension: which pod is not ready, for people.'),
  pods: int32(0).describe(
    'Extension: number of pods on the node that the gate selects, without those that end.',
  ),
  lostTime: timestamp()
    .exactOptional()
    .describe(
      'Extension: since when it is not ready, after it was; of a gate that is new on a node that takes pods, since when it is known. Absent for one that never was ready.',
    ),
  lastTransitionTime: timestamp().describe('Extension: since when ready is what it is.'),
});
export type NodeReadinessGateStatus = z.infer<typeof NodeReadinessGateStatus>;

export const NodeReadinessStatus = z.strictObject({
  observedGeneration: int64()
    .default(0)
    .describe('Extension: the .metadata.generation that this status was computed from.'),
  readiness: z
    .array(NodeReadinessGateStatus)
    .default([])
    .describe('The status of each readiness gate by name.')
    .meta(listMap('name')),
  gates: text(16).default('').describe('Extension: how many of the gates that block are ready, such as 2/3.'),
  blockedBy: text(512).default('').describe('Extension: the gates that block and are not ready, by name.'),
  losses: int32(0)
    .default(0)
    .describe(
      'Extension: how often, outside of maintenance, a ready node lost a gate that blocks, until it has stayed ready for ten minutes. The second loss and those after it keep the taint on for a time after the node is ready; the third and those after it put it on at once.',
    ),
  lastLossTime: timestamp().exactOptional().describe('Extension: when the last of them happened.'),
  taintUntil: timestamp()
    .exactOptional()
    .describe(
      'Extension: until when the taint stays although all gates are ready, because the node flapped.',
    ),
  conditions: conditions(
    'Extension: Ready signals whether all gates of the node that block its readiness are ready.',
  ),
});
export type NodeReadinessStatus = z.infer<typeof NodeReadinessStatus>;

/** The stored object; `status` is absent until the controller has seen it. */
export interface NodeReadiness extends KubeObject {
  spec: z.infer<typeof NodeReadinessSpec>;
  status?: NodeReadinessStatus;
}

/** Gate -> field manager -> names of fields. */
export type GateOwners = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;

/** As informers keep it. */
export interface SeenReadiness extends NodeReadiness {
  /** Of each gate, by name, the field managers that own a part of it, and which of its fields. */
  gateOwners: GateOwners;
}
