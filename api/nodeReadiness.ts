import * as z from 'zod';
import { conditions } from './conditions.ts';
import type { KubeObject } from './core.ts';
import { MAX_READINESS_GATES } from './names.ts';
import { ATOMIC_LIST, type CelRule, cel, int32, int64, listMap, text, timestamp } from './schema.ts';
import { LabelSelector } from './selectors.ts';

/**
 * Defines NodeReadiness, from which its TypeScript types and its CRD are derived: `NodeSpec.readinessGates` and
 * `NodeStatus.readiness` of the proposal "Node Readiness Gates", in an object with the name of its node. Descriptions quote the
 * proposal; everything else starts with "Extension".
 */

const MAX_GATE_NAME = 128;
const MAX_NAMESPACE = 63;
const MAX_GRACE_SECONDS = 3_600;
/** More than the pods of a node. */
const MAX_CONTAINERS = 512;

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

const isNotEmpty: CelRule = {
  rule: '(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)',
  message:
    'selector: an empty selector would select every pod of the namespace; set the labels of the pods that the node needs or, for a gate that you remove yourself, a label that no pod has',
};

const NodeReadinessGate = z
  .strictObject({
    name: gateName().describe('The name of the readiness gate, mainly required as the patch merge key.'),
    selector: LabelSelector.describe(
      lines(
        'A label query for pods representing this readiness gate.',
        'Generally, labels here should point to a specific pod on a node.',
        'A gate that another controller removes has a reserved selector that matches no pod: it is not ready until its owner removes it.',
        'Extension: an empty selector is rejected.',
      ),
    ).meta(cel(isNotEmpty)),
    namespace: namespaceName().describe(
      lines(
        'The namespace query for the pods representing this readiness gate.',
        'Extension: required, so that pods in other namespaces do not change whether the gate is ready.',
      ),
    ),
    blocksReadiness: z
      .boolean({ error: 'expected true or false' })
      .default(true)
      .describe(
        lines(
          'Indicates if this readiness gate should block the overall readiness of a node. Default: true.',
          'The pods of a gate that does not block are only reported in the status.',
        ),
      ),
    graceSeconds: int32(0, MAX_GRACE_SECONDS)
      .exactOptional()
      .describe(
        lines(
          'Extension: how long the node accepts pods after it lost this gate, or after this gate was added to it, so that an agent can restart. 0: not at all. Default: --readiness-grace of the worker, 30 unless configured.',
          'No grace is given across a reboot, while the node is not Ready, during maintenance, and after the third loss.',
        ),
      ),
  })
  .describe(
    'NodeReadinessGate indicates a set of pods that must be ready on a given node before the node itself is considered ready. Pods listed under NodeReadinessGates should be system critical pods that should block other workloads from running on a node until it is ready.',
  );
export type NodeReadinessGate = z.infer<typeof NodeReadinessGate>;

/** Defines the list of gates of a node or of a policy. */
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
      'They are merged by name under server-side apply, so that each field manager owns its gates and can remove them: NodeReadinessPolicies use the field manager node-readiness-policy/<name>, other components and users use a field manager of their own (kubectl apply --server-side --field-manager=...).',
    ),
  ),
});

/** Hashes of the containers of pods. */
function containers(description: string) {
  return z.array(text(8)).max(MAX_CONTAINERS).exactOptional().describe(description).meta(ATOMIC_LIST);
}

const NodeReadinessGateStatus = z.strictObject({
  name: gateName().describe('The name of the node readiness gate.'),
  definition: text(8).describe(
    'Extension: hash of the namespace, the selector and blocksReadiness that this status was computed from. It distinguishes a redefined gate from a gate that was lost.',
  ),
  ready: z.boolean().describe('Whether a node is ready based on its corresponding readiness gate.'),
  reason: text(64)
    .exactOptional()
    .describe('Extension: machine-readable reason why the gate is not ready: NoPods or PodsNotReady.'),
  message: text(1024)
    .exactOptional()
    .describe('Extension: human-readable message that names the pods that are not ready.'),
  pods: int32(0).describe(
    'Extension: number of pods on the node that the gate selects and that are neither terminating nor finished.',
  ),
  lostTime: timestamp()
    .exactOptional()
    .describe(
      'Extension: when the gate was lost, that is, became not ready after it was ready. For a gate added to a node that accepts pods: when it was added. Absent for a gate without a grace period: it was never ready, or it was lost by a reboot or while the node was not Ready.',
    ),
  lastTransitionTime: timestamp().describe('Extension: when the value of ready changed last.'),
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
  gates: text(16)
    .default('')
    .describe('Extension: how many of the blocking gates are ready, for example 2/3.'),
  blockedBy: text(512).default('').describe('Extension: names of the blocking gates that are not ready.'),
  losses: int32(0)
    .default(0)
    .describe(
      'Extension: how often a ready node lost a blocking gate outside of maintenance. Reset after the node has been ready for ten minutes. From the second loss on, the taint stays for some time after the node is ready; from the third loss on, it is added at once.',
    ),
  lastLossTime: timestamp().exactOptional().describe('Extension: when the last loss occurred.'),
  taintUntil: timestamp()
    .exactOptional()
    .describe(
      'Extension: when the taint is removed although all gates are ready already, because the node flapped.',
    ),
  bootID: text(128)
    .exactOptional()
    .describe(
      'Extension: .status.nodeInfo.bootID of the Node that this status was computed from. With another boot ID the node has been rebooted. Absent for a node without gates.',
    ),
  rebootTime: timestamp()
    .exactOptional()
    .describe(
      'Extension: when the worker saw that the boot ID had changed; the creation of the Node if pods of a previous Node of that name were left.',
    ),
  containers: containers(
    'Extension: hashes that identify the running containers of the Ready pods of all gates. No container survives a reboot: a pod that is Ready with the same containers under another boot ID has not been reported since.',
  ),
  staleContainers: containers(
    'Extension: hashes of containers from before the reboot, or of a previous Node of that name, of pods that the kubelet still has to report. These pods do not count as ready, for at most one minute while the node is Ready.',
  ),
  conditions: conditions('Extension: Ready signals whether all blocking gates of the node are ready.'),
});
export type NodeReadinessStatus = z.infer<typeof NodeReadinessStatus>;

/** The stored object; `status` is absent until the controller has reconciled it. */
export interface NodeReadiness extends KubeObject {
  spec: z.infer<typeof NodeReadinessSpec>;
  status?: NodeReadinessStatus;
}

/** Gate -> field manager -> names of the fields that it owns. Maps, because users choose the names of both. */
export type GateOwners = ReadonlyMap<string, ReadonlyMap<string, readonly string[]>>;

/** A NodeReadiness as informers cache it. */
export interface ObservedNodeReadiness extends NodeReadiness {
  gateOwners: GateOwners;
}
