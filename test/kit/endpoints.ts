import type { EndpointSlice } from '../../api/core.ts';
import type { Kube } from '../../kube/client.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';

/** The endpoints of a Service over time. */
export interface EndpointWatch {
  /** Returns the names of the pods that serve now, sorted. */
  ready(): string[];
  /** Their number at every change since the first one. */
  readonly counts: readonly number[];
  close(): void;
}

/** Watches the EndpointSlices of a Service until it is closed. */
export async function watchEndpoints(kube: Kube, namespace: string, service: string): Promise<EndpointWatch> {
  const stop = new AbortController();
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  const slices = new Informer<EndpointSlice>({
    kube,
    resource: resources.endpointSlices,
    namespace,
    labelSelector: `kubernetes.io/service-name=${service}`,
    log,
  });
  const counts: number[] = [];
  const ready = () => slices.list().flatMap(readyOf).toSorted();
  slices.subscribe(() => {
    const { length } = ready();
    if (length > 0 || counts.length > 0) counts.push(length);
  });
  slices.start(stop.signal);
  await slices.synced(stop.signal);
  return { ready, counts, close: () => stop.abort() };
}

function readyOf({ endpoints }: EndpointSlice): string[] {
  return (endpoints ?? [])
    .filter(({ conditions }) => conditions?.ready !== false)
    .map(({ targetRef }) => (targetRef as { name?: string } | undefined)?.name ?? '');
}
