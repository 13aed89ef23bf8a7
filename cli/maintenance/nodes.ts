import type { NodeSelector } from '../../api/core.ts';
import { compareNames, listed } from '../../domain/common/names.ts';
import { parseNodeSelector } from '../../domain/common/nodeSelectorText.ts';
import { selectsNode } from '../../domain/common/nodeSelector.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { CommandError, UsageError } from '../output.ts';

/** The selected nodes: by name, or by a label selector, as in kubectl drain. */
export interface NodeChoice {
  readonly nodes: readonly string[];
  readonly selector?: string | undefined;
}

/** The fields of a maintenance that select the nodes, and the names of the nodes that match now. */
export interface ChosenNodes {
  readonly fields: { readonly nodes: string[] } | { readonly nodeSelector: NodeSelector };
  readonly names: readonly string[];
}

/** Resolves the selection. Rejects with a UsageError if it is invalid, and with a CommandError that names missing nodes. */
export async function chosenNodes(kube: Kube, { nodes, selector }: NodeChoice): Promise<ChosenNodes> {
  if (selector !== undefined && nodes.length > 0)
    throw new UsageError('specify node names or --selector, not both');
  if (selector === undefined && nodes.length === 0) throw new UsageError('specify node names or --selector');
  const { items } = await kube.list(resources.nodes);
  if (selector === undefined) return named(nodes, new Set(items.map(({ metadata }) => metadata.name)));
  const parsed = parseNodeSelector(selector);
  if (!parsed.ok) throw new UsageError(`--selector: ${parsed.problem}`);
  const nodeSelector = { nodeSelectorTerms: [{ matchExpressions: parsed.requirements }] };
  const names = items.filter((node) => selectsNode(nodeSelector, node)).map(({ metadata }) => metadata.name);
  if (names.length === 0)
    throw new CommandError(
      `--selector: no node matches ${selector}; kubectl get nodes --show-labels lists them`,
    );
  return { fields: { nodeSelector }, names: names.toSorted(compareNames) };
}

function named(nodes: readonly string[], existing: ReadonlySet<string>): ChosenNodes {
  // Sorted so that the order of the arguments does not matter.
  const names = [...new Set(nodes.map((node) => node.replace(/^nodes?\//, '')))].toSorted(compareNames);
  const missing = names.filter((name) => !existing.has(name)).map((name) => `"${name}"`);
  if (missing.length > 0)
    throw new CommandError(
      `${missing.length === 1 ? 'node' : 'nodes'} ${listed(missing)} not found; kubectl get nodes lists them`,
    );
  return { fields: { nodes: names }, names };
}
