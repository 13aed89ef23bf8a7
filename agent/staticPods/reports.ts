import type { Evacuation, EvacuationStatus } from '../../api/evacuation.ts';
import { AGENT_COMPONENT } from '../../api/names.ts';
import type { Report } from '../../domain/staticPods/decide.ts';
import { type Manifest, mirrorPodName, podKey } from '../../domain/staticPods/manifest.ts';
import { errorMessage, ignoreConflict } from '../../kube/errors.ts';
import { resources } from '../../kube/resources.ts';
import type { AgentDeps } from '../deps.ts';
import { hasProcesses, type ProcessFinder } from './processes.ts';

const progressEveryMs = 10_000;

/** Between two containers of a pod, none may run for a moment. */
const missingBeforeEnd = 2;

/** Reports on Evacuations what becomes of static pods. */
export class Reports {
  readonly #deps: AgentDeps;
  readonly #finder: ProcessFinder;
  readonly #logged = new Map<string, string>();
  /** Key of a pod whose processes were seen -> how often in a row they were missing since. */
  readonly #missing = new Map<string, number>();
  /** Key of a pod -> its UIDs in the kubelet. */
  readonly #uids = new Map<string, Set<string>>();

  constructor(deps: AgentDeps, finder: ProcessFinder) {
    this.#deps = deps;
    this.#finder = finder;
  }

  /** Notes that the pod runs: only the end of processes that were seen is reported. */
  async observe(manifest: Manifest): Promise<void> {
    const { namespace } = manifest;
    const key = podKey(manifest);
    const name = mirrorPodName(manifest, this.#deps.node);
    const uids = this.#uids.get(key) ?? new Set();
    this.#uids.set(key, uids);
    const isRunning = await hasProcesses(this.#finder, { namespace, name }, uids);
    if (isRunning === true) this.#missing.set(key, 0);
    else if (isRunning === false && this.#missing.has(key))
      this.#missing.set(key, (this.#missing.get(key) ?? 0) + 1);
  }

  /** Writes what has changed. An Evacuation that cannot be written is logged, and written next time. */
  async write(reports: readonly Report[], signal: AbortSignal): Promise<void> {
    for (const report of reports) {
      try {
        if (report.kind === 'Terminating') await this.#reportProgress(report, signal);
        else await this.#reportLeft(report, signal);
      } catch (error) {
        if (signal.aborted) return;
        this.#logOnce(report.evacuation, errorMessage(error));
      }
    }
  }

  /** Reports the fields of the example in the KEP (KEP-4212 > kubelet: Static Pods). */
  async #reportProgress(
    { evacuation, manifest, message }: Extract<Report, { kind: 'Terminating' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { status } = evacuation;
    const now = this.#deps.kube.now();
    const reportedAt = Date.parse(status?.evacuationProgressTimestamp ?? '');
    const isNew = status?.message !== message || status.expectedEvacuationFinishTime === undefined;
    if (!isNew && now.getTime() - reportedAt < progressEveryMs) return;
    await this.observe(manifest);
    const finish = new Date(now.getTime() + manifest.gracePeriodSeconds * 1_000).toISOString();
    const isPast = Date.parse(status?.expectedEvacuationFinishTime ?? '') <= now.getTime();
    await this.#patch(
      evacuation,
      {
        activeEvacuatorCompleted: this.#hasEnded(manifest),
        evacuationProgressTimestamp: now.toISOString(),
        expectedEvacuationFinishTime: isNew || isPast ? finish : status.expectedEvacuationFinishTime,
        message,
      },
      signal,
    );
  }

  #hasEnded(manifest: Manifest): boolean {
    return (this.#missing.get(podKey(manifest)) ?? 0) >= missingBeforeEnd;
  }

  /** "We should not encourage this flow": says why, and reports no progress. */
  async #reportLeft(
    { evacuation, message, pod, reason }: Extract<Report, { kind: 'Left' }>,
    signal: AbortSignal,
  ): Promise<void> {
    if (evacuation.status?.message === message) return;
    this.#deps.log.info('Static pod keeps running', { node: this.#deps.node, pod, because: reason });
    await this.#patch(evacuation, { message }, signal);
  }

  /** Patches the version that was read: an evacuator that is no longer active must not overwrite its successor. */
  async #patch(
    { metadata }: Evacuation,
    status: Partial<EvacuationStatus>,
    signal: AbortSignal,
  ): Promise<void> {
    const { name, namespace = '', uid, resourceVersion } = metadata;
    const patch = { metadata: { uid, resourceVersion }, status };
    const options = { subresource: 'status', fieldManager: AGENT_COMPONENT, signal };
    await this.#deps.kube
      .mergePatch(resources.evacuations, { namespace, name }, patch, options)
      .catch(ignoreConflict);
  }

  #logOnce({ metadata }: Evacuation, reason: string): void {
    const key = `${metadata.namespace}/${metadata.name}`;
    if (this.#logged.get(key) !== reason)
      this.#deps.log.warn('Progress could not be reported', { evacuation: key, reason });
    this.#logged.set(key, reason);
  }
}
