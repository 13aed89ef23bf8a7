import assert from 'node:assert/strict';
import type { Condition, KubeObject, PodDisruptionBudget } from '../api/core.ts';
import type {
  EvictionIntent,
  EvictionRequest,
  EvictionRequestStatus,
  EvictionResponder,
  EvictionStatus,
  LifecycleEviction,
  ResponderStatus,
  TargetResponder,
} from '../api/lifecycle.ts';
import { EVICTION_REQUEST, LIFECYCLE_EVICTION } from '../api/names.ts';
import type { Kube } from '../kube/client.ts';
import { isKubeError } from '../kube/errors.ts';
import { type RawPod, type Resource, resources } from '../kube/resources.ts';
import { until } from './until.ts';

/** Names of the responders and requesters of the suite, in the order of their priorities. */
export const first = 'conformance.node-maintenance.dev/first';
export const second = 'conformance.node-maintenance.dev/second';
export const requester = 'conformance.node-maintenance.dev/requester';
export const otherRequester = 'conformance.node-maintenance.dev/other-requester';

/** Holds pods back from every node, so that no kubelet runs them or reports about them. */
const schedulingGate = 'conformance.node-maintenance.dev/never';
const fieldManager = 'conformance';

export interface PodOptions {
  readonly responders?: readonly EvictionResponder[];
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly finalizers?: readonly string[];
  readonly ownerReferences?: KubeObject['metadata']['ownerReferences'];
  readonly spec?: Readonly<Record<string, unknown>>;
  /** Reported as running and Ready, as by a kubelet. */
  readonly runs?: boolean;
}

export type Pod = RawPod & { metadata: { uid: string; namespace: string } };

/** An attempt to break a rule: the apiserver rejects it, and names this field. */
export interface Attempt {
  readonly what: string;
  readonly field: string;
  readonly write: (cluster: ConformanceCluster) => Promise<unknown>;
}

/** The namespace of one check, with what all checks need. */
export class ConformanceCluster {
  readonly kube: Kube;
  readonly namespace: string;
  #serial = 0;

  constructor(kube: Kube, namespace: string) {
    this.kube = kube;
    this.namespace = namespace;
  }

  named(what: string): string {
    this.#serial += 1;
    return `${what}-${this.#serial}`;
  }

  /** The clock of the apiserver, with an offset in seconds, as it stores times. */
  time(offsetSeconds = 0): string {
    const at = new Date(this.kube.now().getTime() + offsetSeconds * 1_000);
    return at.toISOString().replace(/\.\d+Z$/, 'Z');
  }

  // --- pods ------------------------------------------------------------------------------------------------------------

