/** Nodes that are drained, and the pods that each of them carries when the clock starts. */
export interface Scene {
  nodes: number;
  podsPerNode: number;
}

export type Work =
  /** How long a drain takes, and what it costs. */
  | { kind: 'Drain'; name: string; scene: Scene }
  /** How often evictions are refused while a budget blocks them all. */
  | { kind: 'Blocked'; name: 'pdb'; scene: Scene; seconds: number }
  /** How fast pods leave that share one budget, and how long a disruption that it allows lies idle. */
  | { kind: 'Budget'; name: 'budget'; scene: Scene; maxUnavailable: number }
  /** How the workflow's history grows with the number of pods. */
  | { kind: 'History'; name: 'history'; small: Scene; large: Scene }
  /** How fast nodes that join at once take pods when the pods of their gates are Ready. */
  | { kind: 'Readiness'; name: string; nodes: number; gates: number };

export type WorkOf<Kind extends Work['kind']> = Extract<Work, { kind: Kind }>;

/** A work by its name on the command line; undefined for a name that means none. */
export function parseWork(name: string): Work | undefined {
  if (name === 'pdb') return { kind: 'Blocked', name, scene: { nodes: 1, podsPerNode: 300 }, seconds: 20 };
  if (name === 'budget')
    return { kind: 'Budget', name, scene: { nodes: 4, podsPerNode: 250 }, maxUnavailable: 10 };
  if (name === 'history') {
    const [small, large] = [25, 250].map((podsPerNode) => ({ nodes: 1, podsPerNode })) as [Scene, Scene];
    return { kind: 'History', name, small, large };
  }
  const [, gatedNodes, gates] = /^readiness:(\d+)x(\d+)$/.exec(name) ?? [];
  if (gates !== undefined)
    return { kind: 'Readiness', name, nodes: Number(gatedNodes), gates: Number(gates) };
  const [, nodes = 0, podsPerNode = 0] = (/^(\d+)x(\d+)$/.exec(name) ?? []).map(Number);
  if (nodes < 1 || podsPerNode < 1 || podsPerNode > podsOfNode) return undefined;
  return { kind: 'Drain', name, scene: { nodes, podsPerNode } };
}

/** What a kwok node of the sandbox carries. */
const podsOfNode = 500;
/** Room for every replacement, without filling a node to the brim. */
const replacementsPerNode = 400;

export function podsOf({ nodes, podsPerNode }: Scene): number {
  return nodes * podsPerNode;
}

/** Nodes with gates are added, and leave again. */
function scenesOf(work: Work): Scene[] {
  if (work.kind === 'Readiness') return [];
  return work.kind === 'History' ? [work.small, work.large] : [work.scene];
}

/** Nodes of a sandbox in which every one of the works finds its nodes and room for the pods that leave them. */
export function nodesFor(works: readonly Work[]): number {
  const needed = works
    .flatMap(scenesOf)
    .map((scene) => scene.nodes + 1 + Math.ceil(podsOf(scene) / replacementsPerNode));
  return Math.max(1, ...needed);
}
