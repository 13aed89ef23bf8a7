import type { Node } from '../api/core.ts';
import type { Kube } from '../kube/client.ts';
import { Informer } from '../kube/informer.ts';
import type { Log } from '../kube/log.ts';
import { resources } from '../kube/resources.ts';

/** The Node of this host, which all parts of the agent share: one watch per node. */
export interface NodeWatch {
  /** Returns the Node as it was observed last. Undefined before the first list, and while the Node does not exist. */
  current(): Readonly<Node> | undefined;
  /** Calls the handler with the Node if it is known, then after each change; undefined if the Node was deleted. Returns what ends that. */
  subscribe(handler: (node: Readonly<Node> | undefined) => void): () => void;
  /** Resolves when the Node was listed for the first time. */
  synced(signal?: AbortSignal): Promise<void>;
}

/** Watches the Node until the signal aborts. */
export function watchNode(
  { kube, node: name, log }: { kube: Kube; node: string; log: Log },
  signal: AbortSignal,
): NodeWatch {
  const fieldSelector = `metadata.name=${name}`;
  const nodes = new Informer<Node>({ kube, resource: resources.nodes, fieldSelector, log });
  nodes.start(signal);
  return {
    current: () => nodes.get(name),
    subscribe: (handler) =>
      nodes.subscribe(({ type, object }) => handler(type === 'Deleted' ? undefined : object)),
    synced: (until) => nodes.synced(until),
  };
}
