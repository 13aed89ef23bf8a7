import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Lease } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE, WindowAnnotation } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import { startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

/**
 * One outage of Temporal that lasts longer than every interval that an hour would exceed, too: the maintenance Leases (60 s here), the timeouts of
 * heartbeats, and the longest back-offs of activities (15 s), of the work queues (60 s) and of the connections.
 */
const outageMs = 75_000;
const env = { NODE_LEASE_DURATION: '60' };

let world: World;
let worker: WorkerProcess;
let windows: Windows;
let before: Lease | undefined;
let beganMs = 0;

const pools = { patched: ['node-3', 'node-4'] } as const;

beforeAll(async () => {
  world = await createWorld({ nodes: 5, ownServers: true });
  windows = await Windows.in(world, pools);
  worker = startWorker(world.sandbox, { env });
  await worker.ready();
});

afterAll(async () => {
  world?.sandbox.server('temporal').resume();
  await worker?.kill();
  windows?.close();
  await world?.close();
});

const temporal = () => world.sandbox.server('temporal');
const leaseOf = (node: string) =>
  world.kube.get(resources.leases, { namespace: NODE_LEASE_NAMESPACE, name: node });
const podNamesOn = async (node: string) => (await world.podsOn(node)).map(({ metadata }) => metadata.name);
const maintenance = (...args: string[]) => kubectlOf(world.sandbox)(['maintenance', ...args]);
const allow = (budget: string) =>
  world.kube.mergePatch(
    resources.podDisruptionBudgets,
    { namespace: 'default', name: budget },
    { spec: { minAvailable: 0 } },
  );
const isLeft = (node: string, left: string[]) =>
  eventually(`only ${left.join(', ')} to be left on ${node}`, async () =>
    expect((await podNamesOn(node)).toSorted()).toEqual(left.toSorted()),
  );
const conditionOf = ({ status }: NodeMaintenance, type: string) =>
  status?.conditions.find((condition) => condition.type === type);
const isReported = (one: NodeMaintenance) => conditionOf(one, 'Progressing')?.status === 'False';
const workDone = async (window: string, node: string) => {
  const { metadata } = await windows.maintenanceOf(window, node);
  const body = { metadata: { annotations: { [WindowAnnotation.WorkDone]: 'true' } } };
  await world.kube.mergePatch(resources.nodeMaintenances, { name: metadata.name }, body);
};

async function eventsOf(name: string, reason: string): Promise<number[]> {
  const fieldSelector = `involvedObject.name=${name},reason=${reason}`;
  const { items } = await world.kube.list(resources.events, { namespace: 'default', fieldSelector });
  return items.map((event) => (event as { count?: number }).count ?? 0);
}

describe('given a drain, a node that is held, and an open window, when Temporal is lost', () => {
  const pods: Record<'early' | 'late' | 'critical', string[]> = { early: [], late: [], critical: [] };

  beforeAll(async () => {
    pods.early = await world.placePods('node-1', 2, { labels: { app: 'early' } });
    pods.late = await world.placePods('node-1', 2, { labels: { app: 'late' } });
    pods.critical = await world.placePods('node-1', 1, { priorityClassName: 'system-cluster-critical' });
    for (const app of ['early', 'late']) await world.budget(app, { app }, { minAvailable: 2 });
    await world.apply('drain', { nodes: ['node-1'], stage: 'Drain' });
    await world.apply('held', { nodes: ['node-2'], stage: 'Drain' });
    await windows.setBudget(5);
    await windows.applied('patch', { pool: 'patched' });
    await windows.inProgress(await windows.open('patch'), 'node-3');
    await eventually('four Evacuations', () => expect(world.record.evacuations.size).toBe(4));
    await world.eventually('held', 'it is drained', drained);
    await eventually('the node of the window to be drained', async () =>
      expect(drained(await windows.maintenanceOf('patch', 'node-3'))).toBe(true),
    );
    before = await leaseOf('node-2');
    beganMs = Date.now();
    await temporal().kill();
  });

  test('the worker stays ready, and says what does not work', async () => {
    await eventually('the outage to be noticed', async () =>
      expect(await worker.readyz()).toMatch(
        /^200 ok, but Temporal has been unavailable since .*Z, and no maintenance starts or advances: /,
      ),
    );
    expect(await worker.metrics()).toContain('node_maintenance_temporal_connected 0\n');
    expect(await worker.readyz()).toContain('address (TEMPORAL_ADDRESS): no response from 127.0.0.1');
  });

  test('pods of Evacuations that exist are evicted, before and after a restart of the worker', async () => {
    await allow('early');
    await isLeft('node-1', [...pods.late, ...pods.critical]);
    await worker.kill();
    worker = await startNextWorker(world, { env });
    await allow('late');
    await isLeft('node-1', pods.critical);
    // The next tier waits.
    expect(world.record.evacuations.size).toBe(4);
  });

  test('the restarted worker serves admission, gives new nodes a Lease, and records requests', async () => {
    await eventually('the worker to serve admission', async () =>
      expect(await worker.readyz()).toMatch(/^200 ok, but Temporal has been unavailable/),
    );
    await world.sandbox.addNodes(['fresh']);
    await eventually('the Lease of the new node', async () => expect(await leaseOf('fresh')).toBeDefined());
    await workDone('patch', 'node-3');
    await eventually('the work of the window to be recorded as done', async () =>
      expect(conditionOf(await windows.maintenanceOf('patch', 'node-3'), 'Succeeded')).toMatchObject({
        reason: 'Advanced',
      }),
    );
  });

  test('a maintenance that starts or advances says that it waits; one that is held does not', async () => {
    await world.apply('late', { nodes: ['node-5'], stage: 'Cordon' });
    for (const name of ['drain', 'late'])
      await world.eventually(name, 'the outage to be reported', isReported);
    expect(conditionOf((await world.maintenance('held')) as NodeMaintenance, 'Progressing')).toBeUndefined();
    expect((await world.node('node-5')).spec.unschedulable ?? false).toBe(false);
    await eventually('the metric of waiting maintenances', async () =>
      expect(await worker.metrics()).toMatch(
        /^node_maintenance_maintenance_waiting\{maintenance="late",stage="Cordon",reason="TemporalUnavailable"\} 1$/m,
      ),
    );
  });

  test('the command line shows it, and one error where Temporal is needed', async () => {
    const shown = await succeeds(maintenance('status', 'late'));
    expect(shown).toMatch(
      /^nodemaintenance\/late: Cordon, not started\n {2}not progressing for \S+: Temporal is unavailable: /,
    );
    expect(
      await maintenance('start', 'node-5', '--name', 'later', '--wait', '--timeout', '20s'),
    ).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(
        'still waiting for its workflow to progress: Temporal is unavailable: ',
      ),
    });
    for (const args of [
      ['pause', 'drain'],
      ['resume', 'drain'],
      ['history', 'drain'],
    ]) {
      const { code, stdout, stderr } = await maintenance(...args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toMatch(
        new RegExp(
          `^error: ${args[0]} needs Temporal: address \\(TEMPORAL_ADDRESS\\): no response from [^\\n]*\\n$`,
        ),
      );
    }
    // Orders to the object need no Temporal.
    expect(await maintenance('cancel', 'later')).toMatchObject({ code: 0 });
  });

  test('the Lease of the held node is renewed, for as long as it lasts', async () => {
    const leftMs = outageMs - (Date.now() - beganMs);
    await throughout('the node is held', leftMs, async () => {
      const { spec } = (await leaseOf('node-2')) ?? {};
      expect(spec).toMatchObject({ acquireTime: before?.spec.acquireTime, leaseDurationSeconds: 60 });
      expect(Date.parse(spec?.renewTime ?? '') + 60_000).toBeGreaterThan(world.kube.now().getTime());
    });
    expect(await podNamesOn('node-1')).toEqual(pods.critical);
  });
});

