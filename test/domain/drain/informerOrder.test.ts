import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { Job, Pod } from '../../../api/core.ts';
import { WindowAnnotation, WORK_NAMESPACE } from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStatus } from '../../../api/nodeMaintenance.ts';
import { isDrained } from '../../../domain/common/stage.ts';
import { decideDrain } from '../../../domain/drain/decide.ts';
import { completeDrainPlan } from '../../../domain/drain/plan.ts';
import {
  isContradicted,
  pendingDetachments,
  pendingVerification,
  type Verification,
  workOfOthers,
} from '../../../domain/drain/verification.ts';
import { noAgent } from '../../../domain/leases/nodeAgent.ts';
import { emptyStatus, isEmptied, withDrain } from '../../../domain/maintenance/status.ts';
import { pod } from '../../kit/builders.ts';

/**
 * A model of an apiserver, of informers that are behind by any number of changes, each on its own, and of two workers that execute the same drain,
 * because one of them was suspended and another one took over. Everything that decides is the code of domain/; the steps of a worker are those of
 * activities/drain/drainedCheck.ts and activities/statusWriter.ts. Nodes are selected by a label; a selector is a set of labels.
 */
const nodeNames = ['n1', 'n2'];
const labels = ['a', 'b'];
const plan = completeDrainPlan();
const now = '2026-01-01T12:00:00Z';

/** The state of each kind, which informers follow one by one. */
interface World {
  maintenance: { generation: number; selected: readonly string[] };
  /** Node -> label. */
  nodes: Readonly<Record<string, string>>;
  /** Nodes with a pod. */
  pods: readonly string[];
  /** Nodes with an attached volume. */
  attachments: readonly string[];
  /** Nodes with the Job of another maintenance. */
  jobs: readonly string[];
}
type Kind = keyof World;
const kinds: readonly Kind[] = ['maintenance', 'nodes', 'pods', 'attachments', 'jobs'];

const toggled = (all: readonly string[], one: string) =>
  all.includes(one) ? all.filter((other) => other !== one) : [...all, one].toSorted();

type Command =
  | { kind: 'Toggle'; what: 'pods' | 'attachments' | 'jobs'; node: string }
  /** Pods leave, volumes are detached, and Jobs end. */
  | { kind: 'Empty' }
  | { kind: 'Label'; node: string; label: string }
  | { kind: 'Select'; label: string }
  /** The informer of a worker shows one more change. */
  | { kind: 'Advance'; worker: number; what: Kind }
  /** The informers of a worker show everything. */
  | { kind: 'CatchUp'; worker: number }
  /** A worker takes its next steps. */
  | { kind: 'Step'; worker: number; steps: number }
  /** A worker starts again: its informers list everything now. */
  | { kind: 'Restart'; worker: number };

const someNode = fc.constantFrom(...nodeNames);
const someWorker = fc.constantFrom(0, 1);
const weighted = (weight: number, kind: Command['kind'], fields: object = {}) => ({
  weight,
  arbitrary: fc.record({ kind: fc.constant(kind), ...fields }) as unknown as fc.Arbitrary<Command>,
});
const someCommand = fc.oneof(
  weighted(2, 'Toggle', { what: fc.constantFrom('pods', 'attachments', 'jobs'), node: someNode }),
  weighted(3, 'Empty'),
  weighted(1, 'Label', { node: someNode, label: fc.constantFrom(...labels) }),
  weighted(1, 'Select', { label: fc.constantFrom(...labels) }),
  weighted(4, 'Advance', { worker: someWorker, what: fc.constantFrom(...kinds) }),
  weighted(2, 'CatchUp', { worker: someWorker }),
  weighted(16, 'Step', { worker: someWorker, steps: fc.integer({ min: 1, max: 8 }) }),
  weighted(1, 'Restart', { worker: someWorker }),
);

type StatusChange = (status: NodeMaintenanceStatus) => NodeMaintenanceStatus;

/** The next step of a worker. */
type Next =
  | { kind: 'Decide' }
  | { kind: 'Read'; decided: Decided; version: number; readAt: number; seen: Partial<World> }
  | { kind: 'WriteAt'; version: number; readAt: number; change: StatusChange; of: string }
  /** Applied to whatever status there is, as after a conflict. */
  | { kind: 'Write'; change: StatusChange };

interface Decided {
  maintenance: NodeMaintenance;
  nodes: readonly string[];
  decision: ReturnType<typeof decideDrain>;
}

interface Worker {
  /** How much of the history its informers show. */
  seen: Record<Kind, number>;
  next: Next;
  /** Verified state, as DrainedCheck remembers it. */
  verified: string;
}

/** The reads after that of the object, in the order of DrainedCheck. */
const reads: readonly Kind[] = ['nodes', 'pods', 'jobs', 'attachments'];

