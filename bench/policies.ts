import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeObject, Node } from '../api/core.ts';
import { COMPLETED_LABEL, NODE_EXISTS_LABEL, NODE_MAINTENANCE, NODE_READINESS } from '../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../api/nodeMaintenance.ts';
import type { NodeReadiness } from '../api/nodeReadiness.ts';
import { forEachBounded } from '../kube/bounded.ts';
import type { Kube } from '../kube/client.ts';
import { type RawPod, type Resource, resources } from '../kube/resources.ts';
import type { BenchmarkOf } from './benchmarks.ts';
import { createNamespace, trafficNamespace } from './pods.ts';
import type { Testbed } from './testbed.ts';
import { timed } from './traffic.ts';

/** Requests for which the apiserver evaluates policies of deploy/ with each object of a kind. */
export const policyRequests = ['create a pod of a DaemonSet', 'change a Node', 'create a Node'] as const;
export type PolicyRequest = (typeof policyRequests)[number];

/** Time that these requests take with a number of objects of this project. No worker runs. */
export interface PoliciesMeasurement {
  /** Number of complete maintenances, and of NodeReadinesses of other nodes. */
  complete: number;
  /** Number of maintenances in Drain, each of 20 nodes. */
  open: number;
  /** Seconds until each request was answered, ascending. */
  seconds: Record<PolicyRequest, number[]>;
}

/** Prefix of the names of all objects of this benchmark. */
const prefix = 'policies-';
const openMaintenances = 50;
/** Requests of each kind: the first ones are not measured. */
const [unmeasured, measured] = [20, 100];
const maxInFlight = 16;
const settleMs = 3_000;

export async function measurePolicies(
  testbed: Testbed,
  { objects }: BenchmarkOf<'Policies'>,
  report: (line: string) => void,
): Promise<PoliciesMeasurement[]> {
  const { kube, signal } = testbed;
  const indexes = Array.from({ length: objects }, (_, index) => index);
  const completed = indexes.map((index) =>
    maintenanceNamed(`complete-${index}`, 'Complete', { [COMPLETED_LABEL]: 'true' }),
  );
  const readinesses = indexes.map(readinessOf);
  const open = indexes.slice(0, openMaintenances).map((index) => maintenanceNamed(`open-${index}`, 'Drain'));
  const measurements: PoliciesMeasurement[] = [];
  const measure = async (counts: Pick<PoliciesMeasurement, 'complete' | 'open'>) => {
    await sleep(settleMs, undefined, { signal });
    measurements.push({ ...counts, seconds: await timesOf(testbed) });
    report(`${counts.complete} complete and ${counts.open} open maintenances`);
  };
  await createNamespace(kube, signal);
  try {
    await measure({ complete: 0, open: 0 });
    await createAll(kube, resources.nodeMaintenances, completed);
    await createAll(kube, resources.nodeReadinesses, readinesses);
    await measure({ complete: objects, open: 0 });
    await createAll(kube, resources.nodeMaintenances, open);
    await forEachBounded(maxInFlight, open, ({ metadata: { name } }) =>
      kube.mergePatch(
        resources.nodeMaintenances,
        { name },
        { status: drainingStatus },
        { subresource: 'status' },
      ),
    );
    await measure({ complete: objects, open: open.length });
    return measurements;
  } finally {
    await deleteOwn(kube, resources.nodeMaintenances);
    await deleteOwn(kube, resources.nodeReadinesses);
  }
}

async function timesOf({ kube, nodes, signal }: Testbed): Promise<PoliciesMeasurement['seconds']> {
  const [node = ''] = nodes;
  // Nothing is stored: every request finds the same objects.
  const dryRun = { dryRun: true };
  const requests: Record<PolicyRequest, (index: number) => Promise<unknown>> = {
    'create a pod of a DaemonSet': (index) => kube.create(resources.pods, daemonPod(index, node), dryRun),
    'change a Node': (index) =>
      kube.mergePatch(
        resources.nodes,
        { name: node },
        { metadata: { labels: { bench: `${index}` } } },
        dryRun,
      ),
    'create a Node': (index) =>
      kube.create<Node>(resources.nodes, { metadata: { name: `${prefix}${index}` } } as Node, dryRun),
  };
  const seconds: PoliciesMeasurement['seconds'] = {
    'create a pod of a DaemonSet': [],
    'change a Node': [],
    'create a Node': [],
  };
  for (let index = 0; index < unmeasured + measured && !signal.aborted; index++)
    for (const request of policyRequests) {
      await timed(index < unmeasured ? [] : seconds[request], () => requests[request](index));
    }
  for (const times of Object.values(seconds)) times.sort((a, b) => a - b);
  return seconds;
}

const nodesOfOpenMaintenance = 20;

/** Status of a maintenance that drains nodes which do not exist. */
const drainingStatus = {
  nodeStatuses: Array.from({ length: nodesOfOpenMaintenance }, (_, index) => ({
    nodeRef: { name: `${prefix}drained-${index}` },
    drainTargets: ['Default', 'DaemonSet'].map((podType) => ({ podType, podPriority: 1_000 })),
    unschedulableBefore: false,
  })),
};

/** Returns a maintenance of a node that does not exist. */
function maintenanceNamed(
  name: string,
  stage: NodeMaintenanceStage,
  labels?: Record<string, string>,
): NodeMaintenance {
  const { apiVersion, kind } = NODE_MAINTENANCE;
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [`node-of-${name}`] }];
  return {
    apiVersion,
    kind,
    metadata: { name: `${prefix}${name}`, ...(labels && { labels }) },
    spec: { stage, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } },
  };
}

function readinessOf(index: number): NodeReadiness {
  const { apiVersion, kind } = NODE_READINESS;
  const labels = { [NODE_EXISTS_LABEL]: 'true' };
  return {
    apiVersion,
    kind,
    metadata: { name: `${prefix}existing-${index}`, labels },
    spec: { readinessGates: [] },
  };
}

/** Returns a pod as the DaemonSet controller creates it for a node. */
function daemonPod(index: number, node: string): RawPod {
  const matchFields = [{ key: 'metadata.name', operator: 'In', values: [node] }];
  const required = {
    requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields }] },
  };
  const pod = {
    metadata: {
      namespace: trafficNamespace,
      name: `${prefix}${index}`,
      labels: { 'controller-revision-hash': 'bench' },
      ownerReferences: [
        { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'bench', uid: 'bench', controller: true },
      ],
    },
    spec: { affinity: { nodeAffinity: required }, containers: [{ name: 'main', image: 'none' }] },
  };
  return pod as unknown as RawPod;
}

async function createAll<T extends KubeObject>(
  kube: Kube,
  resource: Resource<T>,
  objects: readonly T[],
): Promise<void> {
  await forEachBounded(maxInFlight, objects, async (object) => {
    await kube.create<T>(resource, object);
  });
}

/** Deletes the objects of this benchmark, by their names. */
async function deleteOwn<T extends KubeObject>(kube: Kube, resource: Resource<T>): Promise<void> {
  const own = (await kube.list(resource)).items.filter(({ metadata }) => metadata.name.startsWith(prefix));
  await forEachBounded(maxInFlight, own, ({ metadata: { name, uid = '' } }) =>
    kube.delete(resource, { name }, { uid }),
  );
}
