import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { NodeMaintenanceStatus } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import type { Preview } from '../../domain/drain/preview.ts';
import { kubectlOf } from '../api/kubectl.ts';
import { rejectCreations } from '../kit/rejection.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// "I also want to be able to discover workloads that are blocking the node drain" (KEP-4212 > User Stories).

const name = 'odd-pods';
const node = 'node-1';
const held = ['example.com/held'];

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

const stubborn = 'stubborn';
let admitEvictions: () => Promise<void>;

/** Rejects every eviction in a namespace, as the webhook of an application does. */
async function rejectEvictions(): Promise<void> {
  admitEvictions = await rejectCreations(world.kube, stubborn, {
    apiGroup: '',
    apiVersion: 'v1',
    resource: 'pods/eviction',
    expression: `object.metadata.namespace != '${stubborn}'`,
    message: 'ask the data team first',
  });
  await world.kube.create(resources.namespaces, { metadata: { name: stubborn } });
  // A policy takes effect a moment after its creation.
  await eventually('evictions to be rejected', async () => {
    const [probe = ''] = await world.placePods('node-2', 1, { namespace: stubborn });
    const target = { namespace: stubborn, name: probe };
    const uid = (await world.kube.get(resources.pods, target))?.metadata.uid ?? '';
    await expect(world.kube.evict({ ...target, uid })).rejects.toThrow('ask the data team first');
  });
}

async function statusNow(): Promise<NodeMaintenanceStatus> {
  const status = (await world.maintenance(name))?.status;
  expect(status).toBeDefined();
  return status as NodeMaintenanceStatus;
}

async function podNames(): Promise<string[]> {
  return (await world.podsOn(node)).map(({ metadata }) => metadata.name).toSorted();
}

/** Names of the pods, by what is odd about them. */
const pods: Record<string, string> = {};

async function placed(what: string, differs: Parameters<World['placePods']>[2] = {}): Promise<string> {
  const [pod = ''] = await world.placePods(node, 1, differs);
  pods[what] = pod;
  return pod;
}

const unserved = 'unserved.example.com';
const evacuatedBy = (evacuatorClass: string) => ({
  [`evacuation.coordination.k8s.io/priority_${evacuatorClass}`]: '10000/controller',
});

const released = (pod: string, namespace = 'default') =>
  world.kube.mergePatch(resources.pods, { namespace, name: pod }, { metadata: { finalizers: [] } });

/** Completes the Evacuation of a pod, as its evacuator does. */
async function completed(pod: string): Promise<void> {
  const { items } = await world.kube.list(resources.evacuations, { namespace: 'default' });
  const evacuation = items.find(({ spec }) => spec.podRef.name === pod);
  const key = { namespace: 'default', name: evacuation?.metadata.name ?? '' };
  const patch = { status: { activeEvacuatorCompleted: true } };
  await world.kube.mergePatch(resources.evacuations, key, patch, { subresource: 'status' });
}

