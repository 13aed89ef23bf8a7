import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { KubeObject, Pod } from '../../api/core.ts';
import { SYSTEM_NAMESPACE } from '../../api/names.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { deployments } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, type World } from '../kit/world.ts';
import { isTainted } from './windows.ts';

/**
 * A cluster that starts from nothing: every node waits for its agents, and Temporal is one of the workloads. The scheduler places the pods of
 * deploy/; kwok runs no containers, so that processes of this machine stand for those of the worker and of Temporal.
 */
let world: World;
let worker: WorkerProcess | undefined;

const nodes = ['cold-1', 'cold-2', 'cold-3'];
const pool = 'cold';
const temporalPods = { namespace: 'temporal', labelSelector: 'app=temporal' };

beforeAll(async () => {
  world = await createWorld({ nodes: 0, ownServers: true });
  await world.sandbox.server('temporal').kill();
});

afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

async function podsOf(selection: { namespace: string; labelSelector: string }): Promise<Pod[]> {
  return (await world.kube.list(resources.pods, selection)).items.map(trimPod);
}

const ofComponent = (name: string) =>
  podsOf({ namespace: SYSTEM_NAMESPACE, labelSelector: `app.kubernetes.io/name=${name}` });

const taintedNodes = async () => {
  const { items } = await world.kube.list(resources.nodes);
  return items.filter(isTainted).map(({ metadata }) => metadata.name);
};

/** Returns the messages of the Events of a pod with this reason, with who recorded them. */
async function eventsOf({ metadata: { namespace = '', uid } }: Pod, reason: string): Promise<string[]> {
  const fieldSelector = `involvedObject.uid=${uid},reason=${reason}`;
  const { items } = await world.kube.list(resources.events, { namespace, fieldSelector });
  return items.map(({ message, ...event }) => {
    const { reportingComponent } = event as { reportingComponent?: string };
    return `${reportingComponent}: ${message}`;
  });
}

/** A workload that tolerates nothing, as most do. */
const temporal = {
  metadata: { name: 'temporal', namespace: 'temporal' },
  spec: {
    replicas: 1,
    selector: { matchLabels: { app: 'temporal' } },
    template: {
      metadata: { labels: { app: 'temporal' } },
      spec: { containers: [{ name: 'server', image: 'temporalio/server' }] },
    },
  },
} as KubeObject;

const agent = {
  metadata: { name: 'network', namespace: 'default' },
  spec: {
    selector: { matchLabels: { app: 'network' } },
    template: {
      metadata: { labels: { app: 'network' } },
      spec: { tolerations: [{ operator: 'Exists' }], containers: [{ name: 'main', image: 'none' }] },
    },
  },
} as KubeObject;

test('all nodes are created with the readiness taint', async () => {
  const policies = new ReadinessPolicies(world.kube);
  const gates = [gate({ name: 'network', namespace: 'default' })];
  await policies.applied(readinessPolicy('agents', ofPool(pool), gates), { pool });
  await world.sandbox.addNodes(nodes, { pool });
  expect(await taintedNodes()).toEqual(nodes);
});

test('the scheduler places the pods of deploy/ on them, and no pod that does not tolerate the taint', async () => {
  const kubectl = kubectlOf(world.sandbox);
  await world.kube.create(resources.namespaces, { metadata: { name: 'temporal' } });
  await world.kube.create(deployments, temporal);
  for (const folder of ['deploy/worker', 'deploy/admission-server'])
    await succeeds(kubectl(['apply', '-k', folder]));
  for (const name of ['node-maintenance-worker', 'node-maintenance-admission'])
    await eventually(`the pods of ${name} to run`, async () => {
      const pods = await ofComponent(name);
      expect(pods.map(({ status, spec }) => [status.phase, nodes.includes(spec.nodeName ?? '')])).toEqual([
        ['Running', true],
        ['Running', true],
      ]);
      for (const pod of pods)
        expect(await eventsOf(pod, 'Scheduled')).toEqual([
          `default-scheduler: Successfully assigned ${SYSTEM_NAMESPACE}/${pod.metadata.name} to ${pod.spec.nodeName}`,
        ]);
    });
  await eventually('the pod of Temporal to be unschedulable', async () => {
    const [pod] = await podsOf(temporalPods);
    expect(pod?.status.phase).toBe('Pending');
    expect(await eventsOf(pod as Pod, 'FailedScheduling')).toContainEqual(
      expect.stringContaining(
        'default-scheduler: 0/3 nodes are available: 3 node(s) had untolerated taint(s).',
      ),
    );
  });
});

test('the worker starts without Temporal, reports what waits, and opens the gates', async () => {
  await world.apply('first', { nodes: ['cold-1'], stage: 'Drain' });
  worker = startWorker(world.sandbox, { env: { COMPONENTS: 'controllers' } });
  const started = worker;
  await eventually('the worker to report that it waits', async () =>
    expect(await started.readyz()).toMatch(
      /^503 Temporal has been unavailable since .*Z, and no maintenance starts or advances: address \(TEMPORAL_ADDRESS\): no response/,
    ),
  );
  await world.eventually('first', 'the outage to be reported', ({ status }) =>
    (status?.conditions ?? []).some(({ reason }) => reason === 'TemporalUnavailable'),
  );
  expect(await taintedNodes()).toEqual(nodes);
  await world.kube.create(resources.daemonSets as Resource, agent);
  await eventually('the nodes to lose the taint', async () => expect(await taintedNodes()).toEqual([]));
  expect(world.sandbox.server('temporal').pid()).toBeUndefined();
});

test('Temporal is scheduled then, and the maintenance that waited for it is carried out', async () => {
  await eventually('the pod of Temporal to run', async () => {
    const [pod] = await podsOf(temporalPods);
    expect(pod?.status.phase).toBe('Running');
  });
  await world.sandbox.server('temporal').start();
  await worker?.ready();
  const { status } = await world.eventually('first', 'it is drained', drained);
  const progressing = status?.conditions.find(({ type }) => type === 'Progressing');
  expect(progressing).toMatchObject({ status: 'True', reason: 'TemporalAvailable' });
});
