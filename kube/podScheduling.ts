import type { Pod, PodScheduling, ResourceQuantities } from '../api/core.ts';
import type { Kube } from './client.ts';
import { type RawContainer, type RawPod, resources } from './resources.ts';
import { trimPod } from './transform.ts';

/**
 * Returns a transform that keeps what the scheduler requires of a node for each pod. The pods of a workload have the same requirements, and
 * share one object as long as one of them has it: a large cluster has many pods and few workloads.
 */
export function trimWithScheduling(): (raw: RawPod) => Pod {
  const shared = sharedObjects<PodScheduling>();
  return (raw) => {
    const trimmed = trimPod(raw);
    const claims = claimsOf(raw);
    const scheduling = shared(schedulingOf(raw));
    return { ...trimmed, spec: { ...trimmed.spec, scheduling, ...(claims.length > 0 && { claims }) } };
  };
}

/** Returns a function that returns the first of all equal objects that are still in use. It keeps none of them in memory. */
function sharedObjects<T extends object>(): (object: T) => T {
  const byText = new Map<string, WeakRef<T>>();
  const collected = new FinalizationRegistry<string>((text) => {
    // An equal object may have taken its place.
    if (byText.get(text)?.deref() === undefined) byText.delete(text);
  });
  return (object) => {
    const text = JSON.stringify(object);
    const known = byText.get(text)?.deref();
    if (known !== undefined) return known;
    byText.set(text, new WeakRef(object));
    collected.register(object, text);
    return object;
  };
}

/**
 * Lists all pods with what the scheduler requires for each. Resolves with undefined if there are more than `maxPods`, or if the signal aborts
 * first.
 */
export async function listPodsWithScheduling(
  kube: Kube,
  { maxPods, signal }: { maxPods: number; signal: AbortSignal },
): Promise<Pod[] | undefined> {
  const transform = trimWithScheduling();
  const pods: Pod[] = [];
  const tooMany = new AbortController();
  const either = AbortSignal.any([signal, tooMany.signal]);
  try {
    await kube.forEachPage(resources.pods, { signal: either }, (page) => {
      for (const raw of page) pods.push(transform(raw));
      if (pods.length > maxPods) tooMany.abort();
    });
  } catch (error) {
    if (either.aborted) return undefined;
    throw error;
  }
  return tooMany.signal.aborted ? undefined : pods;
}

const defaultScheduler = 'default-scheduler';
const everyAddress = '0.0.0.0';

/**
 * Anyone who may create pods writes these rules, without a limit of the apiserver, and a drain compares each with all pods of the cluster. Workloads
 * have a few.
 */
const maxTerms = 16;
const maxRulesLength = 16_384;

function schedulingOf(pod: RawPod): PodScheduling {
  const rules = rulesOf(pod);
  const { podAffinity = [], podAntiAffinity = [], topologySpread = [] } = rules;
  const terms = podAffinity.length + podAntiAffinity.length + topologySpread.length;
  const isTooMuch = terms > maxTerms || JSON.stringify(rules).length > maxRulesLength;
  return { ...requestsIn(pod), ...(isTooMuch ? { hasTooManyRules: true } : rules) };
}

/** Returns what the pod uses on any node, and its scheduler. */
function requestsIn({ spec }: RawPod): PodScheduling {
  const { schedulerName = defaultScheduler, containers = [], initContainers = [] } = spec;
  return withoutEmpty({
    schedulerName: schedulerName === defaultScheduler ? undefined : schedulerName,
    containers: containers.map(requestsOf).filter((requests) => Object.keys(requests).length > 0),
    initContainers: initContainers.map((one) => ({ requests: requestsOf(one), isSidecar: isSidecar(one) })),
    podRequests: spec.resources?.requests,
    overhead: spec.overhead,
  });
}

/** Returns the rules about the node. */
function rulesOf({ spec }: RawPod): PodScheduling {
  const { containers = [], initContainers = [], affinity = {}, topologySpreadConstraints = [] } = spec;
  const { nodeAffinity, podAffinity, podAntiAffinity } = affinity;
  return withoutEmpty({
    hostPorts: [...containers, ...initContainers.filter(isSidecar)].flatMap(hostPortsOf),
    nodeSelector: spec.nodeSelector,
    nodeAffinity: nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution,
    podAffinity: podAffinity?.requiredDuringSchedulingIgnoredDuringExecution,
    podAntiAffinity: podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution,
    tolerations: spec.tolerations,
    topologySpread: topologySpreadConstraints.filter((one) => one.whenUnsatisfiable === 'DoNotSchedule'),
  });
}

/** "Containers with restartPolicy Always are started before all init containers that follow, and run until the pod terminates." */
function isSidecar({ restartPolicy }: RawContainer): boolean {
  return restartPolicy === 'Always';
}

function requestsOf(container: RawContainer): ResourceQuantities {
  return container.resources?.requests ?? {};
}

function hostPortsOf({ ports = [] }: RawContainer): Required<PodScheduling>['hostPorts'] {
  return ports.flatMap(({ hostPort = 0, protocol = 'TCP', hostIP }) =>
    hostPort === 0 ? [] : [{ port: hostPort, protocol, ip: hostIP || everyAddress }],
  );
}

/** The claim of an ephemeral volume belongs to the pod: the replacement gets another one, and a volume anywhere. */
function claimsOf({ spec }: RawPod): string[] {
  return (spec.volumes ?? []).flatMap(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName ?? []);
}

/** Removes undefined fields and empty lists and objects. */
function withoutEmpty(fields: { [K in keyof PodScheduling]: PodScheduling[K] | undefined }): PodScheduling {
  const kept = Object.entries(fields).filter(
    ([, value]) => value !== undefined && (typeof value !== 'object' || Object.keys(value).length > 0),
  );
  return Object.fromEntries(kept) as PodScheduling;
}
