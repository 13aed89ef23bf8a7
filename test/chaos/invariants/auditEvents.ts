import type { KubeObject } from '../../../api/core.ts';
import { leaseHolderOf, NODE_LEASE_NAMESPACE, SYSTEM_NAMESPACE } from '../../../api/names.ts';
import type { DrainPlanEntry } from '../../../api/nodeMaintenance.ts';
import { selectNodes } from '../../kit/resources.ts';
import { type AuditEvent, type AuditLog, auditLogOf } from './audit.ts';
import { workerAccount } from './cluster.ts';

/** Writes the audit log of a small cluster, request by request, a second apart unless the time is given. */
export class AuditLogBuilder {
  readonly #events: AuditEvent[] = [];
  #revision = 100;
  #serial = 0;
  #nowMs = Date.parse('2026-01-01T00:00:00Z');
  readonly #maintenances = new Map<string, KubeObject>();

  log(): AuditLog {
    return auditLogOf(this.#events);
  }

  get nowMs(): number {
    return this.#nowMs;
  }

  passed(seconds: number): this {
    this.#nowMs += seconds * 1_000;
    return this;
  }

  maintained(
    name: string,
    differs: {
      nodes: string[];
      stage?: string;
      plan?: DrainPlanEntry[];
      onDeadline?: 'Delete';
      after?: string;
      deleted?: boolean;
      generation?: number;
    },
  ): this {
    const { nodes, stage = 'Drain', plan = [], deleted = false, generation = 1 } = differs;
    const { onDeadline, after = '1s' } = differs;
    const finalizers = stage === 'Idle' ? [] : ['nodemaintenance.k8s.io/maintenance-completion'];
    const last = { podType: 'Default' as const, podPriority: 2_147_483_647 };
    const daemons = { ...last, podType: 'DaemonSet' as const };
    const spec = {
      stage,
      nodeSelector: selectNodes(nodes),
      drainPlan: [...plan, last, daemons],
      ...(onDeadline && { drainDeadline: { after, onDeadline, steps: [] } }),
    };
    const metadata = {
      name,
      uid: name,
      generation,
      finalizers,
      ...(deleted && { deletionTimestamp: 'now' }),
    };
    const object = { metadata, spec } as KubeObject;
    this.#maintenances.set(name, object);
    return this.#written('patch', 'nodemaintenances', object);
  }

  /** The worker writes that a maintenance is Drained since `sinceMs`; `answered: false`: the apiserver is killed before it answers. */
  becameDrained(name: string, { sinceMs = this.#nowMs, observedGeneration = 1, answered = true } = {}): this {
    const lastTransitionTime = new Date(sinceMs).toISOString();
    const conditions = [{ type: 'Drained', status: 'True', lastTransitionTime, observedGeneration }];
    const object = { ...this.#maintenances.get(name), status: { conditions } } as object as KubeObject;
    return this.#written('patch', 'nodemaintenances/status', object, { user: workerAccount, answered });
  }

  /** Gives a pod to a node, or changes it. */
  pod(
    name: string,
    differs: { node: string; priority?: number; labels?: object; annotations?: object; daemon?: boolean },
  ): this {
    const { node, priority = 0, labels = {}, annotations = {}, daemon = false } = differs;
    const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true };
    const metadata = {
      name,
      namespace: 'default',
      uid: name,
      labels,
      annotations,
      ...(daemon && { ownerReferences: [owner] }),
    };
    const spec = { nodeName: node, priority };
    return this.#written('patch', 'pods/status', {
      metadata,
      spec,
      status: { phase: 'Running' },
    } as object as KubeObject);
  }