describe('when Temporal is back', () => {
  beforeAll(() => temporal().start());

  test('the drain continues with the next tier, and what waited starts', async () => {
    await worker.ready();
    await world.eventually('drain', 'it is drained', drained);
    expect(await podNamesOn('node-1')).toEqual([]);
    await world.eventually('late', 'its node is cordoned', ({ status }) =>
      (status?.nodeStatuses ?? []).some(({ unschedulableBefore }) => unschedulableBefore === false),
    );
    await world.eventually('later', 'it is finished', finished);
    for (const name of ['drain', 'late'])
      await world.eventually(
        name,
        'the end of the outage to be reported',
        (one) => conditionOf(one, 'Progressing')?.status === 'True',
      );
    expect(await worker.metrics()).toContain('node_maintenance_temporal_connected 1\n');
  });

  test('the window continues with the next node, and maintains each once', async () => {
    const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('patch'));
    await windows.inProgress(run, 'node-4');
    await eventually('the second node to be drained', async () =>
      expect(drained(await windows.maintenanceOf('patch', 'node-4'))).toBe(true),
    );
    await workDone('patch', 'node-4');
    expect(await run.result()).toMatchObject({ done: 2, failed: [], remaining: 0 });
    await windows.schedulable(pools.patched);
  });

  test('nothing was lost or done twice', async () => {
    for (const made of world.record.evacuations.values()) expect(made.size).toBe(1);
    const held = (await world.maintenance('held')) as NodeMaintenance;
    expect([held.spec.stage, drained(held)]).toEqual(['Drain', true]);
    expect((await leaseOf('node-2'))?.spec.acquireTime).toBe(before?.spec.acquireTime);
    for (const name of ['drain', 'held', 'late', 'later']) {
      const { count } = await world.temporal.workflow.count(`WorkflowId = "${workflowIdOf(name)}"`);
      expect([name, count]).toEqual([name, 1]);
      expect(await eventsOf(name, 'WorkflowRestarted')).toEqual([]);
    }
    // One Event for each maintenance, and not one for each attempt.
    for (const name of ['drain', 'late']) expect(await eventsOf(name, 'TemporalUnavailable')).toEqual([1]);
  });
});

