import type { Pod } from '../api/core.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { needsAPerson } from '../domain/blocker.ts';
import { type DrainDecision, decideDrain } from '../domain/drain.ts';
import { glanceAt } from '../domain/glance.ts';
import { listed } from '../domain/names.ts';
import { drained as drainedNotice } from '../domain/notices.ts';
import { podName } from '../domain/pod.ts';
import { emptyStatus, withDrain } from '../domain/status.ts';
import { aboutPod } from '../kube/events.ts';
import type { DrainStep, Interrupted, MaintenanceRef } from './contract.ts';
import type { Deps } from './deps.ts';
import { Evacuations } from './evacuations.ts';
import { type HeldView, holdNodes } from './nodeHolds.ts';
import { BlockedNotices, noticedMaintenance } from './notices.ts';
import { reconcile } from './reconcile.ts';
import { cachedSight, freshSight, takeSnapshot } from './snapshot.ts';
import { StatusWriter } from './statusWriter.ts';
import { isView, look, namesOf, type View } from './view.ts';

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

/** Paused: "no new Evacuation, no new tier"; the nodes stay cordoned, and the status goes on telling what is there. */
export async function rest(deps: Deps, ref: MaintenanceRef): Promise<Interrupted> {
  return runDrain<Interrupted>(deps, ref, 'asPublished', () => undefined);
}

type Ending<T> = (turn: { view: View; decided: number }) => T | undefined;

async function runDrain<T extends object>(
  deps: Deps,
  ref: MaintenanceRef,
  position: number | 'asPublished',
  ending: Ending<T>,
): Promise<T | Interrupted> {
  const { cluster } = deps;
  const cordon = deps.cordons.of(ref.uid);
  const evacuations = new Evacuations(cluster);
  const announcer = new Announcer(deps);
  const blockedNotices = new BlockedNotices(deps.notices);
  const peaks = new Peaks();
  let writer: StatusWriter | undefined;
  let watched: ReadonlySet<string> = new Set();
  const concerns = (pod: Pod) => watched.has(pod.spec.nodeName ?? '');
  try {
    return await reconcile<T | Interrupted>(cluster, concerns, async () => {
      const view = await look(cluster, ref, 'Drain');
      if (!isView(view)) return view;
      writer ??= new StatusWriter(cluster.kube, view.maintenance, deps.lastWrites);
      writer.see(view.maintenance);
      const hold = await holdNodes(deps, view);
      await cordon.reconcile(hold, writer);
      await evacuations.withdrawFrom(deselectedNodes(view), view.maintenance);
      // What we published last may not be in the informer yet.
      const { status: published = emptyStatus } = writer.latest;
      const seen = { ...hold, maintenance: { ...view.maintenance, status: published } };
      const isResting = position === 'asPublished';
      const at = Math.min(isResting ? published.drainPosition : position, view.plan.length - 1);
      const { decision: bare, nodes } = await decide(deps, seen, at, evacuations);
      const decision = peaks.counted(bare);
      watched = new Set(nodes);
      announcer.announce(view, decision);
      blockedNotices.tell(view.maintenance, decision.blocked, cluster.kube.now());
      const now = cluster.kube.now().toISOString();
      const existing = namesOf(view.existing);
      writer.publish((status) => {
        const next = withDrain(status, decision, { planLength: view.plan.length, now, existing });
        return isResting ? { ...next, drainPosition: status.drainPosition } : next;
      });
      if (isResting) return undefined;
      if (decision.evacuate.length > 0) {
        await evacuations.start(decision.evacuate, (node) => deps.holds.of(ref.uid).isHeld(node));
        return undefined;
      }
      const end = ending({ view, decided: decision.position });
      if (end === undefined) return undefined;
      await writer.flush();
      announcer.announceEnd(view, at, decision);
      if (decision.position === view.plan.length) await tellDrained(deps, view, writer.latest);
      return { ...end, glance: glanceAt(writer.latest, now) };
    });
  } finally {
    await writer?.stop();
  }
}

async function tellDrained(
  { cluster, notices }: Deps,
  { nodes }: View,
  seen: NodeMaintenance,
): Promise<void> {
  const names = nodes.map(({ metadata }) => metadata.name).toSorted();
  const since = seen.status?.conditions.find(({ type }) => type === 'Drained')?.lastTransitionTime;
  await notices.put(
    drainedNotice(noticedMaintenance(seen), names, since ?? cluster.kube.now().toISOString()),
  );
}

/** The decision, and the names of all nodes that it rests on. */
async function decide(
  { cluster, holds }: Deps,
  view: HeldView,
  position: number,
  evacuations: Evacuations,
): Promise<{ decision: DrainDecision; nodes: string[] }> {
  const lookAt = evacuations.snapshotOf(cluster.kube.now());
  const isHeld = (node: string) => holds.isHeld(node);
  const snapshot = takeSnapshot(view, position, { ...cachedSight(cluster), isHeld }, lookAt);
  const nodes = [...snapshot.nodes, ...snapshot.waiting].map((node) => node.name);
  const decision = decideDrain(snapshot);
  if (decision.overruled.length === 0) return { decision, nodes };
  // Passing another maintenance cannot be taken back: it must not rest on informers that have not caught up.
  const sight = await freshSight(cluster, nodes);
  return { decision: decideDrain(takeSnapshot(view, position, { ...sight, isHeld }, lookAt)), nodes };
}

