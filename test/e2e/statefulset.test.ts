import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { StatefulSet } from '../../api/core.ts';
import { resources } from '../../kube/resources.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { attached, claimSpec, createVolume, detached, letControllerAttach } from '../kit/volumes.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// One replica with a volume behind a budget, with the real controllers of StatefulSets, budgets and attachments. The test plays the CSI driver.

const namespace = 'default';
const annotation = 'evacuation.coordination.k8s.io/priority_statefulset.apps.k8s.io';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
  worker = startWorker(world.sandbox);
  await worker.ready();
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

const podOf = (name: string) => world.kube.get(resources.pods, { namespace, name: `${name}-0` });

test('a pod of a StatefulSet moves with the consent of its owner, and its node is drained when the volume is detached', async () => {
  for (const node of ['node-1', 'node-2']) await letControllerAttach(world.kube, node);
  const [name, volume] = ['db', 'db-volume'];
  await createVolume(world.kube, volume, { namespace, name: `data-${name}-0` });
  await world.kube.create(resources.statefulSets, {
    metadata: { name, namespace },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: { app: name } },
      template: {
        metadata: { labels: { app: name }, annotations: { [annotation]: '10000/controller' } },
        spec: { terminationGracePeriodSeconds: 1, containers: [{ name: 'main', image: 'none' }] },
      },
      volumeClaimTemplates: [{ metadata: { name: 'data' }, spec: claimSpec }],
    },
  } as unknown as StatefulSet);
  await world.budget(name, { app: name }, { minAvailable: 1 });
  const pod = await eventuallyHolds(
    'the pod to run',
    () => podOf(name),
    (found) => found?.status?.phase === 'Running',
  );
  const node = pod?.spec.nodeName ?? '';
  const attachment = await attached(world.kube, volume, node);
  await world.apply(name, { nodes: [node], stage: 'Drain', requireCapacity: true });
  await world.eventually(
    name,
    'the drain waits for the volume',
    ({ status }) => status?.conditions.find(({ type }) => type === 'Drained')?.reason === 'VolumesAttached',
  );
  const moved = await podOf(name);
  expect(moved?.metadata.uid).not.toBe(pod?.metadata.uid);
  await detached(world.kube, attachment);
  await world.eventually(name, 'the node is drained', drained);
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'the maintenance is finished', finished);
});
