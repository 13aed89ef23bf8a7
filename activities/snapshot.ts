import type { Node, Pod } from '../api/core.ts';
import { WORK_NAMESPACE } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import type { DrainingMaintenance } from '../domain/contention.ts';
import type { DrainSnapshot } from '../domain/drain.ts';
import { type DrainTargets, join } from '../domain/drainTargets.ts';
import { isTouched } from '../domain/status.ts';
import { isWork, type PodSnapshot } from '../domain/pod.ts';
import { forEachBounded } from '../kube/bounded.ts';
import { byNode, type Cluster } from '../kube/cluster.ts';
import { resources } from '../kube/resources.ts';
import { slimPod } from '../kube/slim.ts';
import type { HeldView } from './nodeHolds.ts';
import { isDraining, planOf, selectedNodes } from './view.ts';

/** What a snapshot is taken of. */
export interface Sight {
  maintenances: readonly NodeMaintenance[];
  podsOn(node: string): readonly Pod[];
}

/** A sight, and which nodes may be touched. */
export type HeldSight = Sight & { isHeld(node: string): boolean };

/** What the informers have. */
export function cachedSight({ maintenances, pods }: Cluster): Sight {
  return {
    maintenances: maintenances.list(),
    podsOn: (node) => pods.byIndex(byNode, node).filter(mayLeave),
  };
}

function mayLeave(pod: Pod): boolean {
  return !isWork(pod, WORK_NAMESPACE);
}

const nodesAtOnce = 8;

/** What the apiserver has of these nodes, for a decision that must not rest on two informers that differ by a moment. */
export async function freshSight({ kube }: Cluster, names: readonly string[]): Promise<Sight> {
  const { items: maintenances } = await kube.list(resources.nodeMaintenances);
  const pods = new Map<string, Pod[]>();
  await forEachBounded(nodesAtOnce, names, async (name) => {
    const { items } = await kube.list(resources.pods, { fieldSelector: `spec.nodeName=${name}` });
    pods.set(name, items.map(slimPod).filter(mayLeave));
  });
  return { maintenances, podsOn: (node) => pods.get(node) ?? [] };
}

/** A maintenance at a position, and all others in the Drain stage that share nodes with it, directly or through others. */
export function takeSnapshot(
  { maintenance, existing, held, waiting }: HeldView,
  position: number,
  sight: HeldSight,
  look: (pod: Pod) => PodSnapshot,
): DrainSnapshot {
  const others = sight.maintenances.filter(
    (one) => one.metadata.uid !== maintenance.metadata.uid && isDraining(one),
  );
  const own = { ...draining(maintenance, held), position };
  const touchable = existing.filter((node) => sight.isHeld(node.metadata.name));
  const connected = connectedTo(
    own,
    others.map((one) => draining(one, touchable)),
  );
  const touched = new Set(maintenance.status?.nodeStatuses.filter(isTouched).map((one) => one.nodeRef.name));
  const reached = reachedTargets(connected, [maintenance, ...others]);
  return {
    maintenance: own.name,
    maintenances: connected,
    nodes: [...new Set(connected.flatMap((one) => one.nodes))].map((name) => ({
      name,
      pods: sight.podsOn(name).map(look),
      reached: join(reached.get(name) ?? []),
    })),
    waiting: waiting.map((node) => ({
      ...node,
      pods: sight.podsOn(node.name).map(look),
      isTouched: touched.has(node.name),
    })),
    published: new Map(
      (maintenance.status?.nodeStatuses ?? []).map(
        ({ nodeRef, drainTargets }) => [nodeRef.name, drainTargets] as const,
      ),
    ),
  };
}

/** Node -> what each maintenance that selects it says to have reached there. */
function reachedTargets(
  connected: readonly DrainingMaintenance[],
  maintenances: readonly NodeMaintenance[],
): Map<string, DrainTargets[]> {
  const selected = new Map(connected.map((one) => [one.name, new Set(one.nodes)] as const));
  const reached = new Map<string, DrainTargets[]>();
  for (const { metadata, status } of maintenances) {
    for (const { nodeRef, drainTargets } of status?.nodeStatuses ?? []) {
      if (selected.get(metadata.name)?.has(nodeRef.name) !== true) continue;
      reached.set(nodeRef.name, [...(reached.get(nodeRef.name) ?? []), drainTargets]);
    }
  }
  return reached;
}

function draining(maintenance: NodeMaintenance, nodes: readonly Node[]): DrainingMaintenance {
  const { name, creationTimestamp = '' } = maintenance.metadata;
  const plan = planOf(maintenance);
  return {
    name,
    createdAt: creationTimestamp,
    plan,
    position: Math.min(maintenance.status?.drainPosition ?? 0, plan.length - 1),
    nodes: selectedNodes(maintenance, nodes).map((node) => node.metadata.name),
  };
}

function connectedTo(
  own: DrainingMaintenance,
  others: readonly DrainingMaintenance[],
): DrainingMaintenance[] {
  const connected = [own];
  const nodes = new Set(own.nodes);
  let apart = others;
  for (;;) {
    const joining = apart.filter((one) => one.nodes.some((node) => nodes.has(node)));
    if (joining.length === 0) return connected;
    connected.push(...joining);
    for (const node of joining.flatMap((one) => one.nodes)) nodes.add(node);
    apart = apart.filter((one) => !joining.includes(one));
  }
}
