import type { Client } from '@temporalio/client';
import type { ClusterScope } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { ConditionFacts } from '../../domain/common/conditions.ts';
import {
  type CheckTiming,
  checkTiming,
  dueChecks,
  failingRuns,
  healthOf,
  isStalled,
  notStalled,
  type ObservedRun,
  resolvedStalled,
  waitingRun,
} from '../../domain/common/stalledRun.ts';
import { isFinished, isObserved } from '../../domain/maintenance/runNeed.ts';
import { publishCondition } from './conditions.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
import { currentInstant, elapsedMs, type Instant } from '../../kube/monotonicTime.ts';
import { LostStarts } from '../lostStarts.ts';
import { repeat } from '../repeat.ts';
import { type TemporalAvailability, untilAvailable } from '../temporalAvailability.ts';
import { findRun, handleFailingRun, latestProblem } from '../runInspection.ts';

export interface StalledRunsDeps {
  cluster: FencedCluster;
  temporal: Client;
  availability: TemporalAvailability;
  scope: ClusterScope;
  events: EventRecorder;
  log: Log;
  /** A run whose workflow task fails for so long is replaced; 0: never. */
  stalledRunTimeoutSeconds: number;
  /** How often runs are checked; as often as the timeout needs unless given. */
  timing?: CheckTiming;
  /** An activity that has started and sends no heartbeat for so long is lost; 10 s unless given. */
  lostAfterMs?: number;
}

const concurrentChecks = 4;
/** A change starts activities, which may get lost. */
const changedForMs = 30_000;

/**
 * Reports maintenances whose workflow makes no progress, and replaces runs that cannot continue. Temporal does not list the runs whose
 * tasks fail, so they are checked one after the other, a few a second (ADR 40).
 */
export class StalledRuns {
  readonly #deps: StalledRunsDeps;
  /** Object name -> when its run was checked last, or when it was first seen, as `performance.now()`. */
  readonly #checked = new Map<string, number>();
  /** Object name -> its generation, and when this process has seen it change. */
  readonly #changed = new Map<string, { version: string; at: Instant | undefined }>();
  /** Object name -> why its run waits, and since when this process has seen that. */
  readonly #waiting = new Map<string, { reason: string; at: Instant }>();
  #hasPassed = false;
  readonly #timing: CheckTiming;
  readonly #lostStarts: LostStarts;

  constructor(deps: StalledRunsDeps) {
    this.#deps = deps;
    this.#lostStarts = new LostStarts(deps);
    this.#timing = deps.timing ?? checkTiming(deps.stalledRunTimeoutSeconds);
  }

