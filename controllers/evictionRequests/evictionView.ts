import type { Pod } from '../../api/core.ts';
import type { EvictionRequest, LifecycleEviction } from '../../api/lifecycle.ts';
import type { Managed } from '../../domain/common/managedFields.ts';
import {
  evictionControllers,
  imperativeResponders,
  type ObservedEviction,
} from '../../domain/evictionRequests/otherControllers.ts';
import { byPodUid } from '../../kube/cluster.ts';
import { sleep } from '../../kube/abort.ts';
import type { Kube } from '../../kube/client.ts';
import { errorMessage } from '../../kube/errors.ts';
import { Informer } from '../../kube/informer.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { withoutManagedFields } from '../../kube/transform.ts';

/** The informers of lifecycle.k8s.io. */
export interface EvictionView {
  readonly requests: Informer<EvictionRequest>;
  readonly evictions: Informer<ObservedEviction, LifecycleEviction>;
}

/** Index of both informers: `<namespace>/<name of the pod>/<its UID>`. */
export const byTarget = 'target';

/** Interval of the question whether the apiserver serves the API. */
const servedIntervalMs = 30_000;

/** Returns the key of the pod that is to be evicted. */
export function targetKey({ metadata, spec }: EvictionRequest | LifecycleEviction): string {
  const { name, uid } = spec.target.pod;
  return `${metadata.namespace}/${name}/${uid}`;
}

/** Returns the key under which the objects about this pod are found. */
export function podKey({ metadata: { namespace, name, uid } }: Pod): string {
  return `${namespace}/${name}/${uid}`;
}

/** Creates the informers. They show nothing before they are started. */
export function evictionViewOf({ kube, log }: { kube: Kube; log: Log }): EvictionView {
  const indexes = {
    [byTarget]: (object: EvictionRequest | LifecycleEviction) => [targetKey(object)],
    [byPodUid]: ({ spec }: EvictionRequest | LifecycleEviction) => [spec.target.pod.uid],
  };
  return {
    requests: new Informer<EvictionRequest>({
      kube,
      resource: resources.evictionRequests,
      indexes,
      log,
    }),
    evictions: new Informer<ObservedEviction, LifecycleEviction>({
      kube,
      resource: resources.evictions,
      transform: (raw) => ({
        ...raw,
        controllers: evictionControllers(managed(raw)),
        imperativeResponders: imperativeResponders(managed(raw)),
        ...trimmed(raw),
      }),
      indexes,
      log,
    }),
  };
}

interface WaitOptions {
  readonly kube: Kube;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Waits until the apiserver serves both kinds, and resolves when these informers have synced. Rejects when the signal aborts. */
export async function startWhenServed(
  informers: readonly Pick<EvictionView['requests'], 'start' | 'synced'>[],
  options: WaitOptions,
): Promise<void> {
  const { signal } = options;
  await untilServed(options);
  for (const informer of informers) informer.start(signal);
  await Promise.all(informers.map((informer) => informer.synced(signal)));
}

/** The objects of the apiserver have managedFields, which the types of api/ leave out. */
function managed(raw: LifecycleEviction): Managed {
  return { metadata: raw.metadata as Managed['metadata'] };
}

/** Must come after what reads the managedFields, because it removes them. */
function trimmed({ metadata }: LifecycleEviction) {
  return { metadata: withoutManagedFields({ metadata }).metadata };
}

async function untilServed({ kube, log, signal }: WaitOptions): Promise<void> {
  for (let reported: string | undefined; ; ) {
    const problem = await servedProblem(kube, signal);
    if (problem === undefined) return;
    if (problem !== reported) log.warn('EvictionRequests are not served, waiting', { reason: problem });
    reported = problem;
    await sleep(servedIntervalMs, signal);
    signal.throwIfAborted();
  }
}

async function servedProblem(kube: Kube, signal: AbortSignal): Promise<string | undefined> {
  try {
    const kinds = [resources.evictionRequests, resources.evictions];
    const served = await Promise.all(kinds.map((resource) => kube.serves(resource, { signal })));
    if (served.every(Boolean)) return undefined;
    return 'the apiserver does not serve lifecycle.k8s.io/v1alpha1: Kubernetes 1.37 needs --feature-gates=EvictionRequestAPI=true and --runtime-config=lifecycle.k8s.io/v1alpha1=true';
  } catch (error) {
    signal.throwIfAborted();
    return errorMessage(error);
  }
}