class Model {
  /** The states of the world, the newest last. Time is an index. */
  readonly history: World[] = [
    {
      maintenance: { generation: 1, selected: ['a'] },
      nodes: { n1: 'a', n2: 'b' },
      pods: ['n1'],
      attachments: [],
      jobs: [],
    },
  ];
  status: NodeMaintenanceStatus = emptyStatus;
  /** The resourceVersion of the object. */
  version = 1;
  readonly workers = [this.#newWorker(), this.#newWorker()];
  written = 0;

  #newWorker(): Worker {
    const at = this.history.length - 1;
    const seen = Object.fromEntries(kinds.map((kind) => [kind, at])) as Record<Kind, number>;
    return { seen, next: { kind: 'Decide' }, verified: '' };
  }

  get world(): World {
    return this.history.at(-1) as World;
  }

  run(command: Command): void {
    const { world } = this;
    switch (command.kind) {
      case 'Toggle':
        this.#change({ [command.what]: toggled(world[command.what], command.node) });
        break;
      case 'Empty':
        this.#change({ pods: [], attachments: [], jobs: [] });
        break;
      case 'Label':
        this.#change({ nodes: { ...world.nodes, [command.node]: command.label } });
        break;
      case 'Select': {
        const { generation, selected } = world.maintenance;
        this.version += 1;
        this.#change({
          maintenance: { generation: generation + 1, selected: toggled(selected, command.label) },
        });
        break;
      }
      case 'Advance': {
        const { seen } = this.#worker(command.worker);
        seen[command.what] = Math.min(seen[command.what] + 1, this.history.length - 1);
        break;
      }
      case 'CatchUp': {
        const worker = this.#worker(command.worker);
        worker.seen = this.#newWorker().seen;
        break;
      }
      case 'Step':
        for (let i = 0; i < command.steps; i++) this.#step(this.#worker(command.worker));
        break;
      case 'Restart':
        this.workers[command.worker] = this.#newWorker();
        break;
    }
  }

  /** Lets everything settle: the second worker shows everything and takes a whole pass, alone. */
  settle(): void {
    this.workers[0] = this.#newWorker();
    for (let step = 0; step < 2 * (reads.length + 2); step++) this.#step(this.#worker(0));
  }

  object(maintenance = this.world.maintenance): NodeMaintenance {
    const values = [...maintenance.selected];
    return {
      metadata: { name: 'own', uid: 'own', generation: maintenance.generation },
      spec: {
        stage: 'Drain',
        nodeSelector: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: 'l', operator: 'In', values }] }],
        },
      },
      status: this.status,
    };
  }

  #worker(index: number) {
    return this.workers[index] as Worker;
  }

  #change(part: Partial<World>): void {
    this.history.push({ ...this.world, ...part });
  }

  #step(worker: Worker): void {
    const { next } = worker;
    switch (next.kind) {
      case 'Decide':
        worker.next = this.#decide(worker);
        return;
      case 'Read':
        worker.next = this.#read(next);
        return;
      case 'WriteAt':
        if (next.version === this.version) {
          this.#write(next.change, next.readAt);
          worker.verified = next.of;
        }
        worker.next = { kind: 'Decide' };
        return;
      case 'Write':
        this.#write(next.change, undefined);
        worker.next = { kind: 'Decide' };
    }
  }

  #decide(worker: Worker): Next {
    const { seen } = worker;
    const cached = <K extends Kind>(kind: K) => (this.history[seen[kind]] as World)[kind];
    const maintenance = this.object(cached('maintenance'));
    const nodes = selectedIn(cached('nodes'), cached('maintenance').selected);
    const view = { pods: cached('pods'), jobs: cached('jobs') };
    const decision = decisionOn(nodes, view.pods, this.status);
    const decided = { maintenance, nodes, decision };
    const work = workOfOthers({ ownJob: undefined, nodes, podsOn: podsIn([]), jobs: jobsIn(view.jobs) });
    if (!isEmptied(decision, plan.length) || work.length > 0) {
      worker.verified = '';
      return this.#publication(decided, work.length > 0 ? { kind: 'Working', work } : pendingVerification);
    }
    if (worker.verified === identityOf(decided)) return this.#publication(decided, nothingLeft);
    // The object is read first.
    const { version } = this;
    const readAt = this.history.length - 1;
    return { kind: 'Read', decided, version, readAt, seen: { maintenance: this.world.maintenance } };
  }

  #read(next: Extract<Next, { kind: 'Read' }>): Next {
    const kind = reads.find((one) => next.seen[one] === undefined);
    if (kind !== undefined) return { ...next, seen: { ...next.seen, [kind]: this.world[kind] } };
    const { decided, version, readAt } = next;
    const seen = next.seen as World;
    const observation = {
      decided: decided.maintenance,
      maintenance: this.object(seen.maintenance),
      ownJob: undefined,
      nodes: decided.nodes,
      selected: selectedIn(seen.nodes, seen.maintenance.selected),
      podsOn: podsIn(seen.pods),
      agentOf: () => noAgent,
      isLeftRunning: () => false,
      jobs: jobsIn(seen.jobs),
    };
    if (isContradicted(observation)) return this.#publication(decided, pendingVerification);
    const work = workOfOthers(observation);
    if (work.length > 0) return this.#publication(decided, { kind: 'Working', work });
    const attachments = seen.attachments
      .filter((node) => decided.nodes.includes(node))
      .map((node) => ({ metadata: { name: node }, spec: { nodeName: node, source: {} } }));
    const volumes = pendingDetachments(attachments, [], () => undefined);
    if (volumes.length > 0) return this.#publication(decided, { kind: 'Attached', volumes });
    const change = changeOf(decided, nothingLeft, true);
    return { kind: 'WriteAt', version, readAt, change, of: identityOf(decided) };
  }

  #publication(decided: Decided, verification: Verification): Next {
    return { kind: 'Write', change: changeOf(decided, verification, false) };
  }

  #write(change: StatusChange, readAt: number | undefined): void {
    const before = isDrained(this.object());
    this.status = change(this.status);
    this.version += 1;
    if (before || !isDrained(this.object())) return;
    this.written += 1;
    // Only a verified write makes it True, and nothing existed all the time from the first read until the write that contradicts it.
    expect(readAt).toBeDefined();
    const during = this.history.slice(readAt);
    for (const node of nodeNames) {
      const isSelected = during.every((world) =>
        selectedIn(world.nodes, world.maintenance.selected).includes(node),
      );
      for (const what of ['pods', 'attachments', 'jobs'] as const)
        expect({
          node,
          what,
          lies: isSelected && during.every((world) => world[what].includes(node)),
        }).toEqual({
          node,
          what,
          lies: false,
        });
    }
    expect(during.map(({ maintenance }) => maintenance.generation)).toEqual(
      during.map(() => this.world.maintenance.generation),
    );
  }
}

