import type { Node } from '../../api/core.ts';
import type { EventContent } from '../../kube/events.ts';
import type { AgentDeps } from '../deps.ts';

export type NodeEvent = Pick<EventContent, 'type' | 'reason' | 'message'>;

/** Maximum number of Events that wait for the apiserver: those of a long outage are reported after it. */
const maxWaiting = 100;

/** Records Events about the Node. Those of an outage wait for the apiserver. */
export class NodeEvents {
  readonly #deps: Pick<AgentDeps, 'events' | 'node'>;
  #waiting: NodeEvent[] = [];
  #isAnswered = false;

  constructor(deps: Pick<AgentDeps, 'events' | 'node'>) {
    this.#deps = deps;
  }

  record(node: Readonly<Node> | undefined, event: NodeEvent): void {
    if (this.#isAnswered) this.#write(node, event);
    else this.#waiting = [...this.#waiting, event].slice(-maxWaiting);
  }

  /** Events are written from now on. */
  flush(node: Readonly<Node> | undefined): void {
    this.#isAnswered = true;
    for (const event of this.#waiting) this.#write(node, event);
    this.#waiting = [];
  }

  /** The apiserver does not answer: Events wait from now on. */
  hold(): void {
    this.#isAnswered = false;
  }

  #write(node: Readonly<Node> | undefined, event: NodeEvent): void {
    const { events, node: name } = this.#deps;
    events.record({ apiVersion: 'v1', kind: 'Node', name, uid: node?.metadata.uid }, event);
  }
}
