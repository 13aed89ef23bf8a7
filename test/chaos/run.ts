import { setTimeout as sleep } from 'node:timers/promises';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { NODE_DISRUPTION_BUDGET_NAME, WINDOW_LABEL } from '../../api/names.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { resources } from '../../kube/resources.ts';
import { restartControllers, type Testbed } from './testbed.ts';
import { faultName } from './fault.ts';
import { retryUntilAnswered } from './retryUntilAnswered.ts';
import { parseAuditLog } from './invariants/audit.ts';
import { workerAccount } from './invariants/cluster.ts';
import { checkLog } from './invariants/check.ts';
import type { Violation } from './invariants/invariants.ts';
import { leftoversOf, podsToDrain, readFinalWorld, removeLeftovers } from './leftovers.ts';
import { Operators } from './operators.ts';
import { type Scenario, type Step, stepText } from './scenario.ts';
import { Users } from './users.ts';
import type { WorkerSlot } from './workerSlot.ts';
import {
  budgetsAreCurrent,
  createWorld,
  deleteWorld,
  describeWorld,
  Names,
  actAsKubelets,
  untilTrue,
  windowOf,
} from './worldObjects.ts';

export interface RunResult {
  seed: number;
  violations: Violation[];
  /** Steps that were refused, with the reason: users must expect it. */
  refused: string[];
  /** Faults that were caused, in the order of the scenario. */
  faults: string[];
  /** Pods that the worker evicted or deleted. */
  evicted: number;
  seconds: number;
}

/**
 * Within this time after the last fault, every maintenance is drained, and later ends. If kube-controller-manager has not seen that an evicted pod of a
 * StatefulSet was terminating, the pod that replaces it counts as disrupted for two minutes, because it has its name.
 */
const endsWithinMs = 240_000;

/** A watch whose server went away is opened again within this time. */
const controllersWorkWithinMs = 120_000;

export interface RunOptions {
  report: (line: string) => void;
}

/** Runs a scenario and checks it. */
export async function runScenario(
  testbed: Testbed,
  scenario: Scenario,
  { report }: RunOptions,
): Promise<RunResult> {
  const startedAt = performance.now();
  const offset = testbed.auditLog.end();
  const run = new ChaosRun(testbed, scenario, report);
  let ends: Violation[] = [];
  try {
    ends = await run.play().catch((error) => [failure(error)]);
  } finally {
    await run.close();
  }
  const log = parseAuditLog(
    (await testbed.auditLog.linesFrom(offset)).filter((line) => line.includes(run.names.prefix)),
  );
  return {
    seed: scenario.seed,
    violations: [...checkLog(log, run.operators.ignorance), ...ends],
    refused: run.refused,
    faults: scenario.steps.flatMap((step) =>
      step.kind === 'Fault' && run.operators.caused.has(step.fault) ? [faultName(step.fault)] : [],
    ),
    evicted: log.writes.filter(({ user, resource }) => user === workerAccount && resource === 'pods/eviction')
      .length,
    seconds: (performance.now() - startedAt) / 1_000,
  };
}

/** Returns the violation of a run that fails although the faults are over: a promise was not kept. */
function failure(error: unknown, invariant: 'end' | 'rest' = 'end'): Violation {
  const message = error instanceof Error ? error.message : String(error);
  return { invariant, message: `The run could not be finished: ${message}`, events: [] };
}

class ChaosRun {
  readonly names: Names;
  readonly refused: string[] = [];
  readonly #testbed: Testbed;
  readonly #scenario: Scenario;
  readonly #report: (line: string) => void;
  readonly #users: Users;
  readonly #slots: WorkerSlot[] = [];
  readonly operators: Operators;

