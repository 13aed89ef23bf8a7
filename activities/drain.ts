import type { Pod } from '../api/core.ts';
import { decideDrain, type DrainSnapshot } from '../domain/drain.ts';
import { join, wishAt } from '../domain/drainTargets.ts';
import { withDrain } from '../domain/status.ts';
import { byNode, type Cluster } from '../kube/cluster.ts';
import { cordon } from './cordon.ts';
import type { DrainStep, Interrupted, MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { Evacuations } from './evacuations.ts';
import { reconcile } from './reconcile.ts';
import { StatusWriter } from './statusWriter.ts';
import { isView, look, otherHolders, planOf, type View } from './view.ts';

/**
 * Evacuates what the drain plan wants at `position`, on every selected node together; resolves with the next position at
 * which pods are left, or Drained. Pods that match earlier positions are evacuated whenever they appear.
 */
export async function drain(deps: Deps, ref: MaintenanceRef, position: number): Promise<DrainStep> {
  return runDrain(deps, ref, position, ({ view, decided }) => {
    if (view.nodes.length === 0 || decided === position) return undefined;
    const nodes = view.nodes.map((node) => node.metadata.name);
    return decided < view.plan.length
      ? { kind: 'TierDrained', position: decided, nodes }
      : { kind: 'Drained', nodes };
  });
}

/** Evacuates every pod that appears on a drained node; Drained goes False and True again meanwhile. */
export async function keepDrained(deps: Deps, ref: MaintenanceRef): Promise<Interrupted> {
  return runDrain<Interrupted>(deps, ref, Number.MAX_SAFE_INTEGER, () => undefined);
}

type Ending<T> = (turn: { view: View; decided: number }) => T | undefined;

async function runDrain<T>(
  deps: Deps,
  ref: MaintenanceRef,
  position: number,
  ending: Ending<T>,
): Promise<T | Interrupted> {
  const { cluster, events } = deps;
  const evacuations = new Evacuations(cluster);
  let writer: StatusWriter | undefined;
  let watched: ReadonlySet<string> = new Set();
  const concerns = (pod: Pod) => watched.has(pod.spec.nodeName ?? '');
  try {
    return await reconcile<T | Interrupted>(cluster, concerns, async () => {
      const view = await look(cluster, ref, 'Drain');
      if (!isView(view)) return view;
      writer ??= new StatusWriter(cluster.kube, view.maintenance);
      writer.see(view.maintenance);
      watched = new Set(view.nodes.map((node) => node.metadata.name));
      await cordon(deps, view, writer);
      const at = Math.min(position, view.plan.length - 1);
      const decision = decideDrain(snapshot(cluster, view, at, evacuations));
      const now = cluster.kube.now().toISOString();
      writer.publish((status) => withDrain(status, decision, { planLength: view.plan.length, now }));
      if (decision.evacuate.length > 0) {
        await evacuations.start(decision.evacuate);
        return undefined;
      }
      const end = ending({ view, decided: decision.position });
      if (end === undefined) return undefined;
      await writer.flush();
      announce(events, view, at, decision.position);
      return end;
    });
  } finally {
    await writer?.stop();
  }
}

function snapshot(
  { pods, maintenances }: Cluster,
  view: View,
  position: number,
  evacuations: Evacuations,
): DrainSnapshot {
  const { plan, maintenance } = view;
  const all = maintenances.list().filter((other) => other.spec.stage === 'Drain');
  const nodes = view.nodes.map((node) => {
    const name = node.metadata.name;
    const others = otherHolders(all, maintenance.metadata.uid ?? '', node);
    const reached = [maintenance, ...others].flatMap((one) =>
      (one.status?.nodeStatuses ?? []).filter((status) => status.nodeRef.name === name),
    );
    return {
      name,
      pods: pods.byIndex(byNode, name).map((pod) => ({ pod, evacuating: evacuations.has(pod) })),
      reached: join(reached.map((status) => status.drainTargets)),
      others: others.map((other) => ({
        maintenance: other.metadata.name,
        wish: wishAt(planOf(other), other.status?.drainPosition ?? 0),
      })),
    };
  });
  return { plan, position, nodes };
}

function announce(
  events: Deps['events'],
  { maintenance, plan, nodes }: View,
  from: number,
  to: number,
): void {
  const drained = to === plan.length;
  const message = drained
    ? `All pods that can be evacuated have left ${nodes.length} nodes.`
    : `Entry ${from + 1} of ${plan.length} of the drain plan is done on ${nodes.length} nodes; entry ${to + 1} is next.`;
  events.record(maintenance, { type: 'Normal', reason: drained ? 'Drained' : 'TierDrained', message });
}
