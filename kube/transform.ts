import type {
  Condition,
  DaemonSet,
  Job,
  KubeObject,
  Node,
  ObjectMeta,
  Pod,
  PodDisruptionBudget,
  PodTemplate,
  Toleration,
  VolumeAttachment,
} from '../api/core.ts';
import {
  AGENT_SERVICE_ACCOUNT,
  AUTOSCALER_ANNOTATIONS,
  READINESS_CONDITION,
  READINESS_TAINT,
} from '../api/names.ts';
import type { NodeReadiness, ObservedNodeReadiness } from '../api/nodeReadiness.ts';
import { hashed } from '../domain/common/text.ts';
import type { RawDaemonSet, RawPod, RawWorkload } from './resources.ts';

/**
 * Annotations that this project reads: the source of a static pod, whether it may be stopped, the evacuators of a pod, who uncordoned a node, what
 * autoscalers may do.
 */
const keptAnnotations = [
  'kubernetes.io/config.',
  'evacuation.coordination.k8s.io/',
  'nodemaintenance.k8s.io/',
  ...AUTOSCALER_ANNOTATIONS,
];

/** The Node conditions that this project reads. */
const keptConditions = new Set([
  'Ready',
  'MaintenanceInProgress',
  'DrainInProgress',
  'Drained',
  READINESS_CONDITION,
]);

/** Removes the managedFields of server-side apply, often half of an object. Mutates and returns its argument. */
export function withoutManagedFields<T extends KubeObject>(raw: T): T {
  delete (raw.metadata as { managedFields?: unknown }).managedFields;
  return raw;
}

/** The Kubernetes default of terminationGracePeriodSeconds. */
const defaultGracePeriodSeconds = 30;

export function trimPod(raw: RawPod): Pod {
  const { nodeName, priority, terminationGracePeriodSeconds: grace, serviceAccountName } = raw.spec;
  const phase = raw.status?.phase;
  const ready =
    raw.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
  return {
    metadata: trimMetadata(raw.metadata),
    spec: {
      ...present({ nodeName, priority }),
      ...(grace === undefined || grace === defaultGracePeriodSeconds
        ? {}
        : { terminationGracePeriodSeconds: grace }),
      ...trimSchedulingGates(raw),
      ...trimEvictionFields(raw),
      ...trimTolerations(raw.spec.tolerations),
      ...(serviceAccountName === AGENT_SERVICE_ACCOUNT && { serviceAccountName }),
    },
    status: { ...present({ phase }), ready, ...(ready ? present({ containers: containersOf(raw) }) : {}) },
  };
}

/** Identifies the running containers of a pod in eight digits. Without IDs, the times of their starts distinguish them. */
function containersOf({ metadata, status }: RawPod): string | undefined {
  const started = (status?.containerStatuses ?? []).map(
    ({ containerID = '', state }) => `${containerID} ${state?.running?.startedAt ?? ''}`,
  );
  return started.every((one) => one === ' ') ? undefined : hashed([metadata.uid, ...started].join('\n'));
}

/** Keeps what Evictions of lifecycle.k8s.io need, which few pods have. */
function trimEvictionFields({
  spec,
}: RawPod): Pick<Pod['spec'], 'evictionResponders' | 'hasSchedulingGroup'> {
  const { evictionResponders = [], schedulingGroup } = spec;
  return {
    ...(evictionResponders.length > 0 && { evictionResponders }),
    ...(schedulingGroup !== undefined && { hasSchedulingGroup: true as const }),
  };
}

/** Keeps the scheduling gates, which few pods have. */
function trimSchedulingGates({ spec }: RawPod): Pick<Pod['spec'], 'schedulingGates' | 'madeForNode'> {
  const { schedulingGates = [], affinity } = spec;
  if (schedulingGates.length === 0) return {};
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  // The DaemonSet controller writes this affinity.
  const fields = (terms ?? []).flatMap(({ matchFields = [] }) => matchFields);
  const named = fields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In');
  return {
    schedulingGates: schedulingGates.map(({ name }) => name),
    ...present({ madeForNode: named?.values?.[0] }),
  };
}

/** Keeps tolerations of the readiness taint only: pods of DaemonSets have five others that this project does not read. */
function trimTolerations(tolerations: Toleration[] = []): { tolerations?: Toleration[] } {
  const { key, effect } = READINESS_TAINT;
  const kept = tolerations.filter((one) => (one.key || key) === key && (one.effect ?? effect) === effect);
  return kept.length === 0 ? {} : { tolerations: kept };
}

/** Reduces the pod template of a workload. */
export function trimPodTemplate({ spec: { template } }: RawWorkload): PodTemplate {
  const labels = template?.metadata?.labels;
  return { ...present({ labels }), ...trimTolerations(template?.spec?.tolerations) };
}

export function trimDaemonSet(raw: RawDaemonSet): DaemonSet {
  const { updateStrategy } = raw.spec;
  const trimmed = {
    metadata: { ...trimMetadata(raw.metadata), ...present({ generation: raw.metadata.generation }) },
    spec: { ...present({ updateStrategy }), template: trimPodTemplate(raw) },
  };
  if (raw.status === undefined) return trimmed;
  const { observedGeneration, updatedNumberScheduled } = raw.status;
  const { desiredNumberScheduled, currentNumberScheduled } = raw.status;
  return {
    ...trimmed,
    status: {
      ...present({ observedGeneration, updatedNumberScheduled }),
      desiredNumberScheduled,
      currentNumberScheduled,
    },
  };
}