  /** Returns a pod that no node runs. */
  newPod({ responders, labels, annotations, finalizers, ownerReferences, spec }: PodOptions = {}): RawPod {
    return {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name: this.named('pod'),
        namespace: this.namespace,
        ...(labels && { labels }),
        ...(annotations && { annotations }),
        ...(finalizers && { finalizers: [...finalizers] }),
        ...(ownerReferences && { ownerReferences }),
      },
      spec: {
        terminationGracePeriodSeconds: 0,
        schedulingGates: [{ name: schedulingGate }],
        containers: [{ name: 'main', image: 'registry.k8s.io/pause:3.10' }],
        ...(responders && { evictionResponders: [...responders] }),
        ...spec,
      },
    };
  }

  async pod(options: PodOptions = {}): Promise<Pod> {
    const object = this.newPod(options);
    const created = (await this.kube.create(resources.pods, object, { fieldManager })) as Pod;
    if (options.runs !== true) return created;
    const status = { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] };
    return (await this.kube.mergePatch(
      resources.pods,
      keyOf(created),
      { status },
      { subresource: 'status', fieldManager },
    )) as Pod;
  }

  async currentPod(pod: Pod): Promise<Pod | undefined> {
    const found = await this.kube.get(resources.pods, keyOf(pod));
    return found?.metadata.uid === pod.metadata.uid ? (found as Pod) : undefined;
  }

  async finished(pod: Pod): Promise<void> {
    const options = { subresource: 'status', fieldManager };
    await this.kube.mergePatch(resources.pods, keyOf(pod), { status: { phase: 'Succeeded' } }, options);
  }

  async deletePod(pod: Pod): Promise<void> {
    await this.kube.delete(resources.pods, keyOf(pod), { uid: pod.metadata.uid, gracePeriodSeconds: 0 });
  }

  async budget(labels: Record<string, string>, minAvailable: number): Promise<PodDisruptionBudget> {
    const metadata = { name: this.named('budget'), namespace: this.namespace };
    const spec = { minAvailable, selector: { matchLabels: labels } };
    const created = await this.kube.create<PodDisruptionBudget>(
      resources.podDisruptionBudgets,
      { apiVersion: 'policy/v1', kind: 'PodDisruptionBudget', metadata, spec },
      { fieldManager },
    );
    await until('the budget to be computed', async () => {
      const found = await this.kube.get(resources.podDisruptionBudgets, metadata);
      assert.equal(found?.status?.expectedPods, 1);
    });
    return created;
  }

  // --- EvictionRequests --------------------------------------------------------------------------------------------------

  newRequest(pod: Pod, differs: Partial<EvictionRequest['spec']> = {}): EvictionRequest {
    const { apiVersion, kind } = EVICTION_REQUEST;
    const metadata = { name: this.named('request'), namespace: this.namespace };
    return {
      apiVersion,
      kind,
      metadata,
      spec: { ...targetOf(pod), requester, intent: 'Eviction', ...differs },
    };
  }

  request(pod: Pod, differs: Partial<EvictionRequest['spec']> = {}): Promise<EvictionRequest> {
    return this.kube.create(resources.evictionRequests, this.newRequest(pod, differs), { fieldManager });
  }

  intend({ metadata }: EvictionRequest, intent: EvictionIntent): Promise<EvictionRequest> {
    return this.kube.mergePatch(
      resources.evictionRequests,
      keyOf({ metadata }),
      { spec: { intent } },
      { fieldManager },
    );
  }

  async currentRequest(request: EvictionRequest): Promise<EvictionRequest | undefined> {
    return this.kube.get(resources.evictionRequests, keyOf(request));
  }

  async deleteRequest({ metadata }: EvictionRequest): Promise<void> {
    const { uid = '' } = metadata;
    await this.kube.delete(resources.evictionRequests, keyOf({ metadata }), {
      uid,
      propagationPolicy: 'Background',
    });
  }

  writeRequestStatus(request: EvictionRequest, status: EvictionRequestStatus): Promise<EvictionRequest> {
    return this.kube.mergePatch(
      resources.evictionRequests,
      keyOf(request),
      { status },
      { subresource: 'status', fieldManager },
    );
  }

  // --- Evictions -----------------------------------------------------------------------------------------------------------

  newEviction(pod: Pod): LifecycleEviction {
    const { apiVersion, kind } = LIFECYCLE_EVICTION;
    const metadata = { name: this.named('eviction'), namespace: this.namespace };
    return { apiVersion, kind, metadata, spec: targetOf(pod) };
  }

  /** Creates an Eviction that nobody has requested, so that no controller acts on it. */
  eviction(pod: Pod): Promise<LifecycleEviction> {
    return this.kube.create(resources.evictions, this.newEviction(pod), { fieldManager });
  }

  /** Creates an Eviction whose first responder is Active. */
  async startedEviction(pod?: Pod): Promise<LifecycleEviction> {
    const eviction = await this.eviction(pod ?? (await this.pod()));
    return this.write(eviction, this.started());
  }

  /** Returns a status in which the first of two responders is Active. */
  started(): { targetResponders: TargetResponder[]; responders: ResponderStatus[] } {
    return {
      targetResponders: [
        { name: first, priority: 10_000, state: 'Active' },
        { name: second, priority: 9_000, state: 'Inactive' },
      ],
      responders: [{ name: first, startTime: this.time() }, { name: second }],
    };
  }

  /** Writes fields of the status at the version that was read last. */
  async write(eviction: LifecycleEviction, status: EvictionStatus): Promise<LifecycleEviction> {
    return this.kube.mergePatch(
      resources.evictions,
      keyOf(eviction),
      { status },
      { subresource: 'status', fieldManager },
    );
  }

  /** Writes what the active responder reports. */
  async report(eviction: LifecycleEviction, change: Partial<ResponderStatus>): Promise<LifecycleEviction> {
    const current = await this.current(eviction);
    const active = current.status?.targetResponders?.find(({ state }) => state === 'Active');
    const responders = (current.status?.responders ?? []).map((one) =>
      one.name === active?.name ? { ...one, ...change } : one,
    );
    const { resourceVersion } = current.metadata;
    return this.kube.mergePatch(
      resources.evictions,
      keyOf(eviction),
      { metadata: { resourceVersion }, status: { responders } },
      { subresource: 'status', fieldManager },
    );
  }

  async current(eviction: LifecycleEviction): Promise<LifecycleEviction> {
    const found = await this.kube.get(resources.evictions, keyOf(eviction));
    assert.ok(found, `Eviction ${eviction.metadata.name} is gone`);
    return found;
  }

  async evictionsOf(pod: Pod): Promise<LifecycleEviction[]> {
    const { items } = await this.kube.list(resources.evictions, { namespace: this.namespace });
    return items.filter(({ spec }) => spec.target.pod.uid === pod.metadata.uid);
  }

  /** Resolves with the only Eviction of the pod when it satisfies `check`. */
  eventually(
    fact: string,
    pod: Pod,
    check: (eviction: LifecycleEviction) => void = () => undefined,
  ): Promise<LifecycleEviction> {
    return until(fact, async () => {
      const evictions = await this.evictionsOf(pod);
      assert.equal(evictions.length, 1, `${evictions.length} Evictions`);
      const [eviction] = evictions;
      assert.ok(eviction);
      check(eviction);
      return eviction;
    });
  }

  /** Resolves when the request has these conditions. */
  async eventuallyReported(
    request: EvictionRequest,
    reasons: { Failed: string; TargetEvicted: string },
  ): Promise<void> {
    await until('the conditions of the EvictionRequest', async () => {
      const { status, metadata } = (await this.currentRequest(request)) ?? {};
      assert.deepEqual(reasonsOf(status?.conditions), reasons);
      assert.equal(status?.observedGeneration, metadata?.generation);
    });
  }

  // --- attempts ------------------------------------------------------------------------------------------------------------

  /** Rejects unless the apiserver rejects the write as invalid, and names the field. */
  async rejects({ what, field, write }: Attempt): Promise<void> {
    const error = await write(this).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.ok(error !== undefined, `accepted: ${what}`);
    if (!isKubeError(error, 'Invalid', 'Forbidden')) throw error;
    const fields = (error.details?.causes ?? []).map((cause) => cause.field ?? '');
    const isNamed = fields.some((one) => one.startsWith(field)) || error.apiMessage.includes(field);
    assert.ok(isNamed, `${what}: expected ${field} in: ${error.apiMessage}`);
  }

  create(resource: Resource, object: KubeObject): Promise<KubeObject> {
    return this.kube.create(resource, object, { fieldManager });
  }
}

export function keyOf({ metadata }: KubeObject): { namespace: string | undefined; name: string } {
  return { namespace: metadata.namespace, name: metadata.name };
}

export function targetOf({ metadata: { name, uid } }: Pod): LifecycleEviction['spec'] {
  return { target: { pod: { name, uid } } };
}

/** Returns `<status> <reason>` of both conditions of an eviction. */
export function reasonsOf(conditions: readonly Condition[] = []): Record<string, string> {
  const known = conditions.filter(({ type }) => type === 'Failed' || type === 'TargetEvicted');
  return Object.fromEntries(known.map(({ type, status, reason }) => [type, `${status} ${reason}`]));
}

/** Returns the states of the responders by their names, in the order of the list. */
export function statesOf({ status }: LifecycleEviction): [string, string][] {
  return (status?.targetResponders ?? []).map(({ name, state }) => [name, state]);
}

export function condition(
  type: string,
  status: Condition['status'],
  reason: string,
  time: string,
): Condition {
  return { type, status, reason, message: 'conformance', lastTransitionTime: time };
}
