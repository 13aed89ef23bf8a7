import { Client, Connection } from '@temporalio/client';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import { workflowIdOf } from './temporalNames.ts';
import type { NodeMaintenance, NodeMaintenanceSpec } from '../../api/nodeMaintenance.ts';
import { isTrue } from '../../domain/common/conditions.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { type RawPod, resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { RealNodeOptions } from '../../sandbox/realNodes/node.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { eventuallyHolds } from './eventually.ts';
import { replaceNodes, restore, snapshot } from './reset.ts';
import { deployments, selectNodes } from './resources.ts';
import { isShared, releaseSandbox, testSandbox } from './sandbox.ts';

const budgets = resources.podDisruptionBudgets;

/** Observations of a watch of pods and one of Evacuations, across all restarts of workers. */
export interface PodRecord {
  /** Pod UID -> UIDs of the Evacuations created for it. */
  evacuations: Map<string, Set<string>>;
  /** UIDs of the deleted pods, in order. */
  gone: string[];
}

export interface PlacedPods {
  labels?: { [key: string]: string };
  annotations?: { [key: string]: string };
  finalizers?: string[];
  priorityClassName?: string;
  /** Seconds; 1 unless given. */
  grace?: number;
  /** Whether to wait until they are Ready; true unless given. */
  awaited?: boolean;
  namespace?: string;
  restartPolicy?: 'Never';
  volumes?: object[];
}

export interface WorldOptions {
  /** Nodes `node-1`, `node-2`, ...; there are no others. */
  nodes: number;
  /** Nodes `real-1`, ... that run containers and the node agent, on servers of their own; none unless given. */
  realNodes?: number;
  realNodeOptions?: RealNodeOptions;
  /** Whether deploy/ is applied; true unless given. */
  install?: boolean;
  /** Whether the tests need servers of their own, because they stop them for long or change how they were installed. */
  ownServers?: boolean;
  /** The option of SandboxOptions; if false, the tests have servers of their own. */
  mutatingPolicies?: boolean;
  /** With servers of their own: directory in which the apiserver logs the requests of the worker. */
  auditLogs?: string;
  /** Lets the worker act on EvictionRequests, in a sandbox of its own. */
  evictionRequest?: boolean;
}

/** A whole sandbox for one test file, with the verbs of the end-to-end tests. */
export class World {
  readonly sandbox: Sandbox;
  /** The administrator's client. */
  readonly kube: Kube;
  readonly temporal: Client;
  readonly record: PodRecord;
  readonly #dispose: () => Promise<void>;
  #serial = 0;

  constructor({ sandbox, kube, temporal, record, dispose }: Parts) {
    this.sandbox = sandbox;
    this.kube = kube;
    this.temporal = temporal;
    this.record = record;
    this.#dispose = dispose;
  }

  async apply(
    name: string,
    { nodes, ...spec }: Partial<NodeMaintenanceSpec> & { nodes: string[] },
  ): Promise<NodeMaintenance> {
    const whole = { stage: 'Idle' as const, ...spec, nodeSelector: selectNodes(nodes) };
    return whenSchemasAreKnown(() =>
      this.kube.create(resources.nodeMaintenances, { metadata: { name }, spec: whole }),
    );
  }

  patch(name: string, spec: Partial<NodeMaintenanceSpec>): Promise<NodeMaintenance> {
    return this.kube.mergePatch(resources.nodeMaintenances, { name }, { spec });
  }

  maintenance(name: string): Promise<NodeMaintenance | undefined> {
    return this.kube.get(resources.nodeMaintenances, { name });
  }

  /** Waits until the maintenance exists and `holds` accepts it. */
  async eventually(
    name: string,
    fact: string,
    holds: (observed: NodeMaintenance) => boolean,
  ): Promise<NodeMaintenance> {
    const found = (one: NodeMaintenance | undefined) => one !== undefined && holds(one);
    return (await eventuallyHolds(fact, () => this.maintenance(name), found)) as NodeMaintenance;
  }

  async node(name: string): Promise<Node> {
    return (await this.kube.get(resources.nodes, { name })) as Node;
  }