export function trimNode(raw: Node): Node {
  const { unschedulable, taints } = raw.spec ?? {};
  const kept =
    raw.status?.conditions?.filter(({ type }) => keptConditions.has(type)).map(withoutHeartbeat) ?? [];
  const bootID = raw.status?.nodeInfo?.bootID || undefined;
  const status = present({
    conditions: kept.length === 0 ? undefined : kept,
    nodeInfo: bootID === undefined ? undefined : { bootID },
    allocatable: raw.status?.allocatable,
  });
  return {
    metadata: trimMetadata(raw.metadata),
    spec: present({ unschedulable, taints }),
    ...(Object.keys(status).length === 0 ? {} : { status }),
  };
}

function withoutHeartbeat(condition: Condition & { lastHeartbeatTime?: string }): Condition {
  const { lastHeartbeatTime: _, ...rest } = condition;
  return rest;
}

/** Keeps the node and the volume: a volume in the spec of a pod is described in full by its attachment. */
export function trimVolumeAttachment(raw: VolumeAttachment): VolumeAttachment {
  const { nodeName, source } = raw.spec;
  const { persistentVolumeName } = source;
  return {
    metadata: trimMetadata(raw.metadata),
    spec: { nodeName, source: present({ persistentVolumeName }) },
  };
}

/** Keeps only the grace period of the pod template. */
export function trimJob(raw: Job): Job {
  const { startTime, conditions } = raw.status ?? {};
  const { activeDeadlineSeconds, template } = raw.spec;
  const { terminationGracePeriodSeconds } = template.spec ?? {};
  return {
    metadata: trimMetadata(raw.metadata),
    spec: {
      ...present({ activeDeadlineSeconds }),
      template: { spec: present({ terminationGracePeriodSeconds }) },
    },
    status: present({ startTime, conditions }),
  };
}

/** Replaces the managedFields by the owners of the readiness gates that they contain. */
export function trimNodeReadiness(raw: NodeReadiness): ObservedNodeReadiness {
  const { managedFields = [] } = raw.metadata as { managedFields?: ManagedFields[] };
  const gateOwners = new Map<string, Map<string, string[]>>();
  for (const { manager = '', subresource, fieldsV1 } of managedFields) {
    if (subresource !== undefined && subresource !== '') continue;
    for (const [key, fields] of Object.entries(fieldsV1?.['f:spec']?.['f:readinessGates'] ?? {})) {
      if (!key.startsWith('k:')) continue;
      const { name } = JSON.parse(key.slice('k:'.length)) as { name: string };
      const owners = gateOwners.get(name) ?? new Map<string, string[]>();
      // A manager has several entries if it uses several operations.
      gateOwners.set(name, owners.set(manager, [...(owners.get(manager) ?? []), ...namesOf(fields)]));
    }
  }
  return { ...withoutManagedFields(raw), gateOwners };
}

/** The part of a managedFields entry that trimNodeReadiness reads. */
interface ManagedFields {
  manager?: string;
  subresource?: string;
  fieldsV1?: { 'f:spec'?: { 'f:readinessGates'?: Record<string, object> } };
}

function namesOf(fields: object): string[] {
  return Object.keys(fields)
    .filter((key) => key.startsWith('f:'))
    .map((key) => key.slice('f:'.length));
}

export function trimPodDisruptionBudget(raw: PodDisruptionBudget): PodDisruptionBudget {
  const { selector, minAvailable, maxUnavailable, unhealthyPodEvictionPolicy } = raw.spec;
  const trimmed = {
    metadata: { ...trimMetadata(raw.metadata), ...present({ generation: raw.metadata.generation }) },
    spec: present({ selector, minAvailable, maxUnavailable, unhealthyPodEvictionPolicy }),
  };
  if (raw.status === undefined) return trimmed;
  const { observedGeneration, disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = raw.status;
  const { disruptedPods } = raw.status;
  const counts = { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods };
  return { ...trimmed, status: { ...present({ observedGeneration, disruptedPods }), ...counts } };
}

function trimMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, namespace, uid, resourceVersion, labels, deletionTimestamp, creationTimestamp } = metadata;
  const { ownerReferences, finalizers, deletionGracePeriodSeconds } = metadata;
  return {
    name,
    ...present({ namespace, uid, resourceVersion, labels, deletionTimestamp, creationTimestamp }),
    ...present({
      deletionGracePeriodSeconds,
      ownerReferences,
      finalizers,
      annotations: trimAnnotations(metadata.annotations),
    }),
  };
}

function trimAnnotations(annotations: Record<string, string> = {}): Record<string, string> | undefined {
  const kept = Object.entries(annotations).filter(([name]) =>
    keptAnnotations.some((prefix) => name.startsWith(prefix)),
  );
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Removes undefined fields: unlike absent fields, they use memory. */
function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}
