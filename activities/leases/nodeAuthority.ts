import type { Node } from '../../api/core.ts';
import { REQUESTER_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Requester } from '../../api/requester.ts';
import {
  authorityOf,
  decideNode,
  denialOf,
  NodeDecision,
  nodeOfAgent,
} from '../../domain/common/requester.ts';
import { listed } from '../../domain/common/names.ts';
import type { DeniedNode } from '../../domain/common/nodePermission.ts';
import { hasCordonRecord } from '../../domain/maintenance/status.ts';
import type { InjectedDeps } from '../injectedDeps.ts';
import { selectedNodes } from '../view.ts';

/** The decision for a node that the maintenance selects; undefined for any other. */
type Decisions = (maintenance: NodeMaintenance, node: string) => NodeDecision | undefined;

/**
 * Decides which nodes a maintenance may change, from the permissions of the user who requested it (ADR 27). Its state only saves requests
 * and Events.
 */
export class NodeAuthority {
  readonly #deps: Pick<InjectedDeps, 'events' | 'namespace' | 'permissions'>;
  /** UID of a maintenance -> the denied nodes in its latest Event, with their decisions. */
  readonly #reported = new Map<string, ReadonlyMap<string, string>>();

  constructor(deps: Pick<InjectedDeps, 'events' | 'namespace' | 'permissions'>) {
    this.#deps = deps;
  }

  forget(uid: string): void {
    this.#reported.delete(uid);
  }

  /** Resolves with the decision for each node, and records an Event if nodes are denied that were not before. */
  async decide(
    maintenance: NodeMaintenance,
    nodes: readonly Node[],
  ): Promise<{ decisions: ReadonlyMap<string, NodeDecision>; denied: DeniedNode[] }> {
    const decisions = await this.#decisionsOf(maintenance, nodes);
    const because = denialOf(authorityOf(maintenance.metadata.annotations?.[REQUESTER_ANNOTATION]));
    const denied = [...decisions].flatMap(([name, decision]): DeniedNode[] => {
      if (decision === NodeDecision.Proceed) return [];
      return [{ name, because, permission: decision === NodeDecision.Hold ? 'Withdrawn' : 'Denied' }];
    });
    this.#report(maintenance, denied);
    return { decisions, denied };
  }

  /** Resolves with the decisions of all these maintenances for the nodes that they select. */
  async decideAll(maintenances: readonly NodeMaintenance[], nodes: readonly Node[]): Promise<Decisions> {
    const byUid = new Map<string, ReadonlyMap<string, NodeDecision>>();
    for (const maintenance of maintenances) {
      const { uid = '' } = maintenance.metadata;
      byUid.set(uid, await this.#decisionsOf(maintenance, selectedNodes(maintenance, nodes)));
    }
    return ({ metadata: { uid = '' } }, node) => byUid.get(uid)?.get(node);
  }

  async #decisionsOf(
    maintenance: NodeMaintenance,
    nodes: readonly Node[],
  ): Promise<Map<string, NodeDecision>> {
    const authority = authorityOf(maintenance.metadata.annotations?.[REQUESTER_ANNOTATION]);
    const started = new Set(
      maintenance.status?.nodeStatuses.filter(hasCordonRecord).map(({ nodeRef }) => nodeRef.name),
    );
    const reviewed = nodes.map(({ metadata: { name } }) => ({ name, isStarted: started.has(name) }));
    const permitted =
      authority.kind === 'User' ? await this.#permitted(authority.requester, reviewed) : undefined;
    const isPermitted = (name: string) => permitted?.has(name) ?? authority.kind === 'Window';
    return new Map(reviewed.map(({ name, isStarted }) => [name, decideNode(isPermitted(name), isStarted)]));
  }

  /** The agent of a node may maintain it, and no other, without the permission to delete it. */
  async #permitted(
    requester: Requester,
    nodes: readonly { name: string; isStarted: boolean }[],
  ): Promise<ReadonlySet<string>> {
    const own = nodeOfAgent(requester, this.#deps.namespace);
    const others = nodes.filter(({ name }) => name !== own);
    const permitted = await this.#deps.permissions.permitted(requester, others);
    return others.length === nodes.length || own === undefined ? permitted : new Set([...permitted, own]);
  }

  #report(maintenance: NodeMaintenance, denied: readonly DeniedNode[]): void {
    const { uid = '' } = maintenance.metadata;
    const before = this.#reported.get(uid) ?? reportedIn(maintenance);
    const added = denied.filter(({ name, permission }) => before.get(name) !== permission);
    this.#reported.set(uid, new Map(denied.map(({ name, permission }) => [name, permission])));
    for (const permission of ['Denied', 'Withdrawn'] as const) {
      const nodes = added.filter((node) => node.permission === permission);
      const [first] = nodes;
      if (first === undefined) continue;
      const what =
        permission === 'Denied' ? 'skipped' : 'held until Complete, and nothing more is started there';
      const noun = nodes.length === 1 ? 'Node' : 'Nodes';
      const message = `${noun} ${listed(nodes.map(({ name }) => name))} ${nodes.length === 1 ? 'is' : 'are'} ${what}: ${first.because}.`;
      this.#deps.events.record(maintenance, { type: 'Warning', reason: 'NodeNotAuthorized', message });
    }
  }
}

/** Another process has reported the nodes that the status names. */
function reportedIn(maintenance: NodeMaintenance): ReadonlyMap<string, string> {
  const denied = maintenance.status?.nodeStatuses.filter(({ authorized }) => authorized === false) ?? [];
  return new Map(denied.map((node) => [node.nodeRef.name, hasCordonRecord(node) ? 'Withdrawn' : 'Denied']));
}
