import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import type { KubeObject, Node, Pod } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenance, NodeMaintenanceSpec } from '../../api/nodeMaintenance.ts';
import { workflowIdOf } from '../../api/names.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { isKubeError } from '../../kube/errors.ts';
import { Informer } from '../../kube/informer.ts';
import { silentLog } from '../../kube/log.ts';
import { type RawPod, type Resource, resources } from '../../kube/resources.ts';
import { slimPod } from '../../kube/slim.ts';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { eventuallyHolds } from '../kit/holds.ts';

const deployments: Resource = {
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  kind: 'Deployment',
  namespaced: true,
};
const budgets = resources.podDisruptionBudgets;

/** What happened to pods and Evacuations, as one watch of each saw it; survives everything that the worker does not. */
export interface Record {
  /** Pod UID -> UIDs of the Evacuations that were made for it. */
  evacuations: Map<string, Set<string>>;
  /** Pod UIDs in the order in which they went. */
  gone: string[];
}

/** A cluster of its own for one test file, with the verbs that the tests are written in. */
export interface World {
  sandbox: Sandbox;
  kube: Kube;
  temporal: Client;
  record: Record;
  apply(name: string, spec: Partial<NodeMaintenanceSpec> & { nodes: string[] }): Promise<NodeMaintenance>;
  patch(name: string, spec: Partial<NodeMaintenanceSpec>): Promise<NodeMaintenance>;
  maintenance(name: string): Promise<NodeMaintenance | undefined>;
  eventually(
    name: string,
    fact: string,
    holds: (seen: NodeMaintenance) => boolean,
    timeoutMs?: number,
  ): Promise<NodeMaintenance>;
  node(name: string): Promise<Node>;
  podsOn(node: string): Promise<Pod[]>;
  /** Pods that run on the node whatever its cordon says, as a DaemonSet's would; made directly, without a controller. */
  placePods(
    node: string,
    count: number,
    differs?: {
      labels?: { [key: string]: string };
      annotations?: { [key: string]: string };
      finalizers?: string[];
      priorityClassName?: string;
      grace?: number;
      awaited?: boolean;
      namespace?: string;
      restartPolicy?: 'Never';
      volumes?: object[];
    },
  ): Promise<string[]>;
  deployment(
    name: string,
    replicas: number,
    differs?: { priorityClassName?: string; labels?: { [key: string]: string } },
  ): Promise<void>;
  budget(
    name: string,
    matchLabels: { [key: string]: string },
    spec: { minAvailable?: number; maxUnavailable?: number },
  ): Promise<void>;
  history(name: string): Promise<unknown[]>;
  close(): Promise<void>;
}