test('a server that hangs is an outage, too', async () => {
  temporal().pause();
  await eventually('the outage to be noticed', async () =>
    expect(await worker.readyz()).toMatch(/^200 ok, but Temporal has been unavailable/),
  );
  const { code, stderr } = await maintenance('pause', 'held');
  expect([code, stderr.trim().split('\n')]).toEqual([
    1,
    [expect.stringMatching(/^error: pause needs Temporal: .*no response/)],
  ]);
  temporal().resume();
  await eventually('Temporal to answer again', async () =>
    expect(await maintenance('pause', 'held')).toMatchObject({ code: 0 }),
  );
});

test('a stage that ends during an outage is reported soon after it, although heartbeats are minutes apart', async () => {
  await worker.kill();
  // The longest heartbeat timeout, longer than this test waits for anything.
  worker = await startNextWorker(world, { env: { NODE_LEASE_DURATION: '3600' } });
  await worker.ready();
  await world.apply('ended', { nodes: ['node-1'], stage: 'Cordon' });
  await eventually('node-1 to be cordoned', async () =>
    expect((await world.node('node-1')).spec.unschedulable).toBe(true),
  );
  await temporal().kill();
  await world.patch('ended', { stage: 'Complete' });
  // The SDK would give up by then.
  await throughout('nothing is reported', 15_000, async () =>
    expect(finished((await world.maintenance('ended')) as NodeMaintenance)).toBe(false),
  );
  await temporal().start();
  await world.eventually('ended', 'it is finished', finished);
});

test('a namespace that is deleted ends the worker, and the next one works without Temporal', async () => {
  const { bin, dir, temporalAddress, temporalNamespace } = world.sandbox;
  const target = [`--address=${temporalAddress}`, `--namespace=${temporalNamespace}`, '--yes'];
  await promisify(execFile)(join(bin, 'temporal'), ['operator', 'namespace', 'delete', ...target], {
    env: { HOME: dir },
  });
  expect(await worker.exited()).toBe(1);
  worker = await startNextWorker(world, { env });
  await eventually('the worker to serve admission', async () =>
    expect(await worker.readyz()).toContain(`has no namespace "${temporalNamespace}"`),
  );
  await world.sandbox.addNodes(['fresher']);
  await eventually('the Lease of the new node', async () => expect(await leaseOf('fresher')).toBeDefined());
});
