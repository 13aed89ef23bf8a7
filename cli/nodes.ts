import type { NodeSelector } from '../api/core.ts';
import { compareNames, listed } from '../domain/names.ts';
import { parseNodeSelector } from '../domain/nodeSelectorText.ts';
import { selectsNode } from '../domain/nodeSelector.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { Refusal, UsageError } from './output.ts';

/** Which nodes somebody means: by name, or by a label selector, as kubectl drain has it. */
export interface NodeChoice {
  readonly nodes: readonly string[];
  readonly selector?: string | undefined;
}

/** The fields of a maintenance that say so, and the nodes of this moment. */
export interface ChosenNodes {
  readonly fields: { readonly nodes: string[] } | { readonly nodeSelector: NodeSelector };
  readonly names: readonly string[];
}

/** Rejects with a UsageError for a choice that makes no sense, with a Refusal that names the nodes that do not exist. */
export async function chosenNodes(kube: Kube, { nodes, selector }: NodeChoice): Promise<ChosenNodes> {
  if (selector !== undefined && nodes.length > 0)
    throw new UsageError('give names of nodes or --selector, not both');
  if (selector === undefined && nodes.length === 0)
    throw new UsageError('give the names of nodes, or --selector');
  const { items } = await kube.list(resources.nodes);
  if (selector === undefined) return named(nodes, new Set(items.map(({ metadata }) => metadata.name)));
  const parsed = parseNodeSelector(selector);
  if (!parsed.ok) throw new UsageError(`--selector: ${parsed.problem}`);
  const nodeSelector = { nodeSelectorTerms: [{ matchExpressions: parsed.requirements }] };
  const names = items.filter((node) => selectsNode(nodeSelector, node)).map(({ metadata }) => metadata.name);
  if (names.length === 0)
    throw new Refusal(`--selector: no node matches ${selector}; kubectl get nodes --show-labels lists them`);
  return { fields: { nodeSelector }, names: names.toSorted(compareNames) };
}

function named(nodes: readonly string[], existing: ReadonlySet<string>): ChosenNodes {
  // Sorted, so that the same nodes in another order are the same maintenance.
  const names = [...new Set(nodes.map((node) => node.replace(/^nodes?\//, '')))].toSorted(compareNames);
  const missing = names.filter((name) => !existing.has(name)).map((name) => `"${name}"`);
  if (missing.length > 0)
    throw new Refusal(
      `there ${missing.length === 1 ? 'is no node' : 'are no nodes'} ${listed(missing)}; kubectl get nodes lists them`,
    );
  return { fields: { nodes: names }, names };
}
