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
} from '../../domain/common/stalledRun.ts';
import { isFinished, isObserved } from '../../domain/maintenance/runNeed.ts';
import { publishCondition } from './conditions.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { EventRecorder } from '../../kube/events.ts';
import type { Log } from '../../kube/log.ts';
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
}

const concurrentChecks = 4;

/**
 * Reports maintenances whose workflow makes no progress, and replaces runs that cannot continue. Temporal does not list the runs whose
 * tasks fail, so they are checked one after the other, a few a second (ADR 40).
 */
export class StalledRuns {
  readonly #deps: StalledRunsDeps;
  /** Object name -> when its run was checked last, or when it was first seen: milliseconds since the epoch. */
  readonly #checked = new Map<string, number>();
  readonly #timing: CheckTiming;

  constructor(deps: StalledRunsDeps) {
    this.#deps = deps;
    this.#timing = checkTiming(deps.stalledRunTimeoutSeconds);
  }

  /** Checks the runs, until the signal. */
  async watch(signal: AbortSignal): Promise<void> {
    const { temporal, availability, log } = this.#deps;
    const pass = async () => {
      await untilAvailable(availability, signal);
      if (signal.aborted) return;
      // A failure ends the pass: a server that is down answers no other check either.
      const check = () => forEachBounded(concurrentChecks, this.#due(), (name) => this.#check(name));
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
    const runs = relevant.map((one) => ({ name: one.metadata.name, isSuspect: isSuspect(one) }));
    const names = new Set(runs.map(({ name }) => name));
    const nowMs = Date.now();
    for (const name of this.#checked.keys()) if (!names.has(name)) this.#checked.delete(name);
    for (const name of names) if (!this.#checked.has(name)) this.#checked.set(name, nowMs);
    return dueChecks(runs, this.#checked, this.#timing, nowMs);
  }

  async #check(name: string): Promise<void> {
    this.#checked.set(name, Date.now());
    const { cluster, temporal, scope } = this.#deps;
    const workflowId = scope.names.maintenanceId(name);
    const maintenance = cluster.maintenances.get(name);
    if (maintenance === undefined) return;
    if (isFinished(maintenance))
      return this.#resolve(maintenance, notStalled('WorkflowContinues', workflowId));
    const run = await findRun(temporal, workflowId, scope.uid);
    // Without an open run, the controller starts another one.
    if (run?.isOpen !== true) return;
    if (healthOf(run) === 'Failing') return this.#handleFailing(maintenance, run);
    const { conditions = [] } = maintenance.status ?? {};
    const resolved = resolvedStalled(run, conditions, cluster.kube.now().getTime());
    if (resolved !== undefined) await this.#resolve(maintenance, resolved);
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

/** A maintenance that has stalled, or whose run has not applied the newest generation. */
function isSuspect(maintenance: NodeMaintenance): boolean {
  return isStalled(maintenance.status?.conditions) || !isObserved(maintenance);
}
