/** The nodes that a benchmark drains, and the pods on each of them when the clock starts. */
export interface Workload {
  nodes: number;
  podsPerNode: number;
}

/** How the nodes of a drain belong to maintenances: one of all, one of each, or two that have a third of the nodes in common. */
export type Division = 'One' | 'Each' | 'Overlapping';

export type Benchmark =
  /** Measures how long a drain takes and what it costs; cold, it is the first one after the start of the target. */
  | { kind: 'Drain'; name: string; workload: Workload; division: Division; isWarm: boolean }
  /** Measures how many evictions per second are rejected while a PodDisruptionBudget blocks all of them. */
  | { kind: 'Blocked'; name: 'pdb'; workload: Workload; seconds: number }
  /** Measures how fast pods behind one PodDisruptionBudget leave, and how soon an allowed disruption is used. */
  | { kind: 'Budget'; name: 'budget'; workload: Workload; maxUnavailable: number }
  /** Measures how soon nodes that join at the same time accept pods once their readiness gates are Ready. */
  | { kind: 'Readiness'; name: string; nodes: number; gates: number }
  /** Measures what maintenances cost that are only held, for some seconds. */
  | { kind: 'Held'; name: string; maintenances: number; seconds: number }
  /** Measures what a worker costs in clusters of up to this size while no maintenance is open. */
  | { kind: 'Idle'; name: string; nodes: number; podsPerNode: number }
  /** Measures what ordinary requests cost the apiserver, beside a control plane without this project. */
  | { kind: 'Traffic'; name: string; rounds: number }
  /** Measures how long requests of others take with this number of complete maintenances and of nodes. */
  | { kind: 'Policies'; name: string; objects: number }
  /** Measures how long a drain stands still when the worker that leads is killed. */
  | { kind: 'TakeOver'; name: string; workload: Workload; runs: number };

export type BenchmarkOf<Kind extends Benchmark['kind']> = Extract<Benchmark, { kind: Kind }>;

/** Successors of a leader that is killed: a worker that runs already, or one that is started then. */
export const successors = ['standby', 'cold restart'] as const;
export type Successor = (typeof successors)[number];

/** Parses the name of a benchmark on the command line. Returns undefined for an unknown name. */
export function parseBenchmark(name: string): Benchmark | undefined {
  if (name === 'pdb') return { kind: 'Blocked', name, workload: { nodes: 1, podsPerNode: 300 }, seconds: 20 };
  if (name === 'budget')
    return { kind: 'Budget', name, workload: { nodes: 4, podsPerNode: 250 }, maxUnavailable: 10 };
  for (const { pattern, benchmarkOf } of numbered) {
    const match = pattern.exec(name);
    if (match !== null) return benchmarkOf(name, match.slice(1).map(numberOf));
  }
  return undefined;
}

interface Numbered {
  pattern: RegExp;
  /** A number that was not given is undefined. */
  benchmarkOf: (name: string, numbers: (number | undefined)[]) => Benchmark | undefined;
}

/** Benchmarks whose name contains numbers. */
const numbered: readonly Numbered[] = [
  {
    pattern: /^takeover(?::(\d+))?$/,
    benchmarkOf: (name, [runs = 20]) => ({
      kind: 'TakeOver',
      name,
      workload: { nodes: 1, podsPerNode: 10 },
      runs,
    }),
  },
  {
    pattern: /^traffic(?::(\d+))?$/,
    benchmarkOf: (name, [rounds = 10]) => (rounds < 1 ? undefined : { kind: 'Traffic', name, rounds }),
  },
  {
    pattern: /^policies:(\d+)$/,
    benchmarkOf: (name, [objects = 0]) => (objects < 1 ? undefined : { kind: 'Policies', name, objects }),
  },
  {
    pattern: /^readiness:(\d+)x(\d+)$/,
    benchmarkOf: (name, [nodes = 0, gates = 0]) => ({ kind: 'Readiness', name, nodes, gates }),
  },
  {
    pattern: /^held:(\d+)(?:x(\d+))?$/,
    benchmarkOf: (name, [maintenances = 0, seconds = 120]) => ({ kind: 'Held', name, maintenances, seconds }),
  },
  {
    pattern: /^idle:(\d+)x(\d+)$/,
    benchmarkOf: (name, [nodes = 0, podsPerNode = 0]) =>
      nodes < 4 || podsPerNode > maxPodsPerNode ? undefined : { kind: 'Idle', name, nodes, podsPerNode },
  },
  {
    pattern: /^(\d+)x(\d+)$/,
    benchmarkOf: (name, numbers) => drainOf(name, numbers, { division: 'One', isWarm: true }),
  },
  {
    pattern: /^cold:(\d+)x(\d+)$/,
    benchmarkOf: (name, numbers) => drainOf(name, numbers, { division: 'One', isWarm: false }),
  },
  {
    pattern: /^each:(\d+)x(\d+)$/,
    benchmarkOf: (name, numbers) => drainOf(name, numbers, { division: 'Each', isWarm: true }),
  },
  {
    pattern: /^overlap:(\d+)x(\d+)$/,
    benchmarkOf: (name, [nodes = 0, podsPerNode]) =>
      nodes % 2 === 1
        ? undefined
        : drainOf(name, [(nodes * 3) / 2, podsPerNode], { division: 'Overlapping', isWarm: true }),
  },
];

function drainOf(
  name: string,
  [nodes = 0, podsPerNode = 0]: readonly (number | undefined)[],
  how: { division: Division; isWarm: boolean },
): Benchmark | undefined {
  if (nodes < 1 || podsPerNode < 1 || podsPerNode > maxPodsPerNode) return undefined;
  return { kind: 'Drain', name, workload: { nodes, podsPerNode }, ...how };
}

function numberOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Number(text);
}

/** Pod capacity of a kwok node of the sandbox. */
const maxPodsPerNode = 500;
/** Leaves room for every replacement without filling a node completely. */
const replacementsPerNode = 400;

/** Returns the nodes of each maintenance. */
export function divide(nodes: readonly string[], division: Division): string[][] {
  if (division === 'Each') return nodes.map((node) => [node]);
  if (division === 'One') return [[...nodes]];
  const size = (nodes.length * 2) / 3;
  return [nodes.slice(0, size), nodes.slice(-size)];
}

export function podsOf({ nodes, podsPerNode }: Workload): number {
  return nodes * podsPerNode;
}

/** Returns the number of sandbox nodes that gives each benchmark its nodes and room for the evicted pods. */
export function nodesFor(benchmarks: readonly Benchmark[]): number {
  const needed = benchmarks
    // The others add and remove nodes of their own.
    .flatMap((benchmark) => ('workload' in benchmark ? [benchmark.workload] : []))
    .map((workload) => workload.nodes + 1 + Math.ceil(podsOf(workload) / replacementsPerNode));
  return Math.max(1, ...needed);
}
