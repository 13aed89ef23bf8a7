import { isDeepStrictEqual } from 'node:util';
import {
  DEFAULT_NODE_BUDGET,
  type NodeBudget,
  type NodeBudgetStatus,
  type NodeClaim,
} from '../api/nodeBudget.ts';
import { FIELD_MANAGER, NODE_BUDGET_NAME, WINDOW_LABEL } from '../api/names.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { type ClaimedTurn, limitOf, measured, outOfService, stands } from '../domain/nodeBudget.ts';
import { isKubeError } from '../kube/errors.ts';
import { resources, versionOf } from '../kube/resources.ts';
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

/** The NodeBudget as the informer has it, unless what was written here is newer. */
export async function seenBudget(deps: BudgetDeps, written: NodeBudget | undefined): Promise<NodeBudget> {
  const seen = deps.cluster.nodeBudgets.get(NODE_BUDGET_NAME);
  if (seen === undefined) return readBudget(deps);
  if (written === undefined || written.metadata.uid !== seen.metadata.uid) return seen;
  return versionOf(written) > versionOf(seen) ? written : seen;
}

export function viewOf(
  { cluster }: BudgetDeps,
  { spec }: NodeBudget,
  claims: readonly NodeClaim[],
): BudgetView {
  const nodes = cluster.nodes.list();
  const out = outOfService({ nodes, maintenances: cluster.maintenances.list(), claims });
  return { claims, allowed: limitOf(spec.maxUnavailable, nodes.length), out };
}

/** The claims of a budget that still stand, as the window that asks sees them. */
export async function standingClaims(
  { cluster }: BudgetDeps,
  asking: string,
  { status }: NodeBudget,
): Promise<readonly NodeClaim[]> {
  const claims = status?.claims ?? [];
  const now = cluster.kube.now().getTime();
  const judged = (turns: readonly ClaimedTurn[]) =>
    claims.filter((claim) => stands(claim, { turns, asking, now }));
  const seen = claimedTurns(cluster.maintenances.list());
  const standing = judged(seen);
  if (standing.length === claims.length) return claims;
  // The informer may be behind: a claim is given up only on the word of the apiserver.
  const doubted = new Set(claims.filter((claim) => !standing.includes(claim)).map(({ window }) => window));
  const labelSelector = `${WINDOW_LABEL} in (${[...doubted].join(',')})`;
  const { items } = await cluster.kube.list(resources.nodeMaintenances, { labelSelector });
  return judged([...seen.filter(({ window }) => !doubted.has(window)), ...claimedTurns(items)]);
}

/**
 * Claims the nodes that `decide` wants on the newest budget, without the claims that do not stand any more, and resolves with the
 * budget then. Written under the resourceVersion that was decided on: of windows that decide at the same moment one is first, and
 * the others decide anew.
 */
export async function claimNodes(
  deps: BudgetDeps,
  window: string,
  decide: (view: BudgetView) => readonly string[],
): Promise<NodeBudget> {
  const { kube } = deps.cluster;
  for (let attempt = 1; ; attempt++) {
    const read = await readBudget(deps);
    const standing = await standingClaims(deps, window, read);
    const held = new Set(standing.map(({ node }) => node));
    const since = kube.now().toISOString();
    const wanted = decide(viewOf(deps, read, standing)).filter((node) => !held.has(node));
    const claims = [...standing, ...wanted.map((node) => ({ node, window, since }))];
    if (isDeepStrictEqual(claims, read.status?.claims ?? [])) return read;
    const { uid, resourceVersion } = read.metadata;
    try {
      return await kube.mergePatch(
        resources.nodeBudgets,
        { name: NODE_BUDGET_NAME },
        { metadata: { uid, resourceVersion }, status: statusWith(deps, read, claims) },
        { subresource: 'status', fieldManager: FIELD_MANAGER },
      );
    } catch (error) {
      if (!isKubeError(error, 'Conflict', 'NotFound') || attempt === attempts) throw error;
    }
  }
}

function statusWith({ cluster }: BudgetDeps, budget: NodeBudget, claims: NodeClaim[]): NodeBudgetStatus {
  const sight = { nodes: cluster.nodes.list(), maintenances: cluster.maintenances.list(), claims };
  return { ...measured(budget, sight, cluster.kube.now().toISOString()), claims };
}