  constructor(testbed: Testbed, scenario: Scenario, report: (line: string) => void) {
    this.#testbed = testbed;
    this.#scenario = scenario;
    this.#report = report;
    this.names = new Names(scenario.seed);
    this.#users = new Users(testbed, this.names, scenario);
    this.operators = new Operators(testbed, this.#slots);
  }

  /** Returns the promises about the end that were not kept. */
  async play(): Promise<Violation[]> {
    await this.#begin();
    this.#report('the world exists');
    await Promise.all(this.#scenario.steps.map((step) => this.#perform(step)));
    await this.operators.repair();
    this.#report('the faults are over');
    await this.#controllersWork();
    await this.#users.releaseAll();
    return (await this.#notDrained()) ?? (await this.#notEnded()) ?? (await this.#leftovers()) ?? [];
  }

  async close(): Promise<void> {
    await this.operators.repair().catch(() => this.operators.restartWorkers());
    await retryUntilAnswered('what is left of the run', () => removeLeftovers(this.#testbed, this.names));
    await retryUntilAnswered('the world of the run', () =>
      deleteWorld(this.#testbed, this.names, this.#scenario),
    );
  }

  /** Creates the world while the workers start. */
  async #begin(): Promise<void> {
    const { workers, window } = this.#scenario;
    await retryUntilAnswered('the controllers of Kubernetes', () => restartControllers(this.#testbed));
    this.#slots.push(...(await this.#testbed.workerSlots(workers)));
    await Promise.all([
      createWorld(this.#testbed, this.names, this.#scenario).then(() => this.#report('all pods are Ready')),
      ...this.#slots.map((slot) => slot.ready().then(() => this.#report('a worker is ready'))),
    ]);
    const { kube } = this.#testbed;
    const budget = { spec: { maxUnavailable: '100%' } };
    const hasBudget = async () =>
      (await kube.get(resources.nodeDisruptionBudgets, { name: NODE_DISRUPTION_BUDGET_NAME })) !== undefined;
    await untilTrue('the budget of nodes', hasBudget);
    await retryUntilAnswered('the budget of nodes', () =>
      kube.mergePatch(resources.nodeDisruptionBudgets, { name: NODE_DISRUPTION_BUDGET_NAME }, budget),
    );
    if (window !== undefined)
      await retryUntilAnswered('the window', () =>
        kube.create(resources.maintenanceWindows, windowOf(this.names) as never),
      );
  }

  async #perform(step: Step): Promise<void> {
    await sleep(step.atMs);
    this.#report(stepText(step));
    try {
      if (step.kind === 'Fault') await this.operators.cause(step.fault);
      else if (step.action.kind === 'Rollout') await this.operators.rollOut();
      else await this.#users.perform(step.action);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.refused.push(`${stepText(step)}: ${reason}`);
      this.#report(`refused: ${stepText(step)}: ${reason.slice(0, 200)}`);
    }
  }

  /** Waits for the controllers of Kubernetes, without which no drain ends. If they never work again, no drain ends. */
  async #controllersWork(): Promise<void> {
    const work = async () => {
      await this.#supervise();
      return budgetsAreCurrent(this.#testbed, this.names);
    };
    await untilTrue('the budgets to be current', work, controllersWorkWithinMs).then(
      () => this.#report('the controllers of Kubernetes work'),
      () => this.#report('the controllers of Kubernetes do not work yet'),
    );
  }

  /** Does what supervisors of servers and kubelets do. */
  async #supervise(): Promise<void> {
    await this.operators.restartServers();
    await actAsKubelets(this.#testbed, this.names);
  }

  /** Drains what users have neither cancelled nor deleted. */
  async #notDrained(): Promise<Violation[] | undefined> {
    const open = (await this.#maintenances()).filter(({ metadata, spec }) => isOpen({ metadata, spec }));
    const own = open.filter(({ metadata }) => metadata.labels?.[WINDOW_LABEL] === undefined);
    for (const { metadata } of own) await this.#drain(metadata.name);
    this.#report(`${own.length} maintenances are to be drained`);
    return this.#ending('is drained', async () => {
      const found = await this.#maintenances();
      const waiting = found.filter((one) => own.some(({ metadata }) => metadata.uid === one.metadata.uid));
      // Listed after the maintenances: what their conditions say must be true.
      const pods = await retryUntilAnswered('the list of pods', () =>
        this.#testbed.kube.list(resources.pods, { namespace: this.names.prefix }),
      );
      const isDrained = (one: NodeMaintenance) =>
        isTrue(one.status?.conditions, 'Drained') && podsToDrain(one, pods.items).length === 0;
      const left = waiting.filter((one) => isOpen(one) && !isDrained(one));
      for (const one of left) await this.#resume(one).catch((error) => this.#report(String(error)));
      return left;
    });
  }

  /** A signal to cancel it, which Temporal has accepted during the faults, may complete it first. */
  async #drain(name: string): Promise<void> {
    await this.#users.moveTo(name, 'Drain').catch(async (error: unknown) => {
      const open = (await this.#maintenances()).filter(isOpen);
      if (open.some(({ metadata }) => metadata.name === name)) throw error;
    });
  }

  /** Ends a pause, which may have been asked for before the faults were over and begin later. */
  async #resume({ metadata, status }: NodeMaintenance): Promise<void> {
    if (!isTrue(status?.conditions, 'Paused')) return;
    const relative = metadata.name.slice(this.names.prefix.length + 1);
    await retryUntilAnswered(`the end of the pause of ${relative}`, () =>
      this.#users.signal(relative, 'resume'),
    );
  }

  /** Ends everything, and deletes it. */
  async #notEnded(): Promise<Violation[] | undefined> {
    const { kube } = this.#testbed;
    for (const { metadata, spec } of await this.#maintenances()) {
      if (metadata.labels?.[WINDOW_LABEL] !== undefined) continue;
      if (spec.stage !== 'Complete' && metadata.deletionTimestamp === undefined)
        await this.#users.moveTo(metadata.name, 'Complete');
      await this.#users.delete(metadata.name);
    }
    await retryUntilAnswered('the deletion of the window', async () => {
      const window = await kube.get(resources.maintenanceWindows, { name: this.names.of('window') });
      if (window !== undefined)
        await kube.delete(resources.maintenanceWindows, window.metadata, { uid: window.metadata.uid ?? '' });
    });
    await retryUntilAnswered('the deletion of the readiness policy', async () => {
      const policy = await kube.get(resources.nodeReadinessPolicies, { name: this.names.prefix });
      if (policy !== undefined)
        await kube.delete(resources.nodeReadinessPolicies, policy.metadata, {
          uid: policy.metadata.uid ?? '',
        });
    });
    return this.#ending('has ended', async () =>
      (await this.#maintenances()).filter(({ metadata }) => metadata.labels?.[WINDOW_LABEL] === undefined),
    );
  }

  async #leftovers(): Promise<Violation[] | undefined> {
    let left: string[] = [];
    const isClear = async () =>
      (left = leftoversOf(await readFinalWorld(this.#testbed, this.names))).length === 0;
    try {
      await untilTrue('nothing to be left', isClear, endsWithinMs);
      this.#report('nothing is left');
      return undefined;
    } catch (error) {
      if (left.length === 0) return [failure(error, 'rest')];
      return left.map((message) => ({ invariant: 'rest', message, events: [] }));
    }
  }

  /** Waits until no maintenance is left that has not come to an end; returns those that are. */
  async #ending(end: string, others: () => Promise<NodeMaintenance[]>): Promise<Violation[] | undefined> {
    let left: NodeMaintenance[] = [];
    try {
      const isReached = async () => {
        await this.#supervise();
        return (left = await others()).length === 0;
      };
      await untilTrue(end, isReached, endsWithinMs);
      this.#report(`every maintenance ${end}`);
      return undefined;
    } catch (error) {
      if (left.length === 0) return [failure(error)];
      const world = await describeWorld(this.#testbed, this.names).catch(String);
      return left.map(({ metadata: { name, finalizers }, spec: { stage }, status }) => ({
        invariant: 'end',
        message: `${name} is not what it should be ${endsWithinMs / 1_000} s after the faults, ${end}: ${JSON.stringify({ stage, finalizers, status })}; ${world}`,
        events: [],
      }));
    }
  }

  async #maintenances(): Promise<NodeMaintenance[]> {
    const { items } = await retryUntilAnswered('the list of maintenances', () =>
      this.#testbed.kube.list(resources.nodeMaintenances),
    );
    return items.filter(({ metadata }) => metadata.name.startsWith(`${this.names.prefix}-`));
  }
}

function isOpen({ metadata, spec }: Pick<NodeMaintenance, 'metadata' | 'spec'>): boolean {
  return spec.stage !== 'Complete' && metadata.deletionTimestamp === undefined;
}