  /** Checks the runs, until the signal. Calls back with each maintenance that has no open run. */
  async watch(onMissing: (name: string) => void, signal: AbortSignal): Promise<void> {
    const { temporal, availability, log } = this.#deps;
    const pass = async () => {
      await untilAvailable(availability, signal);
      if (signal.aborted) return;
      // A failure ends the pass: a server that is down answers no other check either.
      const check = () =>
        forEachBounded(concurrentChecks, this.#due(), (name) => this.#check(name, onMissing));
      await temporal.withAbortSignal(signal, check);
    };
    const everyMs = this.#timing.suspectEveryMs;
    await repeat(pass, { everyMs, failure: 'Runs could not be checked', log, signal });
  }

  /** Reports a maintenance whose runs fail soon after each start. */
  async reportFailing(maintenance: NodeMaintenance, runId: string): Promise<void> {
    const { temporal, scope } = this.#deps;
    const workflowId = scope.names.maintenanceId(maintenance.metadata.name);
    const problem = await latestProblem(temporal, { workflowId, runId });
    await this.#report(maintenance, failingRuns(workflowId, problem, 'complete the maintenance to end it'));
  }

  #due(): string[] {
    const all = this.#deps.cluster.maintenances.list();
    const relevant = all.filter((one) => !isFinished(one) || isStalled(one.status?.conditions));
    const runs = relevant.map((one) => ({ name: one.metadata.name, isSuspect: this.#isSuspect(one) }));
    this.#hasPassed = true;
    const names = new Set(runs.map(({ name }) => name));
    const nowMs = performance.now();
    for (const name of this.#checked.keys()) if (!names.has(name)) this.#forget(name);
    for (const name of names) if (!this.#checked.has(name)) this.#checked.set(name, nowMs);
    return dueChecks(runs, this.#checked, this.#timing, nowMs);
  }

  #forget(name: string): void {
    this.#checked.delete(name);
    this.#changed.delete(name);
    this.#waiting.delete(name);
    this.#lostStarts.forget(this.#deps.scope.names.maintenanceId(name));
  }

  /** A maintenance that has stalled, that was changed a moment ago, or whose run may have lost an activity. */
  #isSuspect(maintenance: Readonly<NodeMaintenance>): boolean {
    const { name, uid, generation } = maintenance.metadata;
    const version = `${uid}/${generation}`;
    const known = this.#changed.get(name);
    // What the first pass finds may have been like this for days.
    const at = this.#hasPassed ? currentInstant() : undefined;
    const changed = known?.version === version ? known : { version, at };
    this.#changed.set(name, changed);
    return (
      isStalled(maintenance.status?.conditions) ||
      !isObserved(maintenance) ||
      this.#waiting.has(name) ||
      (changed.at !== undefined && elapsedMs(changed.at) < changedForMs) ||
      this.#lostStarts.isSuspect(this.#deps.scope.names.maintenanceId(name))
    );
  }

  async #check(name: string, onMissing: (name: string) => void): Promise<void> {
    this.#checked.set(name, performance.now());
    const { cluster, temporal, scope } = this.#deps;
    const workflowId = scope.names.maintenanceId(name);
    const maintenance = cluster.maintenances.get(name);
    if (maintenance === undefined) return;
    if (isFinished(maintenance))
      return this.#resolve(maintenance, notStalled('WorkflowContinues', workflowId));
    const run = await findRun(temporal, workflowId, scope.uid);
    if (run?.isOpen !== true) return onMissing(name);
    if (healthOf(run) === 'Failing') return this.#handleFailing(maintenance, run);
    await this.#lostStarts.check(run);
    const { conditions = [] } = maintenance.status ?? {};
    const now = cluster.kube.now().getTime();
    const waiting = waitingRun(run, now);
    if (waiting !== undefined) return this.#reportIfLasting(maintenance, waiting);
    this.#waiting.delete(name);
    const resolved = resolvedStalled(run, conditions, now);
    if (resolved !== undefined) await this.#resolve(maintenance, resolved);
  }

  /** After an outage of Temporal or of all workers, tasks that have waited are taken within seconds. */
  async #reportIfLasting(maintenance: NodeMaintenance, facts: ConditionFacts): Promise<void> {
    const { name } = maintenance.metadata;
    const known = this.#waiting.get(name);
    const since = known?.reason === facts.reason ? known.at : currentInstant();
    this.#waiting.set(name, { reason: facts.reason, at: since });
    const isReported = isStalled(maintenance.status?.conditions);
    if (isReported || elapsedMs(since) > this.#timing.waitingMs) await this.#report(maintenance, facts);
  }

  async #handleFailing(maintenance: NodeMaintenance, run: ObservedRun): Promise<void> {
    const { metadata, status } = maintenance;
    const subject = { fields: { maintenance: metadata.name }, conditions: status?.conditions ?? [] };
    await handleFailingRun(this.#deps, { ...subject, run, isReplaceable: true }, ({ kind, facts }, now) =>
      kind === 'Report' ? this.#report(maintenance, facts, now) : this.#resolve(maintenance, facts),
    );
  }

  /** `now` is the time that the message counts from. The condition gets the same one, because later checks count from the condition. */
  async #report(maintenance: NodeMaintenance, facts: ConditionFacts, now?: Date): Promise<void> {
    const { cluster, events, log } = this.#deps;
    const wasStalled = isStalled(maintenance.status?.conditions);
    if (!(await publishCondition(cluster.kube, maintenance, facts, now)) || wasStalled) return;
    log.warn('Maintenance stalled', { maintenance: maintenance.metadata.name, reason: facts.message });
    events.record(maintenance, { type: 'Warning', reason: 'WorkflowStalled', message: facts.message });
  }

  async #resolve(maintenance: NodeMaintenance, facts: ConditionFacts): Promise<void> {
    await publishCondition(this.#deps.cluster.kube, maintenance, facts);
  }
}
