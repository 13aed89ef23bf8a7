import { Context } from '@temporalio/activity';
import type {
  Admitted,
  DrainStep,
  Interrupted,
  MaintenanceRef,
  NodeMaintenanceActivities,
  SeenNodes,
} from '../../activities/contract.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import type { Glance } from '../../domain/glance.ts';
import type { Observation } from '../../workflows/messages.ts';
import { eventually } from './eventually.ts';

/** Often, because the worker takes a cancellation from the answer to a heartbeat. Milliseconds. */
const heartbeatEvery = 50;

interface Given {
  name?: string;
  uid?: string;
  stage?: NodeMaintenanceStage;
  paused?: boolean;
  position?: number;
  nodes?: string[];
}

/**
 * The activities of one maintenance without a cluster: they keep the object in memory, write down every call, and last
 * as the real ones do, until the test ends them (`ends`) or the workflow cancels them.
 */
export class FakeMaintenance {
  readonly uid: string;
  readonly name: string;
  /** Every call in order: `admit`, `beginStage Drain`, `drain 2`, `drain 2 cancelled`. */
  readonly calls: string[] = [];
  readonly activities: NodeMaintenanceActivities;
  stage: NodeMaintenanceStage;
  generation = 1;
  paused: boolean;
  position: number;
  nodes: string[];
  gone = false;
  renewAfterSeconds = 300;
  /** What activities tell of the nodes; nothing unless given. */
  glance: Glance | undefined;
  readonly planLength = 12;
  readonly #failures = new Map<string, Error[]>();
  readonly #open = new Map<string, (step: DrainStep) => void>();
  readonly #gates = new Map<string, Promise<void>>();

  constructor(given: Given = {}) {
    this.uid = given.uid ?? crypto.randomUUID();
    this.name = given.name ?? `fake-${this.uid.slice(0, 8)}`;
    this.stage = given.stage ?? 'Idle';
    this.paused = given.paused ?? false;
    this.position = given.position ?? 0;
    this.nodes = given.nodes ?? ['n1', 'n2'];
    this.activities = this.#activities();
  }

  /** A person's edit of `.spec.stage`, and what the controller tells the workflow of it. */
  edited(stage: NodeMaintenanceStage): Observation {
    this.stage = stage;
    this.generation += 1;
    return { uid: this.uid, kind: 'StageChanged', stage, generation: this.generation };
  }

  /** The object goes without waiting for anything. */
  deleted(): Observation {
    this.gone = true;
    return { uid: this.uid, kind: 'Gone' };
  }

  /** The next calls of an activity fail, one with each error. */
  failing(activity: keyof NodeMaintenanceActivities, ...errors: Error[]): void {
    this.#failures.set(activity, errors);
  }

  /** Calls of an activity end only after the returned function was called. */
  shut(activity: keyof NodeMaintenanceActivities): () => void {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#gates.set(activity, promise);
    return resolve;
  }

  /** Resolves when a lasting call, such as `drain 2`, is under way. */
  async underWay(call: string): Promise<void> {
    await eventually(`"${call}" to be under way`, () => {
      const seen = { underWay: [...this.#open.keys()], calls: this.calls };
      expect(seen).toMatchObject({ underWay: [call] });
    });
  }

  /** Ends a lasting call, as soon as it is under way. */
  async ends(call: string, step: DrainStep): Promise<void> {
    await this.underWay(call);
    this.#open.get(call)?.(step);
    await eventually(`"${call}" to be over`, () => expect([...this.#open.keys()]).not.toContain(call));
  }

  /** Ends the drain of one tier. */
  async tierDrained(position: number, next: number): Promise<void> {
    await this.ends(`drain ${position}`, { kind: 'TierDrained', position: next, ...this.#seen() });
  }

  async drained(position: number): Promise<void> {
    await this.ends(`drain ${position}`, { kind: 'Drained', ...this.#seen() });
  }

  #told(): { glance?: Glance } {
    return this.glance === undefined ? {} : { glance: this.glance };
  }

  #seen(): SeenNodes {
    return { nodes: this.nodes, ...this.#told() };
  }

  #activities(): NodeMaintenanceActivities {
    return {
      admit: async () => {
        this.#note('admit');
        return this.#admitted();
      },
      requestStage: async (_, to) => this.#requestStage(to),
      recordPause: async (_, paused) => {
        this.#note('recordPause', paused);
        this.paused = paused;
      },
      beginStage: async (_, stage) => {
        this.#note('beginStage', stage);
        return this.#seen();
      },
      renewNodeLeases: async () => {
        this.#note('renewNodeLeases');
        await this.#gates.get('renewNodeLeases');
        return { renewAfterSeconds: this.renewAfterSeconds, ...this.#told() };
      },
      keepCordoned: (ref, stage) => this.#lasts<Interrupted>('keepCordoned', stage, ref, stage),
      drain: (ref, position) => this.#lasts<DrainStep>('drain', position, ref, 'Drain'),
      keepDrained: (ref) => this.#lasts<Interrupted>('keepDrained', '', ref, 'Drain'),
      removeEvacuations: async () => {
        this.#note('removeEvacuations');
        await this.#gates.get('removeEvacuations');
      },
      giveBackNodes: async () => {
        this.#note('giveBackNodes');
        await this.#gates.get('giveBackNodes');
      },
      finish: async () => void this.#note('finish'),
    };
  }

  #admitted(): Admitted {
    const { name, uid, generation, stage, paused, position, planLength, nodes } = this;
    return { name, uid, generation, stage, paused, position, planLength, nodes };
  }

  #requestStage(to: NodeMaintenanceStage): Interrupted {
    this.#note('requestStage', to);
    if (this.gone) return { kind: 'Gone' };
    if (to !== this.stage) this.edited(to);
    return { kind: 'StageChanged', stage: this.stage, generation: this.generation };
  }

  async #lasts<T extends DrainStep>(
    activity: keyof NodeMaintenanceActivities,
    argument: string | number,
    ref: MaintenanceRef,
    stage: NodeMaintenanceStage,
  ): Promise<T> {
    const call = this.#note(activity, argument);
    const seen = this.#interruption(ref, stage);
    if (seen !== undefined) return seen as T;
    const context = Context.current();
    const over = Promise.withResolvers<DrainStep>();
    this.#open.set(call, over.resolve);
    const beat = setInterval(() => context.heartbeat(), heartbeatEvery);
    try {
      return (await Promise.race([over.promise, context.cancelled])) as T;
    } catch (error) {
      this.calls.push(`${call} cancelled`);
      throw error;
    } finally {
      clearInterval(beat);
      this.#open.delete(call);
    }
  }

  /** What the real activity sees when it begins on an object that has moved on already. */
  #interruption({ uid }: MaintenanceRef, stage: NodeMaintenanceStage): Interrupted | undefined {
    if (this.gone || uid !== this.uid) return { kind: 'Gone' };
    if (this.stage === stage) return undefined;
    return { kind: 'StageChanged', stage: this.stage, generation: this.generation };
  }

  #note(activity: keyof NodeMaintenanceActivities, argument: unknown = ''): string {
    const call = `${activity} ${String(argument)}`.trim();
    this.calls.push(call);
    const failure = this.#failures.get(activity)?.shift();
    if (failure !== undefined) throw failure;
    return call;
  }
}
