import { isDeepStrictEqual } from 'node:util';
import { DEFAULT_NODE_BUDGET, type NodeBudget, type NodeClaim } from '../api/nodeBudget.ts';
import { FIELD_MANAGER, NODE_BUDGET_NAME, TurnAnnotation, WINDOW_LABEL } from '../api/names.ts';
import { withCondition } from '../domain/conditions.ts';
import { limitOf, outOfService } from '../domain/nodeBudget.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources } from '../kube/resources.ts';
import type { Deps } from './deps.ts';

/** The budget of the cluster as one decision sees it. */
export interface BudgetView {
  claims: readonly NodeClaim[];
  /** Nodes of the cluster that may be out of service. */
  allowed: number;
  /** Nodes that are, and why. */
  out: ReadonlyMap<string, string>;
}

type BudgetDeps = Pick<Deps, 'cluster'>;

const attempts = 8;
/** A claim whose turn was never created, or is gone, counts for this long: a worker that died may come back to it. Milliseconds. */
const orphanAfter = 120_000;

/** The NodeBudget; the first who looks makes one with the default. */
export async function readBudget({ cluster: { kube } }: BudgetDeps): Promise<NodeBudget> {
  const found = await kube.get(resources.nodeBudgets, { name: NODE_BUDGET_NAME });
  if (found !== undefined) return found;
  const made = { metadata: { name: NODE_BUDGET_NAME }, spec: { maxUnavailable: DEFAULT_NODE_BUDGET } };
  try {
    return await kube.create<NodeBudget>(resources.nodeBudgets, made, { fieldManager: FIELD_MANAGER });
  } catch (error) {
    if (!isKubeError(error, 'AlreadyExists')) throw error;
    return readBudget({ cluster: { kube } as Deps['cluster'] });
  }
}

export function viewOf({ cluster }: BudgetDeps, { spec, status }: NodeBudget): BudgetView {
  const nodes = cluster.nodes.list();
  const claims = status?.claims ?? [];
  const out = outOfService({ nodes, maintenances: cluster.maintenances.list(), claims });
  return { claims, allowed: limitOf(spec.maxUnavailable, nodes.length), out };
}

/**
 * Changes the claims of one window as `decide` wants on the newest budget, and resolves with the budget then. Written under the
 * resourceVersion that was decided on: of windows that decide at the same moment one is first, and the others decide anew.
 */
export async function claimNodes(
  deps: BudgetDeps,
  window: string,
  decide: (view: BudgetView) => { claim: readonly string[]; release: readonly string[] },
): Promise<NodeBudget> {
  const { kube, nodes } = deps.cluster;
  for (let attempt = 1; ; attempt++) {
    const read = await readBudget(deps);
    const budget = withoutOrphans(deps, read);
    const view = viewOf(deps, budget);
    const { claim, release } = decide(view);
    const claims = changed(view.claims, { window, claim, release, since: kube.now().toISOString() });
    if (isDeepStrictEqual(claims, read.status?.claims ?? [])) return budget;
    const out = new Set([...view.out.keys(), ...claim]).size - release.length;
    const facts = {
      type: 'Exhausted',
      status: out >= view.allowed ? ('True' as const) : ('False' as const),
      reason: out >= view.allowed ? 'NoNodeToSpare' : 'NodesToSpare',
      message: '',
    };
    const { uid, resourceVersion, generation = 0 } = read.metadata;
    const status = {
      observedGeneration: generation,
      nodes: nodes.list().length,
      allowed: view.allowed,
      outOfService: Math.max(0, out),
      claims,
      conditions: withCondition(read.status?.conditions ?? [], facts, kube.now().toISOString()),
    };
    try {
      return await kube.mergePatch(
        resources.nodeBudgets,
        { name: NODE_BUDGET_NAME },
        { metadata: { uid, resourceVersion }, status },
        { subresource: 'status', fieldManager: FIELD_MANAGER },
      );
    } catch (error) {
      if (!isKubeError(error, 'Conflict', 'NotFound') || attempt === attempts) throw error;
    }
  }
}

function changed(
  claims: readonly NodeClaim[],
  wanted: { window: string; claim: readonly string[]; release: readonly string[]; since: string },
): NodeClaim[] {
  const { window, claim, release, since } = wanted;
  const kept = claims.filter((one) => one.window !== window || !release.includes(one.node));
  const held = new Set(kept.map(({ node }) => node));
  return [...kept, ...claim.filter((node) => !held.has(node)).map((node) => ({ node, window, since }))];
}

/** Without claims whose turn nobody has, long after they were made. */
function withoutOrphans({ cluster }: BudgetDeps, budget: NodeBudget): NodeBudget {
  if (budget.status === undefined) return budget;
  const now = cluster.kube.now().getTime();
  const turns = new Set(
    cluster.maintenances
      .list()
      .map(
        ({ metadata: { labels, annotations } }) =>
          `${labels?.[WINDOW_LABEL]}/${annotations?.[TurnAnnotation.Node]}`,
      ),
  );
  const claims = budget.status.claims.filter(
    ({ node, window, since }) => turns.has(`${window}/${node}`) || now - Date.parse(since) < orphanAfter,
  );
  return { ...budget, status: { ...budget.status, claims } };
}
