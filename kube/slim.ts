import type {
  DaemonSet,
  Job,
  KubeObject,
  Node,
  ObjectMeta,
  Pod,
  PodDisruptionBudget,
  PodTemplate,
  Toleration,
} from '../api/core.ts';
import { READINESS_CONDITION, READINESS_TAINT } from '../api/names.ts';
import type { NodeReadiness, SeenReadiness } from '../api/nodeReadiness.ts';
import type { RawDaemonSet, RawPod, RawWorkload } from './resources.ts';

/** Annotations that are read: where a static pod comes from, who wants to evacuate a pod, who uncordoned a node. */
const keptAnnotations = [
  'kubernetes.io/config.',
  'evacuation.coordination.k8s.io/',
  'nodemaintenance.k8s.io/',
];

/** Of a Node's conditions these are ours; the heartbeats of the others are of no interest. */
const keptConditions = new Set(['MaintenanceInProgress', 'DrainInProgress', 'Drained', READINESS_CONDITION]);

/** The object without the bookkeeping of server-side apply, which is often half of it. Changes its argument. */
export function withoutManagedFields<T extends KubeObject>(raw: T): T {
  delete (raw.metadata as { managedFields?: unknown }).managedFields;
  return raw;
}

/** What Kubernetes gives a pod that does not say. Seconds. */
const defaultGracePeriod = 30;

export function slimPod(raw: RawPod): Pod {
  const { nodeName, priority, terminationGracePeriodSeconds: grace } = raw.spec;
  const phase = raw.status?.phase;
  const ready =
    raw.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true;
  return {
    metadata: slimMetadata(raw.metadata),
    spec: {
      ...present({ nodeName, priority }),
      ...(grace === undefined || grace === defaultGracePeriod
        ? {}
        : { terminationGracePeriodSeconds: grace }),
      ...slimGates(raw),
      ...slimTolerations(raw.spec.tolerations),
    },
    status: { ...present({ phase }), ready },
  };
}

/** Few pods have gates, and only while they wait. */
function slimGates({ spec }: RawPod): Pick<Pod['spec'], 'schedulingGates' | 'madeForNode'> {
  const { schedulingGates = [], affinity } = spec;
  if (schedulingGates.length === 0) return {};
  const terms = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  // As the DaemonSet controller writes it.
  const fields = (terms ?? []).flatMap(({ matchFields = [] }) => matchFields);
  const named = fields.find(({ key, operator }) => key === 'metadata.name' && operator === 'In');
  return {
    schedulingGates: schedulingGates.map(({ name }) => name),
    ...present({ madeForNode: named?.values?.[0] }),
  };
}

/** Of the readiness taint alone; pods of DaemonSets have five others, of taints that nobody here asks about. */
function slimTolerations(tolerations: Toleration[] = []): { tolerations?: Toleration[] } {
  const { key, effect } = READINESS_TAINT;
  const kept = tolerations.filter((one) => (one.key || key) === key && (one.effect ?? effect) === effect);
  return kept.length === 0 ? {} : { tolerations: kept };
}

/** What a workload's controller makes pods from. */
export function slimTemplate({ spec: { template } }: RawWorkload): PodTemplate {
  const labels = template?.metadata?.labels;
  return { ...present({ labels }), ...slimTolerations(template?.spec?.tolerations) };
}

export function slimDaemonSet(raw: RawDaemonSet): DaemonSet {
  const { updateStrategy } = raw.spec;
  const slim = {
    metadata: { ...slimMetadata(raw.metadata), ...present({ generation: raw.metadata.generation }) },
    spec: { ...present({ updateStrategy }), template: slimTemplate(raw) },
  };
  if (raw.status === undefined) return slim;
  const { observedGeneration, updatedNumberScheduled } = raw.status;
  const { desiredNumberScheduled, currentNumberScheduled } = raw.status;
  return {
    ...slim,
    status: {
      ...present({ observedGeneration, updatedNumberScheduled }),
      desiredNumberScheduled,
      currentNumberScheduled,
    },
  };
}

export function slimNode(raw: Node): Node {
  const { unschedulable, taints } = raw.spec ?? {};
  const conditions = raw.status?.conditions?.filter(({ type }) => keptConditions.has(type));
  return {
    metadata: slimMetadata(raw.metadata),
    spec: present({ unschedulable, taints }),
    ...(conditions === undefined || conditions.length === 0 ? {} : { status: { conditions } }),
  };
}

/** Of its pod's template only how long the pod may take to end. */
export function slimJob(raw: Job): Job {
  const { startTime, conditions } = raw.status ?? {};
  const { activeDeadlineSeconds, template } = raw.spec;
  const { terminationGracePeriodSeconds } = template.spec ?? {};
  return {
    metadata: slimMetadata(raw.metadata),
    spec: {
      ...present({ activeDeadlineSeconds }),
      template: { spec: present({ terminationGracePeriodSeconds }) },
    },
    status: present({ startTime, conditions }),
  };
}

/** The object without its managedFields, but with what they tell of its gates. */
export function slimReadiness(raw: NodeReadiness): SeenReadiness {
  const { managedFields = [] } = raw.metadata as { managedFields?: ManagedFields[] };
  const gateOwners: Record<string, Record<string, string[]>> = {};
  for (const { manager = '', subresource, fieldsV1 } of managedFields) {
    if (subresource !== undefined && subresource !== '') continue;
    for (const [key, fields] of Object.entries(fieldsV1?.['f:spec']?.['f:readinessGates'] ?? {})) {
      if (!key.startsWith('k:')) continue;
      const { name } = JSON.parse(key.slice('k:'.length)) as { name: string };
      // One manager has several entries if it writes in several ways.
      ((gateOwners[name] ??= {})[manager] ??= []).push(...namesOf(fields));
    }
  }
  return { ...withoutManagedFields(raw), gateOwners };
}

/** As much of a managedFields entry as slimReadiness reads. */
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

export function slimBudget(raw: PodDisruptionBudget): PodDisruptionBudget {
  const { selector, minAvailable, maxUnavailable, unhealthyPodEvictionPolicy } = raw.spec;
  const slim = {
    metadata: { ...slimMetadata(raw.metadata), ...present({ generation: raw.metadata.generation }) },
    spec: present({ selector, minAvailable, maxUnavailable, unhealthyPodEvictionPolicy }),
  };
  if (raw.status === undefined) return slim;
  const { observedGeneration, disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods } = raw.status;
  const { disruptedPods } = raw.status;
  const counts = { disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods };
  return { ...slim, status: { ...present({ observedGeneration, disruptedPods }), ...counts } };
}

function slimMetadata(metadata: ObjectMeta): ObjectMeta {
  const { name, namespace, uid, resourceVersion, labels, deletionTimestamp, creationTimestamp } = metadata;
  const { ownerReferences, finalizers, deletionGracePeriodSeconds } = metadata;
  return {
    name,
    ...present({ namespace, uid, resourceVersion, labels, deletionTimestamp, creationTimestamp }),
    ...present({
      deletionGracePeriodSeconds,
      ownerReferences,
      finalizers,
      annotations: slimAnnotations(metadata.annotations),
    }),
  };
}

function slimAnnotations(annotations: Record<string, string> = {}): Record<string, string> | undefined {
  const kept = Object.entries(annotations).filter(([name]) =>
    keptAnnotations.some((prefix) => name.startsWith(prefix)),
  );
  return kept.length === 0 ? undefined : Object.fromEntries(kept);
}

type Present<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

/** Only the fields that have a value: an absent field costs no memory, an undefined one does. */
function present<T extends object>(fields: T): Present<T> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Present<T>;
}
