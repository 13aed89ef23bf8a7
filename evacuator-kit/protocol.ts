import type { KubeObject } from '../api/core.ts';
import type { Evacuation } from '../api/evacuation.ts';
import type { Informer } from '../kube/informer.ts';
import type { RawPod } from '../kube/resources.ts';
import type { Progress, StopReason } from './progress.ts';

/** A pod with all its fields, as just read from the apiserver. The type lists the fields that this project reads. */
export type EvacuatedPod = RawPod & { readonly spec: Readonly<Record<string, unknown>> };

/** Moves or terminates one pod: the contract is that of `Evacuate`. */
export type EvacuatePod = (
  pod: EvacuatedPod,
  evacuation: Readonly<Evacuation>,
  progress: Progress,
) => Promise<string | void>;

/** How a call ended. Stopped: its signal aborted. */
export type Outcome = 'Completed' | 'Failed' | 'Stopped';

/** One call of the function for one request. Nothing is written after it has ended or was stopped. */
export interface Session extends Progress {
  readonly uid: string;
  readonly namespace: string;
  readonly podRef: { readonly name: string; readonly uid: string };
  readonly forbidsCancellation: boolean;
  /** Responds on behalf of a function that reports nothing soon. */
  respond(): void;
  stop(reason: StopReason): void;
  /** Resolves with since when the request was ours; undefined when it is not any more. Rejects with a KubeError when the apiserver rejects the write. */
  complete(message?: string): Promise<{ activatedAt: string | undefined } | undefined>;
  fail(message: string): Promise<unknown>;
  /** Ignores all further reports. */
  end(): void;
}

/** An API by which the evacuation of a pod is requested: Evacuations, or Evictions of lifecycle.k8s.io. */
export interface Protocol<Request extends KubeObject> {
  /** Names the kind in log lines. */
  readonly kind: 'evacuation' | 'eviction';
  /** The name under which the function serves requests. */
  readonly name: string;
  /** Has the index byPodUid. */
  readonly informer: Pick<Informer<Request>, 'subscribe' | 'get' | 'byIndex'>;
  targetOf(request: Readonly<Request>): { readonly name: string; readonly uid: string };
  /** Reports whether the request is ours to serve, and not completed. */
  isActive(request: Readonly<Request>): boolean;
  isCancelled(request: Readonly<Request>): boolean;
  hasResponded(request: Readonly<Request>): boolean;
  /** Returns since when the request is ours. */
  activatedAt(request: Readonly<Request>): string | undefined;
  /** Returns why a call must end whose request is this now; undefined if it may continue. */
  stopReason(request: Readonly<Request> | undefined, session: Session): StopReason | undefined;
  /** Returns what the function gets. */
  evacuationOf(request: Readonly<Request>): Readonly<Evacuation>;
  openSession(request: Readonly<Request>): Session;
}
