import type { Pod } from '../../api/core.ts';
import type { EvictionRequest } from '../../api/lifecycle.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isLive, requestStateOf } from '../../domain/evacuation/evictionRequest.ts';
import { evictionBlocker } from '../../domain/evacuation/progress.ts';
import { type Route, routeOf } from '../../domain/evacuation/route.ts';
import type { ServingState } from '../../domain/evacuation/serving.ts';
import type { PodSnapshot } from '../../domain/drain/podSnapshot.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { byNode } from '../../kube/cluster.ts';
import { deleteRequest, withdrawRequest } from '../../kube/evictionRequests.ts';
import type { Deps } from '../deps.ts';
import { debounceMs, type Watched, within } from '../reconcile.ts';
import type { DrainChangeFilter } from './changeFilter.ts';
import { Evacuations } from './evacuations.ts';
import { EvictionRequests } from './evictionRequests.ts';
import { othersThatNeed } from './otherDrains.ts';
import { Withdrawals } from './withdrawals.ts';

const concurrentWrites = 24;
/** Time for which one pass requests evictions, so that progress is published in between. */
const maxPassMs = 500;
/** Interval in which informers that have not synced yet are checked again. */
const syncCheckMs = 200;

/**
 * Requests of one drain to its pods: an Evacuation, or an EvictionRequest where that is chosen (ADR 71). Both report progress in the same form, so
 * that a drain decides without knowing which of them a pod has.
 */
export class PodRequests {
  readonly #deps: Pick<Deps, 'cluster' | 'events' | 'serving'>;
  readonly #evacuations: Evacuations;
  readonly #requests: EvictionRequests;
  readonly #withdrawals = new Withdrawals();
  #serving: ServingState = 'NotServed';
  /** Whether a request waited for its answer when `#serving` was observed. */
  #wasWaiting = false;

  constructor(deps: Pick<Deps, 'cluster' | 'events' | 'serving'>) {
    this.#deps = deps;
    this.#evacuations = new Evacuations(deps.cluster);
    this.#requests = new EvictionRequests(deps.cluster);
  }

  /** Whether it is known which pods have requests: before that, another process may have created some. */
  get isReady(): boolean {
    return this.#deps.cluster.lifecycle.hasSynced;
  }

  /** Returns whether a controller serves EvictionRequests, if that matters to the maintenance. */
  observe(maintenance: NodeMaintenance): ServingState | undefined {
    const { cluster, serving } = this.#deps;
    if (!serving.isUsed) return undefined;
    const now = cluster.kube.now();
    this.#serving = serving.serving(maintenance, now);
    this.#wasWaiting = serving.isWaiting(now);
    return serving.settings.api === 'evacuation' ? undefined : this.#serving;
  }