const nothingLeft: Verification = { kind: 'Verified', volumes: [] };
const identityOf = ({ maintenance, nodes }: Decided) => [maintenance.metadata.generation, ...nodes].join(' ');

const selectedIn = (nodes: World['nodes'], selected: readonly string[]) =>
  nodeNames.filter((node) => selected.includes(nodes[node] ?? ''));

const podsOfNodes = new Map(nodeNames.map((node) => [node, [pod({ name: `p-${node}` })]] as const));
const podsIn =
  (nodes: readonly string[]) =>
  (node: string): readonly Pod[] =>
    nodes.includes(node) ? (podsOfNodes.get(node) ?? []) : [];

const jobsIn = (nodes: readonly string[]): Job[] =>
  nodes.map((node) => ({
    metadata: {
      name: `j-${node}`,
      namespace: WORK_NAMESPACE,
      uid: node,
      annotations: { [WindowAnnotation.Node]: node },
    },
    spec: { template: {} },
  }));

function decisionOn(
  nodes: readonly string[],
  pods: readonly string[],
  { drainPosition }: NodeMaintenanceStatus,
) {
  const own = { name: 'own', createdAt: now, plan, position: drainPosition, nodes };
  return decideDrain({
    maintenance: 'own',
    maintenances: [own],
    nodes: nodes.map((name) => ({
      name,
      pods: podsIn(pods)(name).map((one) => ({ pod: one, evacuating: true })),
      reached: [],
    })),
    waiting: [],
    published: new Map(),
  });
}

const changeOf =
  ({ maintenance, decision }: Decided, verification: Verification, mayBecomeDrained: boolean): StatusChange =>
  (status) =>
    withDrain(status, decision, {
      planLength: plan.length,
      now,
      existing: new Set(nodeNames),
      generation: maintenance.metadata.generation,
      verification,
      mayBecomeDrained,
    });

describe('the condition Drained, for any order of changes and of informer events', () => {
  test('becomes True only if nothing that contradicts it existed since the object was read, and is true in the end', () => {
    let written = 0;
    fc.assert(
      fc.property(fc.array(someCommand, { maxLength: 120, size: 'max' }), (commands) => {
        const model = new Model();
        for (const command of commands) model.run(command);
        const { world } = model;
        model.settle();
        const selected = selectedIn(world.nodes, world.maintenance.selected);
        const isFree = selected.every((node) =>
          [world.pods, world.attachments, world.jobs].every((on) => !on.includes(node)),
        );
        expect(isDrained(model.object())).toBe(selected.length > 0 && isFree);
        written += model.written;
      }),
      { numRuns: 300 },
    );
    // The property is about something.
    expect(written).toBeGreaterThan(150);
  });
});
