import type { Evacuation } from '../api/evacuation.ts';
import { isWithdrawn } from '../domain/evacuation/evacuation.ts';
import { hasResponded } from '../domain/evacuation/evacuatorSelection.ts';
import type { FencedKube } from '../kube/client.ts';
import type { EvacuationView } from '../kube/cluster.ts';
import type { Log } from '../kube/log.ts';
import { Calls } from './calls.ts';
import { requireClass } from './evacuatorClass.ts';
import { StopReason } from './progress.ts';
import type { EvacuatePod, Outcome, Protocol } from './protocol.ts';
import { EvacuationSession } from './session.ts';

export interface EvacuatorOptions {
  /** Class of the evacuator, for example `deployment.apps.k8s.io`: a DNS subdomain of at most 54 characters. */
  readonly evacuatorClass: string;
  readonly evacuate: EvacuatePod;
  /** Informers that the caller runs and may share. */
  readonly view: Pick<EvacuationView, 'pods' | 'evacuations' | 'queues'> & { readonly kube: FencedKube };
  readonly log: Log;
  /** Maximum number of pods that are evacuated in parallel. Others wait while their deadlines run. Default: 1000. */
  readonly maxConcurrent?: number | undefined;
  /** Called when a call starts. Returns what to call when it has ended. */
  readonly onCall?: (() => (outcome: Outcome) => void) | undefined;
}

/** Calls a function for every Evacuation whose active evacuator has this class. */
export class Evacuator {
  readonly #calls: Calls<Evacuation>;

  /** Throws an Error with a one-line message for a class that cannot be part of an annotation name. */
  constructor(options: EvacuatorOptions) {
    requireClass(options.evacuatorClass);
    this.#calls = new Calls({ ...options, protocol: evacuationProtocol(options) });
  }

  /** Runs until the signal aborts. Resolves when the calls in progress have ended. */
  run(signal: AbortSignal): Promise<void> {
    return this.#calls.run(signal);
  }
}

function evacuationProtocol({ evacuatorClass, view, log }: EvacuatorOptions): Protocol<Evacuation> {
  const isActive = ({ status }: Readonly<Evacuation>) =>
    status?.activeEvacuatorClass === evacuatorClass && !status.activeEvacuatorCompleted;
  return {
    kind: 'evacuation',
    name: evacuatorClass,
    informer: view.evacuations,
    targetOf: ({ spec }) => spec.podRef,
    isActive,
    isCancelled: isWithdrawn,
    hasResponded,
    activatedAt: ({ status }) => status?.activeEvacuatorSince,
    stopReason: (current, { forbidsCancellation }) => {
      const isDeleted = current === undefined || current.metadata.deletionTimestamp !== undefined;
      if (isDeleted && !forbidsCancellation) return StopReason.Cancelled;
      return current === undefined || isActive(current) ? undefined : StopReason.DeadlineExceeded;
    },
    evacuationOf: (evacuation) => evacuation,
    openSession: (evacuation) => new EvacuationSession({ kube: view.kube, evacuation, evacuatorClass, log }),
  };
}