  async podsOn(node: string): Promise<Pod[]> {
    const { items } = await this.kube.list(resources.pods, { fieldSelector: `spec.nodeName=${node}` });
    return items.map(trimPod);
  }

  /** Creates pods that run on the node even if it is cordoned, as a DaemonSet's do; they have no controller. */
  async placePods(node: string, count: number, options: PlacedPods = {}): Promise<string[]> {
    const { namespace = 'default', awaited = true } = options;
    const names = Array.from({ length: count }, () => `placed-${(this.#serial += 1)}`);
    await Promise.all(
      names.map((name) => this.kube.create(resources.pods, placedPod({ namespace, name }, node, options))),
    );
    if (awaited)
      await eventuallyHolds(
        `${count} placed pods to be Ready`,
        () => readyCount(this.kube, names, namespace),
        (ready) => ready === count,
      );
    return names;
  }

  /** Creates a Deployment that is spread over the nodes, and waits until its pods are Ready. */
  async deployment(
    name: string,
    replicas: number,
    { priorityClassName, labels = {} }: Pick<PlacedPods, 'priorityClassName' | 'labels'> = {},
  ): Promise<void> {
    const spec = podSpec({ priorityClassName, topologySpreadConstraints: [spread(name)] });
    await this.kube.create(deployments, {
      metadata: { name, namespace: 'default' },
      spec: {
        replicas,
        selector: { matchLabels: { app: name } },
        template: { metadata: { labels: { app: name, ...labels } }, spec },
      },
    } as KubeObject);
    await eventuallyHolds(
      `${replicas} replicas of ${name} to be ready`,
      () => this.kube.get(deployments, { namespace: 'default', name }),
      (found) =>
        (found as { status?: { readyReplicas?: number } } | undefined)?.status?.readyReplicas === replicas,
    );
  }

  /** Creates a PodDisruptionBudget, and waits until its controller has counted its pods. */
  async budget(
    name: string,
    matchLabels: { [key: string]: string },
    spec: { minAvailable?: number; maxUnavailable?: number },
  ): Promise<void> {
    const metadata = { name, namespace: 'default' };
    await this.kube.create(budgets, { metadata, spec: { selector: { matchLabels }, ...spec } });
    await eventuallyHolds(
      `budget ${name} to be computed`,
      () => this.kube.get(budgets, { namespace: 'default', name }),
      (found) => (found?.status?.expectedPods ?? 0) > 0,
    );
  }

  /** Returns the events of the history of a maintenance's workflow. */
  async history(name: string): Promise<unknown[]> {
    const handle = this.temporal.workflow.getHandle(workflowIdOf(name));
    return (await handle.fetchHistory()).events ?? [];
  }

  /** To be called when no worker runs any more. */
  close(): Promise<void> {
    return this.#dispose();
  }
}

interface Parts extends Pick<World, 'sandbox' | 'kube' | 'temporal' | 'record'> {
  dispose: () => Promise<void>;
}

/** Returns the options of a sandbox of its own; undefined if the shared one is as the options ask for. */
function ownSandboxOf({
  nodes,
  realNodes = 0,
  realNodeOptions = {},
  install = true,
  ownServers = false,
  mutatingPolicies = true,
  evictionRequest = false,
  auditLogs,
}: WorldOptions): Parameters<typeof testSandbox>[0] {
  if (install && mutatingPolicies && !ownServers && !evictionRequest && realNodes === 0) return undefined;
  const options = { ...realNodeOptions, nodes, realNodes, install, mutatingPolicies, evictionRequest };
  return { ...options, ...(auditLogs !== undefined && { auditLogs }) };
}

/**
 * Uses the sandbox that the test files of this shard share, whose state it restores at the end, or starts one of its
 * own where there is none or the options ask for it.
 */