export async function createWorld({
  nodes,
  install = true,
}: {
  nodes: number;
  install?: boolean;
}): Promise<World> {
  const dir = await mkdtemp(join(tmpdir(), 'nm-e2e-'));
  const sandbox = await startSandbox({ dir, nodes, install });
  const kube = connectKube({ kubeconfig: sandbox.kubeconfig, userAgent: 'e2e', log: silentLog });
  const connection = await Connection.connect({ address: sandbox.temporalAddress });
  const temporal = new Client({ connection });
  const stop = new AbortController();
  const record = await startRecord(kube, stop.signal, install);
  const maintenance = (name: string) => kube.get(resources.nodeMaintenances, { name });
  let serial = 0;

  return {
    sandbox,
    kube,
    temporal,
    record,
    maintenance,
    apply: (name, { nodes: names, ...spec }) =>
      whenSchemasAreKnown(() =>
        kube.create(resources.nodeMaintenances, {
          metadata: { name },
          spec: { stage: 'Idle', ...spec, nodeSelector: selecting(names) },
        }),
      ),
    patch: (name, spec) => kube.mergePatch(resources.nodeMaintenances, { name }, { spec }),
    eventually: async (name, fact, holds, timeoutMs) => {
      const found = (seen: NodeMaintenance | undefined) => seen !== undefined && holds(seen);
      return (await eventuallyHolds(fact, () => maintenance(name), found, timeoutMs)) as NodeMaintenance;
    },
    node: async (name) => (await kube.get(resources.nodes, { name })) as Node,
    podsOn: async (node) => {
      const { items } = await kube.list(resources.pods, { fieldSelector: `spec.nodeName=${node}` });
      return items.map(slimPod);
    },
    placePods: async (node, count, differs = {}) => {
      const { labels = {}, annotations = {}, finalizers = [], priorityClassName, grace = 1 } = differs;
      const { awaited = true, namespace = 'default', restartPolicy, volumes } = differs;
      const names = Array.from({ length: count }, () => `placed-${(serial += 1)}`);
      await Promise.all(
        names.map((name) =>
          kube.create(resources.pods, {
            metadata: { name, namespace, labels, annotations, finalizers },
            spec: podSpec({
              nodeName: node,
              priorityClassName,
              terminationGracePeriodSeconds: grace,
              restartPolicy,
              volumes,
            }),
          } as RawPod),
        ),
      );
      if (awaited)
        await eventuallyHolds(
          `${count} placed pods run`,
          () => readyCount(kube, names, namespace),
          (ready) => ready === count,
        );
      return names;
    },
    deployment: async (name, replicas, { priorityClassName, labels = {} } = {}) => {
      const all = { app: name, ...labels };
      await kube.create(deployments, {
        metadata: { name, namespace: 'default' },
        spec: {
          replicas,
          selector: { matchLabels: { app: name } },
          template: {
            metadata: { labels: all },
            spec: podSpec({ priorityClassName, topologySpreadConstraints: [spread(name)] }),
          },
        },
      } as KubeObject);
      await eventuallyHolds(
        `${replicas} replicas of ${name} are ready`,
        () => kube.get(deployments, { namespace: 'default', name }),
        (seen) =>
          (seen as { status?: { readyReplicas?: number } } | undefined)?.status?.readyReplicas === replicas,
      );
    },
    budget: async (name, matchLabels, spec) => {
      await kube.create(budgets, {
        metadata: { name, namespace: 'default' },
        spec: { selector: { matchLabels }, ...spec },
      });
      await eventuallyHolds(
        `budget ${name} is computed`,
        () => kube.get(budgets, { namespace: 'default', name }),
        (seen) => (seen?.status?.expectedPods ?? 0) > 0,
      );
    },
    history: async (name) =>
      (await temporal.workflow.getHandle(workflowIdOf(name)).fetchHistory()).events ?? [],
    close: async () => {
      stop.abort();
      await connection.close();
      await kube.close();
      await sandbox.discard();
    },
  };
}

/** For some seconds after its start the apiserver answers 503 to what a policy matches: it has not read the schemas yet. */
async function whenSchemasAreKnown<T extends object>(create: () => Promise<T>): Promise<T> {
  const refusedForNow = (error: unknown) => {
    if (isKubeError(error, 'Unavailable') && error.status === 503) return undefined;
    throw error;
  };
  const created = await eventuallyHolds(
    'the apiserver knows the schemas',
    () => create().catch(refusedForNow),
    (one) => one !== undefined,
  );
  return created as T;
}

function selecting(names: string[]): NodeMaintenanceSpec['nodeSelector'] {
  return {
    nodeSelectorTerms: names.map((name) => ({
      matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
    })),
  };
}

export function drained(seen: NodeMaintenance): boolean {
  return seen.status?.conditions.some(({ type, status }) => type === 'Drained' && status === 'True') ?? false;
}

/** Whether a maintenance has done all that Complete asks for. */
export function finished(seen: NodeMaintenance): boolean {
  return (
    seen.spec.stage === 'Complete' && (seen.metadata.finalizers ?? []).length === 0 && begun(seen, 'Complete')
  );
}

export function begun(seen: NodeMaintenance, stage: string): boolean {
  return seen.status?.stageStatuses.some(({ name }) => name === stage) ?? false;
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
  return items.filter((pod) => names.includes(pod.metadata.name) && slimPod(pod).status.ready).length;
}

async function startRecord(kube: Kube, signal: AbortSignal, installed: boolean): Promise<Record> {
  const record: Record = { evacuations: new Map(), gone: [] };
  const evacuations = new Informer<Evacuation>({ kube, resource: resources.evacuations, log: silentLog });
  evacuations.subscribe(({ type, object }) => {
    if (type !== 'Added') return;
    const { uid } = object.spec.podRef;
    record.evacuations.set(uid, (record.evacuations.get(uid) ?? new Set()).add(object.metadata.uid ?? ''));
  });
  const pods = new Informer<Pod, RawPod>({
    kube,
    resource: resources.pods,
    transform: slimPod,
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
