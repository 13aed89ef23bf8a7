import { Context } from '@temporalio/activity';
import type {
  Admitted,
  DrainStep,
  ObservedStage,
  MaintenanceRef,
  PauseChanged,
  NodeMaintenanceActivities,
  SelectedNodes,
  StageRequest,
} from '../../activities/contract.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { DetailsSnapshot } from '../../domain/maintenance/detailsSnapshot.ts';
import type { Observation } from '../../workflows/maintenance/messages.ts';
import { eventually } from './eventually.ts';
import { testScope } from './temporalNames.ts';

/** Short, because the worker learns of a cancellation from the answer to a heartbeat. */
const defaultHeartbeatMs = 50;
/** Activities that last as long as a stage have a longer timeout than a test takes: no heartbeat ends them. */
const heartbeatTimeoutSeconds = 540;

interface Given {
  name?: string;
  uid?: string;
  stage?: NodeMaintenanceStage;
  paused?: boolean;
  position?: number;
  nodes?: string[];
  heartbeatMs?: number;
}

/** The object that a long call works for; `paused` is undefined if it does not matter. */
interface WaitsFor {
  ref: MaintenanceRef;
  stage: NodeMaintenanceStage;
  paused: boolean | undefined;
}

interface Open {
  waitsFor: WaitsFor;
  end: (step: DrainStep) => void;
}

/**
 * Implements the activities of one maintenance without a cluster: they have the object in memory and record every call. The long ones run
 * until the object changes, the test ends them (`ends`) or the workflow cancels them.
 */
export class FakeMaintenance {
  readonly uid: string;
  readonly name: string;
  /** Every call in order: `admit`, `startStage Drain`, `drain 2`, `drain 2 cancelled`. */
  readonly calls: string[] = [];
  readonly activities: NodeMaintenanceActivities;
  stage: NodeMaintenanceStage;
  generation = 1;
  paused: boolean;
  position: number;
  nodes: string[];
  gone = false;
  /** The details that activities return; none unless given. */
  details: DetailsSnapshot | undefined;
  /** The Lease of a node that is to be uncordoned is held by someone else. */
  awaitsLeases = false;
  /** The number of calls that it takes to remove all Evacuations. */
  removals = 1;
  /** Times until the steps of the escalation, each from the one before; none unless given. */
  escalationsInMs: number[] = [];
  /** The recorded steps that each call of `escalate` was given. */
  readonly recordedSteps: (readonly string[])[] = [];
  readonly planLength = 12;
  readonly #heartbeatMs: number;
  readonly #failures = new Map<string, Error[]>();
  readonly #open = new Map<string, Open>();
  readonly #blocked = new Map<string, Promise<void>>();

  constructor(given: Given = {}) {
    this.uid = given.uid ?? crypto.randomUUID();
    this.name = given.name ?? `fake-${this.uid.slice(0, 8)}`;
    this.stage = given.stage ?? 'Idle';
    this.paused = given.paused ?? false;
    this.position = given.position ?? 0;
    this.nodes = given.nodes ?? ['n1', 'n2'];
    this.#heartbeatMs = given.heartbeatMs ?? defaultHeartbeatMs;
    this.activities = this.#activities();
  }

  /** Edits `.spec.stage` as a user does, and returns the observation that the controller signals. */
  edited(stage: NodeMaintenanceStage): Observation {
    this.stage = stage;
    this.generation += 1;
    this.#changed();
    return { uid: this.uid, kind: 'StageChanged', stage, generation: this.generation };
  }

  /** Deletes the object at once. */
  deleted(): Observation {
    this.gone = true;
    this.#changed();
    return { uid: this.uid, kind: 'Gone' };
  }

  /** Makes the next calls of an activity fail, one with each error. */
  failing(activity: keyof NodeMaintenanceActivities, ...errors: Error[]): void {
    this.#failures.set(activity, errors);
  }