  /** The kubelet removes the pod. `answered: false`: the apiserver is killed before it answers. */
  podGone(name: string, { answered = true } = {}): this {
    const metadata = {
      name,
      namespace: 'default',
      uid: name,
      deletionTimestamp: 'now',
      deletionGracePeriodSeconds: 0,
    };
    return this.#written('delete', 'pods', { metadata, spec: {} } as object as KubeObject, {
      user: 'kubelet',
      answered,
    });
  }

  /** `answeredAfter`: seconds until the apiserver has answered; watches show the Lease before. */
  leased(
    node: string,
    holder: string = leaseHolderOf(SYSTEM_NAMESPACE),
    { answered = true, answeredAfter = 0 } = {},
  ): this {
    const spec = {
      holderIdentity: holder,
      renewTime: new Date(this.#nowMs).toISOString(),
      leaseDurationSeconds: 60,
    };
    const metadata = { name: node, namespace: NODE_LEASE_NAMESPACE, uid: `lease-${node}` };
    return this.#written('patch', 'leases', { metadata, spec } as KubeObject, {
      user: workerAccount,
      answered,
      answeredAfter,
    });
  }

  asked(pod: string, { name = pod, user = workerAccount, answered = true } = {}): this {
    const metadata = { name, namespace: 'default', uid: `evacuation-${name}`, finalizers: ['instigator'] };
    const object = { metadata, spec: { podRef: { name: pod, uid: pod } } };
    return this.#written('create', 'evacuations', object as KubeObject, { user, answered });
  }

  /** Writes the same as `asked`, by an EvictionRequest. */
  askedByRequest(pod: string, { name = pod, intent = 'Eviction' } = {}): this {
    const metadata = { name, namespace: 'default', uid: `request-${name}` };
    const object = { metadata, spec: { target: { pod: { name: pod, uid: pod } }, intent } };
    const verb = intent === 'Eviction' ? 'create' : 'patch';
    return this.#written(verb, 'evictionrequests', object as KubeObject, { user: workerAccount });
  }

  withdrawn(pod: string): this {
    const metadata = { name: pod, namespace: 'default', uid: `evacuation-${pod}`, deletionTimestamp: 'now' };
    return this.#written('patch', 'evacuations', {
      metadata,
      spec: { podRef: { name: pod, uid: pod } },
    } as KubeObject);
  }

  forbidden(pod: string): this {
    const metadata = {
      name: pod,
      namespace: 'default',
      uid: `evacuation-${pod}`,
      finalizers: ['instigator'],
    };
    const status = { evacuationCancellationPolicy: 'Forbid' };
    const object = { metadata, spec: { podRef: { name: pod, uid: pod } }, status };
    return this.#written('patch', 'evacuations/status', object as KubeObject);
  }

  evicted(pod: string, { user = workerAccount, code = 201, dryRun = false } = {}): this {
    const request = { deleteOptions: { preconditions: { uid: pod } } };
    return this.#status('create', 'pods/eviction', pod, {
      user,
      code,
      request,
      ...(dryRun && { query: '?dryRun=All' }),
    });
  }

  deleted(
    pod: string,
    { user = workerAccount, gracePeriodSeconds = undefined as number | undefined } = {},
  ): this {
    const request = {
      preconditions: { uid: pod },
      ...(gracePeriodSeconds !== undefined && { gracePeriodSeconds }),
    };
    return this.#status('delete', 'pods', pod, { user, code: 200, request });
  }

  /** Deletes a pod that is being deleted: the answer has the pod as it is stored, with its old revision. */
  deletedAgain(pod: string, revision: number): this {
    const metadata = { name: pod, namespace: 'default', uid: pod, resourceVersion: String(revision) };
    return this.#event('delete', 'pods', metadata, {
      user: workerAccount,
      answered: true,
      code: 200,
      requestObject: { preconditions: { uid: pod } },
      responseObject: { metadata },
    });
  }

  cordoned(node: string, { user = workerAccount, unschedulable = true } = {}): this {
    const object = { metadata: { name: node, uid: node }, spec: { unschedulable } };
    return this.#written('patch', 'nodes', object as KubeObject, {
      user,
      request: { spec: { unschedulable } },
    });
  }

  /** Applies the conditions of a node by which the worker says what it does there, or others. */
  conditioned(node: string, types: readonly string[], { user = workerAccount } = {}): this {
    const status = { conditions: types.map((type) => ({ type, status: 'True' })) };
    const object = { metadata: { name: node, uid: node } } as KubeObject;
    return this.#written('patch', 'nodes/status', object, { user, request: { status } });
  }

  annotated(node: string, annotations: Record<string, string | null>): this {
    const object = { metadata: { name: node, uid: node } } as KubeObject;
    const request = { metadata: { annotations } };
    return this.#written('patch', 'nodes', object, { user: workerAccount, request });
  }

  #written(
    verb: string,
    target: string,
    object: KubeObject,
    { user = 'admin', answered = true, answeredAfter = 0, request = undefined as unknown } = {},
  ): this {
    const resourceVersion = String((this.#revision += 1));
    const responseObject = { ...object, metadata: { ...object.metadata, resourceVersion } };
    return this.#event(verb, target, object.metadata, {
      user,
      answered,
      answeredAfter,
      code: 200,
      requestObject: request,
      responseObject,
    });
  }

  #status(
    verb: string,
    target: string,
    name: string,
    { user, code, request, query = '' }: { user: string; code: number; request: unknown; query?: string },
  ): this {
    return this.#event(
      verb,
      target,
      { name, namespace: 'default' },
      { user, code, query, answered: true, requestObject: request },
    );
  }

  #event(
    verb: string,
    target: string,
    key: { name: string; namespace?: string },
    { user, answered, answeredAfter = 0, code, query = '', ...objects }: Answer,
  ): this {
    this.#nowMs += 1_000;
    const [resource = '', subresource] = target.split('/');
    const time = new Date(this.#nowMs).toISOString();
    const common = {
      auditID: `request-${(this.#serial += 1)}`,
      verb,
      user: { username: user },
      requestURI: `/api/${target}${query}`,
      objectRef: {
        resource,
        ...(subresource && { subresource }),
        name: key.name,
        ...(key.namespace && { namespace: key.namespace }),
      },
      requestReceivedTimestamp: time,
      stageTimestamp: time,
    };
    this.#events.push({ ...common, stage: 'RequestReceived' });
    const stageTimestamp = new Date(this.#nowMs + answeredAfter * 1_000).toISOString();
    if (answered)
      this.#events.push({
        ...common,
        stage: 'ResponseComplete',
        stageTimestamp,
        responseStatus: { code },
        ...objects,
      });
    return this;
  }
}

interface Answer {
  user: string;
  answered: boolean;
  answeredAfter?: number;
  code: number;
  query?: string;
  requestObject?: unknown;
  responseObject?: unknown;
}
