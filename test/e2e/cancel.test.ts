import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Evacuation } from '../../api/evacuation.ts';
import type { NodeMaintenanceStage } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, finished, type World, stageStarted } from '../kit/world.ts';

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

const node = 'node-1';

async function evacuationOf(pod: string): Promise<Evacuation | undefined> {
  const { items } = await world.kube.list(resources.evacuations, { namespace: 'default' });
  return items.find(({ spec }) => spec.podRef.name === pod);
}

async function living(pod: string): Promise<boolean> {
  const found = await world.kube.get(resources.pods, { namespace: 'default', name: pod });
  return found !== undefined && found.metadata.deletionTimestamp === undefined;
}

/** Reports as an evacuator that has started. */
async function initiated(pod: string, evacuationCancellationPolicy: 'Allow' | 'Forbid'): Promise<void> {
  const { name } = ((await evacuationOf(pod)) as Evacuation).metadata;
  const status = { activeEvacuatorClass: 'example.com', evacuationCancellationPolicy };
  const options = { subresource: 'status', fieldManager: 'example.com' };
  await world.kube.mergePatch(resources.evacuations, { namespace: 'default', name }, { status }, options);
}

// KEP-4212 > Uncordon (Complete) > "Consequences for pods"
describe('a drain that is cancelled', () => {
  const guarded = { guarded: 'yes' };
  let untouched: string;
  let allowing: string;
  let forbidding: string;
  let shared: string;

  beforeAll(async () => {
    [untouched, allowing, forbidding, shared] = (await world.placePods(node, 4, { labels: guarded })) as [
      string,
      string,
      string,
      string,
    ];
    await world.budget('guard', guarded, { minAvailable: 4 });
    await world.apply('cancelled', { nodes: [node], stage: 'Drain' });
    for (const pod of [untouched, allowing, forbidding, shared])
      await eventually(`the Evacuation of ${pod}`, async () => expect(await evacuationOf(pod)).toBeDefined());
    await initiated(allowing, 'Allow');
    await initiated(forbidding, 'Forbid');
    const { metadata } = (await evacuationOf(shared)) as Evacuation;
    const finalizers = [...(metadata.finalizers ?? []), 'example.com/instigator'];
    const key = { namespace: 'default', name: metadata.name };
    await world.kube.mergePatch(resources.evacuations, key, { metadata: { finalizers } });
    await world.patch('cancelled', { stage: 'Complete' });
    await world.eventually('cancelled', 'it is complete', finished);
  });

  test('"pods whose evacuators have not yet initiated evacuation will continue to run unchanged"', async () => {
    expect(await evacuationOf(untouched)).toBeUndefined();
    expect(await living(untouched)).toBe(true);
  });

  test('"pods whose evacuators ... support cancellation should cancel the evacuation and keep the pods available"', async () => {
    expect(await evacuationOf(allowing)).toBeUndefined();
    expect(await living(allowing)).toBe(true);
  });

  test('"if there are foreign finalizers on the Evacuation, it should only remove its own"', async () => {
    const { metadata } = (await evacuationOf(shared)) as Evacuation;
    expect(metadata.deletionTimestamp).toBeUndefined();
    expect(metadata.finalizers).toEqual(['example.com/instigator']);
    expect(await living(shared)).toBe(true);
  });

  test('"pods whose evacuators ... do not support cancellation should continue the evacuation and eventually terminate"', async () => {
    const { metadata } = (await evacuationOf(forbidding)) as Evacuation;
    expect(metadata.deletionTimestamp).toBeUndefined();
    expect(await living(forbidding)).toBe(true);
    const key = { namespace: 'default', name: 'guard' };
    await world.kube.mergePatch(resources.podDisruptionBudgets, key, { spec: { minAvailable: 0 } });
    await eventually('the pod to leave', async () => {
      expect(await living(forbidding)).toBe(false);
      expect(await evacuationOf(forbidding)).toBeUndefined();
    });
    // The Evacuation of another instigator stays, and is carried out; the other two were withdrawn.
    await eventually('the shared one to leave', async () => expect(await living(shared)).toBe(false));
    expect([await living(untouched), await living(allowing)]).toEqual([true, true]);
  });

  test('uncordons the node', async () => {
    expect((await world.node(node)).spec.unschedulable ?? false).toBe(false);
  });
});

describe('a maintenance that is deleted', () => {
  const cases: { stage: NodeMaintenanceStage; touched: boolean }[] = [
    { stage: 'Idle', touched: false },
    { stage: 'Cordon', touched: true },
    { stage: 'Drain', touched: true },
    { stage: 'Complete', touched: true },
  ];
  test.each(cases)('in $stage uncordons its node, and only then is gone', async ({ stage, touched }) => {
    const name = `deleted-in-${stage.toLowerCase()}`;
    const [pod] = await world.placePods('node-2', 1, { labels: { app: name } });
    await world.budget(name, { app: name }, { minAvailable: 1 });
    await world.apply(name, { nodes: ['node-2'], stage: stage === 'Complete' ? 'Cordon' : stage });
    await world.eventually(name, 'its stage has started', (observed) =>
      stageStarted(observed, stage === 'Complete' ? 'Cordon' : stage),
    );
    if (touched)
      await eventually('the cordon', async () =>
        expect((await world.node('node-2')).spec.unschedulable).toBe(true),
      );
    if (stage === 'Complete') await world.patch(name, { stage });
    const uid = (await world.maintenance(name))?.metadata.uid ?? '';
    await world.kube.delete(resources.nodeMaintenances, { name }, { uid });
    await eventually('the object to be gone', async () =>
      expect(await world.maintenance(name)).toBeUndefined(),
    );
    expect((await world.node('node-2')).spec.unschedulable ?? false).toBe(false);
    expect(await evacuationOf(pod ?? '')).toBeUndefined();
    await throughout('the pod runs on', 500, async () => expect(await living(pod ?? '')).toBe(true));
  });
});