  /** Blocks the calls of an activity until the returned function is called. */
  block(activity: keyof NodeMaintenanceActivities): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#blocked.set(activity, promise);
    return resolve;
  }

  /** Waits until a long call, such as `drain 2`, is in progress. */
  async inProgress(call: string): Promise<void> {
    await eventually(`"${call}" to be in progress`, () => {
      const observed = { inProgress: [...this.#open.keys()], calls: this.calls };
      expect(observed).toMatchObject({ inProgress: [call] });
    });
  }

  /** Ends a long call as soon as it is in progress. */
  async ends(call: string, step: DrainStep): Promise<void> {
    await this.inProgress(call);
    this.#open.get(call)?.end(step);
    await eventually(`"${call}" to be over`, () => expect([...this.#open.keys()]).not.toContain(call));
  }

  /** Ends the drain of one tier. */
  async tierDrained(position: number, next: number): Promise<void> {
    await this.ends(`drain ${position}`, { kind: 'TierDrained', position: next, ...this.#selectedNodes() });
  }

  /** Ends the active part of a drain of which no pod leaves. */
  async stalled(position: number): Promise<void> {
    await this.ends(`drain ${position}`, { kind: 'Waiting', ...this.#selectedNodes() });
  }

  async drained(position: number): Promise<void> {
    await this.ends(`drain ${position}`, { kind: 'Drained', ...this.#selectedNodes() });
  }

  #detailsIfAny(): { details?: DetailsSnapshot } {
    return this.details === undefined ? {} : { details: this.details };
  }

  #selectedNodes(): SelectedNodes {
    return { nodes: this.nodes, ...this.#detailsIfAny() };
  }

  #activities(): NodeMaintenanceActivities {
    return {
      admit: async () => {
        this.#note('admit');
        await this.#blocked.get('admit');
        return this.#admitted();
      },
      requestStage: async (_, to, requestedBy) => this.#requestStage(to, requestedBy),
      recordPause: async (_, paused) => {
        this.#note('recordPause', paused);
        this.paused = paused;
        await this.#blocked.get('recordPause');
        this.#changed();
      },
      startStage: async (_, stage) => {
        this.#note('startStage', stage);
        const escalatesInMs = stage === 'Drain' ? this.escalationsInMs.shift() : undefined;
        const read = {
          ...this.#selectedNodes(),
          observed: this.#observed(),
          ...(escalatesInMs !== undefined && { escalatesInMs }),
        };
        await this.#blocked.get('startStage');
        return read;
      },
      keepCordoned: (ref, stage) => {
        const paused = stage === 'Drain' ? true : undefined;
        return this.#runLong<ObservedStage | PauseChanged>('keepCordoned', stage, { ref, stage, paused });
      },
      drain: (ref, position, pace = 'Active') =>
        this.#runLong<DrainStep>('drain', pace === 'Active' ? position : `${position} ${pace}`, {
          ref,
          stage: 'Drain',
          paused: false,
        }),
      keepDrained: (ref) =>
        this.#runLong<ObservedStage | PauseChanged>('keepDrained', '', {
          ref,
          stage: 'Drain',
          paused: false,
        }),
      escalate: async (_, recorded = []) => {
        this.#note('escalate');
        this.recordedSteps.push(recorded);
        await this.#blocked.get('escalate');
        const nextInMs = this.escalationsInMs.shift();
        const step = { generation: this.generation, done: [], recorded: ['Notify-0'] };
        return { ...step, ...(nextInMs !== undefined && { nextInMs }) };
      },
      removeEvacuations: async () => {
        this.#note('removeEvacuations');
        await this.#blocked.get('removeEvacuations');
        this.removals -= 1;
        return this.removals > 0 ? { kind: 'Unfinished' } : undefined;
      },
      uncordonNodes: async (_, pace = 'Active') => {
        this.#note('uncordonNodes', pace === 'Active' ? '' : pace);
        await this.#blocked.get('uncordonNodes');
        return pace === 'Active' && this.awaitsLeases ? { kind: 'Waiting' } : undefined;
      },
      finish: async () => void this.#note('finish'),
    };
  }

  #admitted(): Admitted {
    const { name, uid, generation, stage, paused, position, planLength, nodes } = this;
    const cluster = { name: testScope.name, uid: testScope.uid };
    return {
      name,
      uid,
      generation,
      cluster,
      stage,
      paused,
      position,
      planLength,
      nodes,
      heartbeatTimeoutSeconds,
    };
  }

  #requestStage(to: NodeMaintenanceStage, requestedBy: StageRequest): ObservedStage {
    this.#note('requestStage', requestedBy === 'Observation' ? `${to} if observed` : to);
    if (!this.gone && to !== this.stage && requestedBy === 'Message') this.edited(to);
    return this.#observed();
  }

  #observed(): ObservedStage {
    if (this.gone) return { kind: 'Gone' };
    return { kind: 'StageChanged', stage: this.stage, generation: this.generation };
  }

  async #runLong<T extends DrainStep>(
    activity: keyof NodeMaintenanceActivities,
    argument: string | number,
    waitsFor: WaitsFor,
  ): Promise<T> {
    const call = this.#note(activity, argument);
    const observed = this.#interruption(waitsFor);
    if (observed !== undefined) return observed as T;
    const context = Context.current();
    const over = Promise.withResolvers<DrainStep>();
    this.#open.set(call, { waitsFor, end: over.resolve });
    const heartbeat = setInterval(() => context.heartbeat(), this.#heartbeatMs);
    try {
      return (await Promise.race([over.promise, context.cancelled])) as T;
    } catch (error) {
      this.calls.push(`${call} cancelled`);
      throw error;
    } finally {
      clearInterval(heartbeat);
      this.#open.delete(call);
    }
  }

  /** Ends the long calls that have another object to work for than this one. */
  #changed(): void {
    for (const { waitsFor, end } of this.#open.values()) {
      const observed = this.#interruption(waitsFor);
      if (observed !== undefined) end(observed);
    }
  }

  /** Returns what a real activity returns when the object is no longer the one that it works for. */
  #interruption({ ref, stage, paused }: WaitsFor): ObservedStage | PauseChanged | undefined {
    if (this.gone || ref.uid !== this.uid) return { kind: 'Gone' };
    if (this.stage !== stage) return { kind: 'StageChanged', stage: this.stage, generation: this.generation };
    const isCurrent = paused === undefined || paused === this.paused;
    return isCurrent ? undefined : { kind: 'PauseChanged', paused: this.paused };
  }

  #note(activity: keyof NodeMaintenanceActivities, argument: unknown = ''): string {
    const call = `${activity} ${String(argument)}`.trim();
    this.calls.push(call);
    const failure = this.#failures.get(activity)?.shift();
    if (failure !== undefined) throw failure;
    return call;
  }
}