export async function createWorld(options: WorldOptions): Promise<World> {
  const { nodes, install = true } = options;
  const own = ownSandboxOf(options);
  const shared = own === undefined;
  const sandbox = await testSandbox(own);
  const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'e2e', log: silentLog });
  const connection = await Connection.connect({ address: sandbox.temporalAddress });
  const temporal = new Client({ connection, namespace: sandbox.temporalNamespace });
  const stop = new AbortController();
  const before = shared ? await snapshot(kube) : undefined;
  const dispose = async () => {
    stop.abort();
    try {
      if (before !== undefined && isShared(sandbox)) await restore(sandbox, kube, temporal, before);
    } finally {
      await connection.close();
      await kube.close();
      await releaseSandbox(sandbox);
    }
  };
  try {
    const names = Array.from({ length: nodes }, (_, index) => `node-${index + 1}`);
    if (shared) await replaceNodes(sandbox, kube, names);
    const record = await startRecord(kube, stop.signal, install);
    return new World({ sandbox, kube, temporal, record, dispose });
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Retries for some seconds after an apiserver's start: it answers 503 until it has read the schemas. */
async function whenSchemasAreKnown<T extends object>(create: () => Promise<T>): Promise<T> {
  const unlessUnavailable = (error: unknown) => {
    if (isKubeError(error, 'Unavailable') && error.status === 503) return undefined;
    throw error;
  };
  const created = await eventuallyHolds(
    'the apiserver to know the schemas',
    () => create().catch(unlessUnavailable),
    (one) => one !== undefined,
  );
  return created as T;
}

export function drained({ status }: NodeMaintenance): boolean {
  return isTrue(status?.conditions, 'Drained');
}

/** Returns whether stage Complete has done its work: the nodes are in service again. */
export function finished({ metadata, spec, ...rest }: NodeMaintenance): boolean {
  const isReleased = (metadata.finalizers ?? []).length === 0;
  return spec.stage === 'Complete' && isReleased && stageStarted({ metadata, spec, ...rest }, 'Complete');
}

export function stageStarted({ status }: NodeMaintenance, stage: string): boolean {
  return status?.stageStatuses.some(({ name }) => name === stage) ?? false;
}

function placedPod(key: { namespace: string; name: string }, nodeName: string, options: PlacedPods): RawPod {
  const { labels = {}, annotations = {}, finalizers = [], priorityClassName, grace = 1 } = options;
  const { restartPolicy, volumes } = options;
  const terminationGracePeriodSeconds = grace;
  return {
    metadata: { ...key, labels, annotations, finalizers },
    spec: podSpec({ nodeName, priorityClassName, terminationGracePeriodSeconds, restartPolicy, volumes }),
  } as RawPod;
}

function podSpec(differs: object): object {
  const spec = {
    containers: [{ name: 'main', image: 'none' }],
    tolerations: [{ operator: 'Exists', effect: 'NoExecute' }],
    ...differs,
  };
  return JSON.parse(JSON.stringify(spec)) as object;
}

function spread(app: string): object {
  return {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: { app } },
  };
}

async function readyCount(kube: Kube, names: string[], namespace: string): Promise<number> {
  const { items } = await kube.list(resources.pods, { namespace });
  return items.filter((pod) => names.includes(pod.metadata.name) && trimPod(pod).status.ready).length;
}

async function startRecord(kube: Kube, signal: AbortSignal, installed: boolean): Promise<PodRecord> {
  const record: PodRecord = { evacuations: new Map(), gone: [] };
  const evacuations = new Informer<Evacuation>({ kube, resource: resources.evacuations, log: silentLog });
  evacuations.subscribe(({ type, object }) => {
    if (type !== 'Added') return;
    const { uid } = object.spec.podRef;
    record.evacuations.set(uid, (record.evacuations.get(uid) ?? new Set()).add(object.metadata.uid ?? ''));
  });
  const pods = new Informer<Pod, RawPod>({
    kube,
    resource: resources.pods,
    transform: trimPod,
    log: silentLog,
  });
  pods.subscribe(({ type, object }) => {
    if (type === 'Deleted') record.gone.push(object.metadata.uid ?? '');
  });
  evacuations.start(signal);
  pods.start(signal);
  if (installed) await evacuations.synced(signal);
  await pods.synced(signal);
  return record;
}
