import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Deployment, KubeObject } from '../../api/core.ts';
import { RELEASED_ANNOTATION } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { type EndpointWatch, watchEndpoints } from '../kit/endpoints.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { deathNoticedSoon, startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// One replica behind a Service, with the real controllers of Deployments, ReplicaSets, EndpointSlices and budgets.

const namespace = 'default';
const annotation = 'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io';
const nodes = ['node-1', 'node-2', 'node-3'];

let world: World;
let worker: WorkerProcess;
const apps: App[] = [];

beforeAll(async () => {
  world = await createWorld({ nodes: nodes.length });
  worker = startWorker(world.sandbox, { env: deathNoticedSoon });
  await worker.ready();
});
afterEach(async () => {
  for (const one of apps.splice(0)) await removed(one);
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

interface App {
  name: string;
  /** The node of its pod. */
  node: string;
  pod: string;
  endpoints: EndpointWatch;
}

/** Creates one replica and its Service; `annotated` has the pod moved before its eviction. */
async function app(name: string, { annotated = true } = {}): Promise<App> {
  const labels = { app: name };
  await world.kube.create(resources.services, {
    metadata: { name, namespace },
    spec: { selector: labels, ports: [{ port: 80 }] },
  } as KubeObject as never);
  await world.kube.create(resources.deployments, {
    metadata: { name, namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels, ...(annotated && { annotations: { [annotation]: '10000/controller' } }) },
        spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image: 'none' }] },
      },
    },
  } as Deployment);
  const endpoints = await watchEndpoints(world.kube, namespace, name);
  await eventuallyHolds(`${name} to be served`, endpoints.ready, (ready) => ready.length === 1);
  const [pod = ''] = endpoints.ready();
  const found = await world.kube.get(resources.pods, { namespace, name: pod });
  const one = { name, pod, node: found?.spec.nodeName ?? '', endpoints };
  apps.push(one);
  return one;
}

/** Deletes it with its budget and its pods, so that the next one has the nodes to itself. */
async function removed(one: App): Promise<void> {
  one.endpoints.close();
  const key = { namespace, name: one.name };
  for (const resource of [resources.deployments, resources.podDisruptionBudgets]) {
    const found = await world.kube.get<KubeObject>(resource, key);
    if (found === undefined) continue;
    const options = { uid: found.metadata.uid ?? '', propagationPolicy: 'Background' } as const;
    await world.kube.delete(resource, key, options);
  }
  await eventuallyHolds(
    `the pods of ${one.name} to be gone`,
    () => podsOf(one),
    (pods) => pods.length === 0,
  );
}

async function podsOf({ name }: App) {
  return (await world.kube.list(resources.pods, { namespace, labelSelector: `app=${name}` })).items;
}

async function eventuallyReleased(one: App): Promise<void> {
  await eventuallyHolds(
    `pod ${one.pod} to be released, and its replacement to be created`,
    () => podsOf(one),
    (pods) =>
      pods.length === 2 &&
      pods.some(({ metadata }) => metadata.annotations?.[RELEASED_ANNOTATION] !== undefined),
  );
}

async function setUnschedulable(names: readonly string[], unschedulable: true | null): Promise<void> {
  for (const name of names)
    await world.kube.mergePatch(resources.nodes, { name }, { spec: { unschedulable } });
}

async function eventuallyMoved(one: App): Promise<void> {
  await eventuallyHolds(
    `${one.name} to be served only from elsewhere`,
    one.endpoints.ready,
    (ready) => ready.length === 1 && ready[0] !== one.pod,
  );
  expect(Math.min(...one.endpoints.counts)).toBeGreaterThanOrEqual(1);
  const found = await world.kube.get(resources.deployments, { namespace, name: one.name });
  expect({ replicas: found?.spec.replicas, generation: found?.metadata.generation }).toEqual({
    replicas: 1,
    generation: 1,
  });
}

async function completed(name: string): Promise<void> {
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'the maintenance is finished', finished);
}