  /** Reports changes of requests and Evictions that concern the drain, and answers to the requests of others, if it waits for one. */
  changes(changeFilter: Pick<DrainChangeFilter, 'evictionDelayMs'>): readonly Watched[] {
    const { cluster, serving } = this.#deps;
    const { requests, evictions } = cluster.lifecycle;
    return [
      within(requests, (change) => changeFilter.evictionDelayMs(change)),
      within(evictions, (change) => changeFilter.evictionDelayMs(change)),
      {
        subscribe: (handler) =>
          serving.subscribe(() => {
            if (this.#serving !== 'Served') handler(debounceMs);
          }),
      },
    ];
  }

  dueInMs(): number {
    if (!this.isReady) return syncCheckMs;
    return this.#deps.serving.isUsed ? this.#deps.serving.dueInMs() : Infinity;
  }

  /** Returns a function that takes the snapshot of a pod. */
  snapshotOf(now: Date): (pod: Pod) => PodSnapshot {
    const evacuationSnapshot = this.#evacuations.snapshotOf(now);
    if (!this.#deps.serving.isUsed) return evacuationSnapshot;
    return (pod) => {
      const byEvacuation = evacuationSnapshot(pod);
      const route = this.#routeOf(pod, byEvacuation.evacuating, now);
      if (route === 'Evacuation') return byEvacuation;
      const { responseMs } = this.#deps.serving;
      const isServed = this.#serving !== 'NotServed';
      const view = { now, responseMs, isServed, budgets: this.#requests.budgetsOf(pod) };
      const evacuating = route === 'Requested' || (route !== 'Withdraw' && this.#requests.isCreated(pod));
      const blocker = evictionBlocker(pod, this.#requests.of(pod), view) ?? this.#requests.rejectionOf(pod);
      return { pod, evacuating, blocker };
    };
  }

  /** Withdraws what was requested on nodes that the maintenance no longer selects. */
  async withdrawFrom(nodes: readonly string[], maintenance: NodeMaintenance): Promise<void> {
    const { events, serving } = this.#deps;
    await this.#evacuations.withdrawFrom(nodes, maintenance, this.#withdrawals);
    if (serving.isUsed && nodes.length > 0) await this.#withdrawRequestsFrom(nodes, maintenance);
    this.#withdrawals.record(maintenance, events);
  }

  async #withdrawRequestsFrom(nodes: readonly string[], maintenance: NodeMaintenance): Promise<void> {
    const { cluster } = this.#deps;
    const others = cluster.maintenances
      .list()
      .filter(({ metadata }) => metadata.uid !== maintenance.metadata.uid);
    const unneeded = nodes
      .flatMap((node) => cluster.pods.byIndex(byNode, node))
      .filter((pod) => othersThatNeed(cluster, () => others, pod).length === 0)
      .flatMap((pod) => this.#requests.of(pod).request ?? []);
    await forEachBounded(concurrentWrites, unneeded, (request) => this.#withdraw(request));
  }

  /**
   * Ensures that the departure of the pods is requested. Skips the pods of a node whose Lease has been lost (`isHeld`). The next call continues if
   * there are too many for one.
   */
  async start(
    maintenance: NodeMaintenance,
    pods: readonly Pod[],
    isHeld: (node: string) => boolean,
  ): Promise<void> {
    const { cluster, serving } = this.#deps;
    if (!serving.isUsed) return this.#evacuations.start(pods, isHeld);
    const now = cluster.kube.now();
    const evacuationSnapshot = this.#evacuations.snapshotOf(now);
    const routes = new Map(
      pods.map((pod) => [pod, this.#routeOf(pod, evacuationSnapshot(pod).evacuating, now)] as const),
    );
    const isAllowed = (pod: Pod) => isHeld(pod.spec.nodeName ?? '');
    const due = this.#withoutProbes(routes, (pod) => this.#requests.isDue(pod) && isAllowed(pod));
    const perform = (pod: Pod) =>
      isAllowed(pod) ? this.#perform(pod, routes.get(pod) ?? 'Wait', maintenance) : Promise.resolve();
    await forEachBounded(concurrentWrites, due, perform, { endsAt: performance.now() + maxPassMs });
    const byEvacuation = pods.filter((pod) => routes.get(pod) === 'Evacuation');
    if (byEvacuation.length > 0) await this.#evacuations.start(byEvacuation, isHeld);
  }

  /** Reports whether the apiserver rejected what was requested of the pod a moment ago. */
  isRejected(pod: Pod): boolean {
    return (this.#evacuations.rejectionOf(pod) ?? this.#requests.rejectionOf(pod)) !== undefined;
  }

  /** Returns the pods that are due and whose requests change. As long as it is not known whether anybody answers, that is one new request. */
  #withoutProbes(routes: ReadonlyMap<Pod, Route>, isDue: (pod: Pod) => boolean): Pod[] {
    const ofRoute = (...kinds: Route[]) =>
      [...routes].filter(([, route]) => kinds.includes(route)).map(([pod]) => pod);
    const probes = ofRoute('Probe');
    const isWaiting = this.#wasWaiting || this.#deps.serving.isWaiting();
    const isProbing = isWaiting || probes.some((pod) => this.#requests.isCreated(pod));
    // A terminating pod may outlast every answer.
    const candidates = probes.filter((pod) => isDue(pod) && pod.metadata.deletionTimestamp === undefined);
    const changing = ofRoute('Request', 'Withdraw', 'Renew').filter(isDue);
    return [...changing, ...(isProbing ? [] : candidates.slice(0, 1))];
  }

  async #perform(pod: Pod, route: Route, maintenance: NodeMaintenance): Promise<void> {
    const { request } = this.#requests.of(pod);
    if (route === 'Request' || route === 'Probe') await this.#requests.create(pod, maintenance);
    else if (route === 'Withdraw' && request !== undefined) await this.#withdraw(request);
    else if (route === 'Renew' && request !== undefined && isLive(request))
      await deleteRequest(this.#deps.cluster.kube, request);
  }

  #withdraw(request: EvictionRequest): Promise<void> {
    return this.#withdrawals.perform(request, (one) => withdrawRequest(this.#deps.cluster.kube, one));
  }

  #routeOf(pod: Pod, hasEvacuation: boolean, now: Date): Route {
    const { settings, responseMs } = this.#deps.serving;
    return routeOf({
      pod,
      hasEvacuation,
      request: requestStateOf(this.#requests.of(pod)),
      api: settings.api,
      serving: this.#serving,
      responseMs,
      nowMs: now.getTime(),
    });
  }
}
