import type { EvictionRequest } from '../../api/lifecycle.ts';
import { MAINTENANCE_REQUESTER } from '../../api/names.ts';
import type { Kube } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';

/** Observations of a watch of the EvictionRequests of node maintenance, across all restarts of workers. */
export interface RequestRecord {
  /** Pod UID -> UIDs of the EvictionRequests created for it. */
  created: Map<string, Set<string>>;
  /** Returns the EvictionRequests that exist. */
  current(): readonly Readonly<EvictionRequest>[];
}

/** Watches until the signal aborts. */
export async function recordRequests(kube: Kube, signal: AbortSignal): Promise<RequestRecord> {
  const informer = new Informer<EvictionRequest>({
    kube,
    resource: resources.evictionRequests,
    mayBeUnserved: true,
    log: silentLog,
  });
  const created = new Map<string, Set<string>>();
  informer.subscribe(({ type, object }) => {
    if (type === 'Deleted' || object.spec.requester !== MAINTENANCE_REQUESTER) return;
    const { uid } = object.spec.target.pod;
    created.set(uid, (created.get(uid) ?? new Set()).add(object.metadata.uid ?? ''));
  });
  informer.start(signal);
  await informer.synced(signal);
  return { created, current: () => informer.list() };
}