describe('an application of one replica', () => {
  test.each([
    { when: 'without a budget', name: 'plain', budget: false },
    { when: 'whose budget wants that one available', name: 'guarded', budget: true },
  ])('$when moves before its node is drained, and is served throughout', async ({ name, budget }) => {
    const one = await app(name);
    if (budget) await world.budget(name, { app: name }, { minAvailable: 1 });
    await world.apply(name, { nodes: [one.node], stage: 'Drain' });
    await world.eventually(name, 'the node is drained', drained);
    await eventuallyMoved(one);
    await completed(name);
  });

  test('is not served for a while under kubectl drain, without the annotation', async () => {
    const one = await app('interrupted', { annotated: false });
    await kubectlDrain(one);
    await eventuallyHolds(
      'it is served again',
      one.endpoints.ready,
      (ready) => ready.length === 1 && ready[0] !== one.pod,
    );
    expect(Math.min(...one.endpoints.counts)).toBe(0);
    await setUnschedulable([one.node], null);
  });

  test('is stuck behind its budget under kubectl drain, without the annotation', async () => {
    const one = await app('stuck', { annotated: false });
    await world.budget('stuck', { app: 'stuck' }, { minAvailable: 1 });
    const output = await kubectlDrain(one);
    expect(output).toContain("would violate the pod's disruption budget");
    expect(one.endpoints.ready()).toEqual([one.pod]);
    await setUnschedulable([one.node], null);
  });

  test('moves although the worker is killed in the middle', async () => {
    const one = await app('crashed');
    await setUnschedulable(nodes, true);
    await world.apply('crashed', { nodes: [one.node], stage: 'Drain' });
    await eventuallyReleased(one);
    await worker.kill();
    await setUnschedulable(
      nodes.filter((node) => node !== one.node),
      null,
    );
    worker = await startNextWorker(world, { env: deathNoticedSoon });
    await world.eventually('crashed', 'the node is drained', drained);
    await eventuallyMoved(one);
    // Before Kubernetes 1.36 changes of a maintenance need its webhooks.
    await worker.ready();
    await completed('crashed');
    await setUnschedulable(nodes, null);
  });

  test('is as it was when its maintenance is cancelled in the middle', async () => {
    const one = await app('cancelled');
    await setUnschedulable(nodes, true);
    await world.apply('cancelled', { nodes: [one.node], stage: 'Drain' });
    await eventuallyReleased(one);
    await completed('cancelled');
    await eventuallyHolds(
      'its ReplicaSet has one pod again, and nothing else is there',
      () => podsOf(one),
      (pods) =>
        pods.length === 1 &&
        pods[0]?.metadata.ownerReferences?.[0]?.kind === 'ReplicaSet' &&
        pods[0].metadata.annotations?.[RELEASED_ANNOTATION] === undefined,
    );
    expect(one.endpoints.ready()).toEqual([one.pod]);
    expect(Math.min(...one.endpoints.counts)).toBe(1);
    await setUnschedulable(nodes, null);
  });

  test('is left to another controller if this installation does not replace pods of Deployments', async () => {
    await worker.stop();
    worker = startWorker(world.sandbox, {
      args: ['--deployment-evacuator', 'false', '--evacuator-response-timeout', '1'],
    });
    await worker.ready();
    const one = await app('other');
    await world.apply('other', { nodes: [one.node], stage: 'Drain' });
    await world.eventually('other', 'its pod is evicted', drained);
    await eventuallyHolds(
      'an Event to say that nobody responded',
      async () => (await world.kube.list(resources.events, { namespace })).items,
      (events) =>
        events.some(
          ({ reason, message }) =>
            reason === 'EvacuatorNotResponding' && message.includes('deployment.apps.k8s.io'),
        ),
    );
    await completed('other');
  });
});

/** Returns everything that kubectl drain printed; it gives up after some seconds. */
async function kubectlDrain({ name, node }: App): Promise<string> {
  const { bin, env, dir } = world.sandbox;
  const args = ['drain', node, `--pod-selector=app=${name}`, '--timeout=4s'];
  const outcome = await promisify(execFile)(join(bin, 'kubectl'), args, { env: { ...env, HOME: dir } }).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
  return `${outcome.stdout}${outcome.stderr}`;
}
