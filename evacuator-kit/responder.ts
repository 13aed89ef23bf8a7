import type { LifecycleEviction } from '../api/lifecycle.ts';
import { isEvicted } from '../domain/evictionRequests/conditions.ts';
import { evacuationView } from '../domain/evictionRequests/evacuationView.ts';
import { assignmentOf } from '../domain/evictionRequests/report.ts';
import { oneLine } from '../domain/common/text.ts';
import { respondersOf } from '../domain/evictionRequests/responders.ts';
import type { FencedKube } from '../kube/client.ts';
import type { EvacuationView } from '../kube/cluster.ts';
import type { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { Calls } from './calls.ts';
import { StopReason } from './progress.ts';
import type { EvacuatePod, Outcome, Protocol } from './protocol.ts';
import { ResponderSession } from './responderSession.ts';

export interface ResponderOptions {
  /** Name in `.spec.evictionResponders` of pods, for example `example.com/migrate`. */
  readonly responderName: string;
  readonly evacuate: EvacuatePod;
  /** Informers that the caller runs and may share. That of Evictions has the index byPodUid. */
  readonly view: Pick<EvacuationView, 'pods' | 'queues'> & {
    readonly kube: FencedKube;
    readonly evictions: Pick<Informer<LifecycleEviction>, 'subscribe' | 'get' | 'byIndex'>;
  };
  readonly log: Log;
  readonly maxConcurrent?: number | undefined;
  readonly onCall?: (() => (outcome: Outcome) => void) | undefined;
}

/** Calls a function for every Eviction of lifecycle.k8s.io whose active responder has this name: the same function as for Evacuations. */
export class Responder {
  readonly #calls: Calls<LifecycleEviction>;

  /** Throws an Error with a one-line message for a name that no pod can have. */
  constructor(options: ResponderOptions) {
    requireResponderName(options.responderName);
    this.#calls = new Calls({ ...options, protocol: evictionProtocol(options) });
  }

  /** Runs until the signal aborts. Resolves when the calls in progress have ended. */
  run(signal: AbortSignal): Promise<void> {
    return this.#calls.run(signal);
  }
}

const maxShownLength = 80;
const namePattern =
  /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Throws an Error with a one-line message for a name that no pod can have. */
export function requireResponderName(name: string): void {
  const shown = oneLine(name, maxShownLength);
  if (!namePattern.test(name))
    throw new Error(
      `responderName "${shown}" has no domain and key: use a name of your own domain, for example example.com/migrate`,
    );
  const [domain = ''] = name.split('/');
  if (/(^|\.)(k8s|kubernetes)\.io$/.test(domain))
    throw new Error(`responderName "${shown}" is reserved for Kubernetes: use a name of your own domain`);
}

function evictionProtocol({ responderName: name, view, log }: ResponderOptions): Protocol<LifecycleEviction> {
  const isActive = (eviction: Readonly<LifecycleEviction>) => assignmentOf(eviction, name) !== undefined;
  return {
    kind: 'eviction',
    name,
    informer: view.evictions,
    targetOf: ({ spec }) => spec.target.pod,
    isActive,
    isCancelled: ({ metadata }) => metadata.deletionTimestamp !== undefined,
    hasResponded: (eviction) => assignmentOf(eviction, name)?.heartbeatTime !== undefined,
    activatedAt: (eviction) => respondersOf(eviction).responders.find((one) => one.name === name)?.startTime,
    stopReason: (current) => {
      if (current === undefined || current.metadata.deletionTimestamp !== undefined)
        return StopReason.Cancelled;
      if (isActive(current)) return undefined;
      // The informer may show its completion before the answer to that write has arrived.
      const own = respondersOf(current).responders.find((one) => one.name === name);
      if (own?.completionTime !== undefined) return undefined;
      if (isEvicted(current)) return StopReason.PodGone;
      const state = respondersOf(current).targetResponders.find((one) => one.name === name)?.state;
      if (state === 'Completed') return undefined;
      return state === 'Interrupted' ? StopReason.DeadlineExceeded : StopReason.Cancelled;
    },
    evacuationOf: (eviction) => evacuationView(eviction, name),
    openSession: (eviction) => new ResponderSession({ kube: view.kube, eviction, responderName: name, log }),
  };
}
