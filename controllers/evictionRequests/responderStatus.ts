import type { LifecycleEviction, ResponderStatus } from '../../api/lifecycle.ts';
import { FIELD_MANAGER } from '../../api/names.ts';
import {
  type Report,
  replacedResponder,
  reportDelayMs,
  withHeartbeat,
} from '../../domain/evictionRequests/report.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';

/** Writes the status of one responder, at the version of the Eviction from which it was decided. */
export async function writeResponder(
  kube: Kube,
  eviction: LifecycleEviction,
  status: ResponderStatus,
): Promise<void> {
  const { namespace, name, uid, resourceVersion } = eviction.metadata;
  const responders = replacedResponder(eviction, status);
  const patch = { metadata: { uid, resourceVersion }, status: { responders } };
  await kube.mergePatch(resources.evictions, { namespace, name }, patch, {
    subresource: 'status',
    fieldManager: FIELD_MANAGER,
  });
}

/** Writes a heartbeat if one is due. Returns how long to wait until it is; undefined if it was written. */
export async function heartbeat(
  kube: Kube,
  { eviction, status, report }: { eviction: LifecycleEviction; status: ResponderStatus; report: Report },
): Promise<number | undefined> {
  const delayMs = reportDelayMs(status, report);
  if (delayMs > 0) return delayMs;
  await writeResponder(kube, eviction, withHeartbeat(status, report));
  return undefined;
}
