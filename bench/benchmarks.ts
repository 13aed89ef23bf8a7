/** The nodes that a benchmark drains, and the pods on each of them when the clock starts. */
export interface Workload {
  nodes: number;
  podsPerNode: number;
}

export type Benchmark =
  /** Measures how long a drain takes and what it costs. */
  | { kind: 'Drain'; name: string; workload: Workload }
  /** Measures how many evictions per second are rejected while a PodDisruptionBudget blocks all of them. */
  | { kind: 'Blocked'; name: 'pdb'; workload: Workload; seconds: number }
  /** Measures how fast pods behind one PodDisruptionBudget leave, and how soon an allowed disruption is used. */
  | { kind: 'Budget'; name: 'budget'; workload: Workload; maxUnavailable: number }
  /** Measures how soon nodes that join at the same time accept pods once their readiness gates are Ready. */
  | { kind: 'Readiness'; name: string; nodes: number; gates: number };

export type BenchmarkOf<Kind extends Benchmark['kind']> = Extract<Benchmark, { kind: Kind }>;

/** Parses the name of a benchmark on the command line. Returns undefined for an unknown name. */
export function parseBenchmark(name: string): Benchmark | undefined {
  if (name === 'pdb') return { kind: 'Blocked', name, workload: { nodes: 1, podsPerNode: 300 }, seconds: 20 };
  if (name === 'budget')
    return { kind: 'Budget', name, workload: { nodes: 4, podsPerNode: 250 }, maxUnavailable: 10 };
  const [, gatedNodes, gates] = /^readiness:(\d+)x(\d+)$/.exec(name) ?? [];
  if (gates !== undefined)
    return { kind: 'Readiness', name, nodes: Number(gatedNodes), gates: Number(gates) };
  const [, nodes = 0, podsPerNode = 0] = (/^(\d+)x(\d+)$/.exec(name) ?? []).map(Number);
  if (nodes < 1 || podsPerNode < 1 || podsPerNode > maxPodsPerNode) return undefined;
  return { kind: 'Drain', name, workload: { nodes, podsPerNode } };
}

/** Pod capacity of a kwok node of the sandbox. */
const maxPodsPerNode = 500;
/** Leaves room for every replacement without filling a node completely. */
const replacementsPerNode = 400;

export function podsOf({ nodes, podsPerNode }: Workload): number {
  return nodes * podsPerNode;
}

/** Returns the number of sandbox nodes that gives each benchmark its nodes and room for the evicted pods. */
export function nodesFor(benchmarks: readonly Benchmark[]): number {
  const needed = benchmarks
    // The readiness benchmark adds and removes nodes of its own.
    .flatMap((benchmark) => (benchmark.kind === 'Readiness' ? [] : [benchmark.workload]))
    .map((workload) => workload.nodes + 1 + Math.ceil(podsOf(workload) / replacementsPerNode));
  return Math.max(1, ...needed);
}