/** The most pods that were left on each node; statuses that are never written, because the next one is due, count too. */
class Peaks {
  readonly #byNode = new Map<string, number>();

  counted(decision: DrainDecision): DrainDecision {
    const nodeStatuses = decision.nodeStatuses.map((node) => {
      const left = node.podsPendingEvacuation + node.podsEvacuating;
      const podsPeak = Math.max(left, this.#byNode.get(node.nodeRef.name) ?? 0);
      this.#byNode.set(node.nodeRef.name, podsPeak);
      return { ...node, ...(podsPeak > 0 && { podsPeak }) };
    });
    return { ...decision, nodeStatuses };
  }
}

/** Nodes of the status that the selector has ceased to match. */
function deselectedNodes({ maintenance, nodes }: View): string[] {
  const selected = new Set(nodes.map((node) => node.metadata.name));
  const known = maintenance.status?.nodeStatuses.map((status) => status.nodeRef.name) ?? [];
  return known.filter((name) => !selected.has(name));
}

/** Tells by Events what happens in a drain, each thing once. */
class Announcer {
  readonly #deps: Deps;
  readonly #said = new Set<string>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  announce(view: View, decision: DrainDecision): void {
    this.#announceFastForwarded(view, decision);
    if (decision.overruled.length > 0) this.#announceConflict(view, decision.overruled);
    this.#announceBlocked(view, decision);
  }

  /** "We can at least emit an event saying that we are fast-forwarding" (KEP-4212 > Pod Selection and DrainTargets Example). */
  #announceFastForwarded({ maintenance }: View, { fastForwarded }: DrainDecision): void {
    const news = fastForwarded.filter(({ node, by }) => this.#isNew(`${node} ${by}`));
    for (const by of new Set(news.map((one) => one.by))) {
      const nodes = news.filter((one) => one.by === by).map(({ node }) => node);
      const [noun, verb, them] = nodes.length > 1 ? ['Nodes', 'are', 'them'] : ['Node', 'is', 'it'];
      const message = `${noun} ${listed(nodes)} ${verb} ${by}: pods leave ${them} before the drain plan of this maintenance asks for them.`;
      this.#deps.events.record(maintenance, { type: 'Warning', reason: 'FastForwarded', message });
    }
  }

  #isNew(news: string): boolean {
    const isNew = !this.#said.has(news);
    this.#said.add(news);
    return isNew;
  }

  announceEnd(
    { maintenance, plan, nodes }: View,
    from: number,
    { position: to, remaining }: DrainDecision,
  ): void {
    const drained = to === plan.length;
    if (drained && remaining.length > 0) this.#announceRemaining(maintenance, remaining);
    const message = drained
      ? `All pods that can be evacuated have left ${nodes.length} nodes.`
      : `Entry ${from + 1} of ${plan.length} of the drain plan is done on ${nodes.length} nodes; entry ${to + 1} is next.`;
    this.#deps.events.record(maintenance, {
      type: 'Normal',
      reason: drained ? 'Drained' : 'TierDrained',
      message,
    });
  }

  #announceRemaining(maintenance: NodeMaintenance, remaining: readonly Pod[]): void {
    const message = `${remaining.length} static pods are left running, because only the kubelet of their node can end them: take their manifests away there: ${listed(remaining.map(podName))}.`;
    this.#deps.events.record(maintenance, { type: 'Warning', reason: 'StaticPodsRemain', message });
  }

  /** On every maintenance that it concerns. */
  #announceConflict({ maintenance }: View, overruled: readonly string[]): void {
    if (!this.#isNew(`overruled ${overruled.join(' ')}`)) return;
    const { cluster, events } = this.#deps;
    const { name } = maintenance.metadata;
    const younger = overruled.join(', ');
    const message = `The drain plans of ${[name, ...overruled].join(', ')} demand opposite orders, and each waits for the other: the oldest, ${name}, goes first; ${younger} ${overruled.length > 1 ? 'are' : 'is'} fast-forwarded.`;
    const concerned = overruled.flatMap((other) => cluster.maintenances.get(other) ?? []);
    for (const one of [maintenance, ...concerned])
      events.record(one, { type: 'Warning', reason: 'DrainPlansConflict', message });
  }

  /** One pod for each cause: a budget that blocks a thousand pods is one piece of news. */
  #announceBlocked({ maintenance }: View, { blocked }: DrainDecision): void {
    for (const { pod, blocker } of blocked) {
      if (!this.#isNew(blocker.message)) continue;
      this.#deps.events.record(maintenance, {
        type: needsAPerson(blocker) ? 'Warning' : 'Normal',
        reason: blocker.reason,
        message: `Pod ${podName(pod)} cannot leave node ${pod.spec.nodeName}: ${blocker.message}`,
        related: aboutPod(pod),
      });
    }
  }
}