describe('the pods of a node that is drained', () => {
  beforeAll(async () => {
    await placed('without a controller');
    await placed('with an emptyDir', { volumes: [{ name: 'scratch', emptyDir: {} }] });
    const finished = await placed('finished', { restartPolicy: 'Never' });
    const key = { namespace: 'default', name: finished };
    await world.kube.mergePatch(
      resources.pods,
      key,
      { status: { phase: 'Succeeded', conditions: [{ type: 'Ready', status: 'False' }] } },
      { subresource: 'status' },
    );
    await placed('terminating forever', { finalizers: held });
    await placed('orphaned by its DaemonSet', { annotations: evacuatedBy('daemonset.apps.k8s.io') });
    await placed('whose evacuator does not respond', { annotations: evacuatedBy(unserved) });
    await placed('behind two budgets', { labels: { app: 'two' } });
    await world.budget('two-1', { app: 'two' }, { minAvailable: 0 });
    await world.budget('two-2', { app: 'two' }, { minAvailable: 0 });
    await world.placePods('node-2', 1, { labels: { app: 'never' } });
    await placed('behind a budget of maxUnavailable 0', { labels: { app: 'never' } });
    await world.budget('never', { app: 'never' }, { minAvailable: 2 });
    await rejectEvictions();
    await placed('whose eviction is rejected', { namespace: stubborn });
    await world.kube.create(resources.namespaces, { metadata: { name: 'ending' } });
    const inEnding = { namespace: 'ending', finalizers: held };
    await eventually('the namespace to take pods', () => placed('in a terminating namespace', inEnding));
    const ending = await world.kube.get(resources.namespaces, { name: 'ending' });
    await world.kube.delete(resources.namespaces, { name: 'ending' }, { uid: ending?.metadata.uid ?? '' });
    await world.kube.create(resources.pods, {
      metadata: { name: 'on-no-node', namespace: 'default' },
      spec: { containers: [{ name: 'main', image: 'none' }], nodeSelector: { never: 'there' } },
    } as never);
    await placed('static', { annotations: { 'kubernetes.io/config.mirror': 'made-by-hand' } });
    await world.apply(name, { nodes: [node], stage: 'Drain' });
  });

  test('leave when nothing blocks them, whatever drain filters other tools have', async () => {
    const gone = ['without a controller', 'with an emptyDir', 'finished', 'orphaned by its DaemonSet'].map(
      (what) => pods[what],
    );
    await eventually('these pods to be gone', async () => {
      const left = await podNames();
      expect(left.filter((pod) => gone.includes(pod))).toEqual([]);
    });
  });

  test('are named with their reason when they are blocked', async () => {
    const want = [
      [
        'behind a budget of maxUnavailable 0',
        'DisruptionBudgetNeverAllows',
        /default\/never can never allow/,
      ],
      ['behind two budgets', 'MultipleDisruptionBudgets', /default\/two-1, default\/two-2/],
      ['in a terminating namespace', 'StuckTerminating', /finalizers example.com\/held are still set/],
      ['terminating forever', 'StuckTerminating', /finalizers example.com\/held are still set/],
      [
        'whose evacuator does not respond',
        'EvacuatorNotResponding',
        /Evacuator unserved.example.com does not respond .* next: the eviction API/,
      ],
      ['whose eviction is rejected', 'EvictionRejected', /ask the data team first/],
    ] as const;
    await eventually('all blocked pods to be named', async () => {
      const { blockedPods = [], podsBlocked } = await statusNow();
      expect(blockedPods.map((pod) => pod.name).toSorted()).toEqual(
        want.map(([what]) => pods[what] ?? what).toSorted(),
      );
      expect(podsBlocked).toBe(want.length);
    });
    const { blockedPods = [], conditions } = await statusNow();
    for (const [what, reason, message] of want) {
      expect(blockedPods.find((pod) => pod.name === pods[what])).toMatchObject({
        node,
        reason,
        message: expect.stringMatching(message),
      });
    }
    const drained = conditions.find(({ type }) => type === 'Drained');
    expect(drained).toMatchObject({ status: 'False', reason: 'Blocked' });
    expect(drained?.message).toMatch(/^6 pods left to evacuate, of which 6 cannot leave: default\/placed-/);
  });

  test('are named by Warning Events of the maintenance, one for each cause', async () => {
    const fieldSelector = `involvedObject.name=${name},type=Warning`;
    await eventually('the Events', async () => {
      const { items } = await world.kube.list(resources.events, { namespace: 'default', fieldSelector });
      const reasons = new Set(items.map(({ reason }) => reason));
      expect([...reasons].toSorted()).toEqual([
        'DisruptionBudgetNeverAllows',
        'EvacuatorNotResponding',
        'EvictionRejected',
        'MultipleDisruptionBudgets',
        'StuckTerminating',
      ]);
    });
  });

  test('are named by plan, too, with what their Evacuations show', async () => {
    const { stdout } = await kubectlOf(world.sandbox)(['maintenance', 'plan', name, '-o', 'json']);
    const { tiers } = JSON.parse(stdout) as Preview;
    const planned = tiers.flatMap((tier) => tier.pods).map(({ pod, blockers }) => [pod, blockers[0]?.reason]);
    expect(planned).toContainEqual([
      `default/${pods['whose evacuator does not respond']}`,
      'EvacuatorNotResponding',
    ]);
  });

  test('are ignored while they are pending without a node', async () => {
    const pending = await world.kube.get(resources.pods, { namespace: 'default', name: 'on-no-node' });
    expect(pending?.status?.phase).toBe('Pending');
    const { items } = await world.kube.list(resources.evacuations, { namespace: 'default' });
    expect(items.map(({ spec }) => spec.podRef.name)).not.toContain('on-no-node');
  });

  test('leave once users have removed what blocks them; the static pod is reported', async () => {
    for (const budget of ['two-1', 'never']) {
      const key = { namespace: 'default', name: budget };
      const uid = (await world.kube.get(resources.podDisruptionBudgets, key))?.metadata.uid ?? '';
      await world.kube.delete(resources.podDisruptionBudgets, key, { uid });
    }
    await admitEvictions();
    await completed(pods['whose evacuator does not respond'] ?? '');
    await released(pods['terminating forever'] ?? '');
    await released(pods['in a terminating namespace'] ?? '', 'ending');
    await eventually('the drain to end', async () =>
      expect((await statusNow()).conditions.find(({ type }) => type === 'Drained')).toMatchObject({
        status: 'True',
        reason: 'StaticPodsRemain',
      }),
    );
    expect(await podNames()).toEqual([pods['static']]);
    expect((await statusNow()).blockedPods).toEqual([]);
    expect((await statusNow()).nodeStatuses[0]?.drainMessage).toBe(
      `Drained, left running: default/${pods['static']}.`,
    );
  });
});
