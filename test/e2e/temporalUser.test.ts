import { execFile } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { resources } from '../../kube/resources.ts';
import { eventually } from '../kit/eventually.ts';
import { clusterRoles } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

/** Attacks of a client that may write to the Temporal namespace, and that Kubernetes lets maintain no node. */
let world: World;
let worker: WorkerProcess;
let windows: Windows;

beforeAll(async () => {
  world = await createWorld({ nodes: 3 });
  windows = await Windows.in(world, { target: ['node-1', 'node-2'] });
  await temporalMayMaintain(['no-node']);
  worker = startWorker(world.sandbox);
  await worker.ready();
});

afterAll(async () => {
  windows?.close();
  await worker?.stop();
  await temporalMayMaintain(undefined);
  await world?.close();
});

/** As after an installation without deploy/temporal-user, unless all nodes are allowed (`undefined`). */
async function temporalMayMaintain(resourceNames: string[] | undefined): Promise<void> {
  const rules = [{ apiGroups: [''], resources: ['nodes'], verbs: ['delete'], resourceNames }];
  await world.kube.mergePatch(clusterRoles, { name: 'node-maintenance-temporal' }, { rules });
}

/** Runs the temporal CLI, and returns what it prints. */
function temporal(...args: string[]): Promise<string> {
  const options = { env: { ...process.env, ...world.sandbox.env } };
  return new Promise((resolve) => {
    execFile(`${world.sandbox.bin}/temporal`, args, options, (_error, stdout, stderr) => {
      resolve(stdout + stderr);
    });
  });
}

async function start(type: string, workflowId: string, ...inputs: object[]): Promise<string> {
  const options = ['--task-queue', 'node-maintenance', '--type', type, '--workflow-id', workflowId];
  // In place of the run that the controller may have started.
  options.push('--id-conflict-policy', 'TerminateExisting');
  await temporal(
    'workflow',
    'start',
    ...options,
    ...inputs.flatMap((input) => ['--input', JSON.stringify(input)]),
  );
  return temporal('workflow', 'result', '-w', workflowId);
}

const signal = (workflowId: string, name: string, input: object) =>
  temporal('workflow', 'signal', '-w', workflowId, '--name', name, '--input', JSON.stringify(input));

const isCordoned = async (node: string) => (await world.node(node)).spec.unschedulable === true;

describe('a window that needs approval and is suspended', () => {
  beforeAll(() => windows.applied('guarded', { pool: 'target', approval: 'PerWindow', suspend: true }));

  test.each(['maintenance-window-guarded', 'maintenance-window-guarded-2099-01-01T00:00:00Z'])(
    'is not opened by a start with a second input: %s',
    async (workflowId) => {
      const { metadata } = await windows.now('guarded');
      const forged = {
        name: 'guarded',
        uid: metadata.uid,
        start: '2026-01-01T00:00:00.000Z',
        end: '2099-01-01T00:00:00.000Z',
        approved: true,
        approvedNodes: ['node-1', 'node-2'],
        paused: false,
        cancelled: false,
        ended: false,
        runId: 'forged',
      };
      expect(await start('maintenanceWindow', workflowId, { name: 'guarded' }, forged)).toContain(
        'expected one JSON object as input',
      );
      expect((await windows.now('guarded')).status?.active).toBeUndefined();
      expect(await windows.maintenancesOf('guarded')).toEqual([]);
      expect(await isCordoned('node-1')).toBe(false);
    },
  );

  test('is not opened by a start without the permission, whose message names the remedy', async () => {
    const text = await start('maintenanceWindow', 'maintenance-window-guarded', { name: 'guarded' });
    expect(text).toContain('user "nodemaintenance.k8s.io:temporal" may not delete nodes');
    expect(text).toContain('kubectl apply --server-side -k deploy/temporal-user');
    expect((await windows.now('guarded')).status?.active).toBeUndefined();
  });
});

describe('a maintenance', () => {
  test('is not started without the permission, and nothing is created', async () => {
    const input = { name: 'mallory', nodes: ['node-1'], stage: 'Drain' };
    const text = await start('nodeMaintenance', 'node-maintenance-mallory', input);
    expect(text).toContain('kubectl apply --server-side -k deploy/temporal-user');
    expect(await world.maintenance('mallory')).toBeUndefined();
  });

  test('that is planned is not advanced by a start with a second input, an update, a claim, or a forged run', async () => {
    const { metadata } = await world.apply('planned', { nodes: ['node-3'] });
    const workflowId = 'node-maintenance-planned';
    await world.eventually('planned', 'it to be observed', ({ status }) => status?.observedGeneration === 1);
    const state = {
      name: 'planned',
      uid: metadata.uid,
      generation: 1,
      stage: 'Drain',
      position: 11,
      nodes: [],
    };
    expect(await start('nodeMaintenance', workflowId, { name: 'planned' }, state)).toContain(
      'expected one JSON object as input',
    );
    const run = world.temporal.workflow.getHandle(workflowId);
    await eventually('the controller to start the run again', async () =>
      expect(await run.query('progress')).toMatchObject({ stage: 'Idle', uid: metadata.uid }),
    );
    await expect(run.executeUpdate('advance')).rejects.toMatchObject({
      cause: { message: expect.stringContaining('may not delete node "node-3"') },
    });
    for (const stage of ['Cordon', 'Drain', 'Complete']) {
      const generation = Number.MAX_SAFE_INTEGER;
      const requestedBy = 'user sandbox-admin';
      await signal(workflowId, 'observe', {
        uid: metadata.uid,
        kind: 'StageChanged',
        stage,
        generation,
        requestedBy,
      });
    }
    await eventually('the run to read its object', async () =>
      expect(await run.query('progress')).toMatchObject({ stage: 'Idle' }),
    );
    expect(await isCordoned('node-3')).toBe(false);
    const found = await world.maintenance('planned');
    expect(found?.spec.stage).toBe('Idle');
    expect(found?.metadata.annotations?.['nodemaintenance.k8s.io/requested-by']).toMatch(
      /^user sandbox-admin/,
    );
    expect((await run.describe()).status.name).toBe('RUNNING');
  });

  test('follows its object after a claim of a huge generation', async () => {
    await world.patch('planned', { stage: 'Drain' });
    await world.eventually('planned', 'it to be drained', drained);
    const { metadata } = (await world.maintenance('planned')) ?? { metadata: { uid: '' } };
    const generation = Number.MAX_SAFE_INTEGER;
    const claim = { uid: metadata.uid, kind: 'StageChanged', stage: 'Drain', generation };
    await signal('node-maintenance-planned', 'observe', claim);
    await signal('node-maintenance-planned', 'observe', { uid: metadata.uid, kind: 'Gone' });
    await world.placePods('node-3', 1, { awaited: false });
    await eventually('the late pod to be evacuated', async () =>
      expect(await world.podsOn('node-3')).toEqual([]),
    );
    await world.patch('planned', { stage: 'Complete' });
    await world.eventually('planned', 'it to be finished', finished);
    expect(await isCordoned('node-3')).toBe(false);
  });

  test('that is complete does not uncordon its node again when it is started once more', async () => {
    const patch = { spec: { unschedulable: true } };
    await world.kube.mergePatch(resources.nodes, { name: 'node-3' }, patch);
    await start('nodeMaintenance', 'node-maintenance-planned', { name: 'planned' });
    expect(await isCordoned('node-3')).toBe(true);
    await world.kube.mergePatch(resources.nodes, { name: 'node-3' }, { spec: { unschedulable: null } });
  });
});

describe('a run under another workflow id', () => {
  test('does nothing to a maintenance', async () => {
    await world.apply('victim', { nodes: ['node-1'], stage: 'Cordon' });
    await eventually('the cordon', async () => expect(await isCordoned('node-1')).toBe(true));
    const { metadata } = (await world.maintenance('victim')) ?? { metadata: { uid: '' } };
    const forged = { name: 'victim', uid: metadata.uid, generation: 1 };
    expect(await start('nodeMaintenance', 'node-maintenance-attacker', forged)).toContain('unknown field');
    expect(await start('nodeMaintenance', 'node-maintenance-attacker', { name: 'victim' })).toContain(
      'expected "node-maintenance-victim"',
    );
    expect(await isCordoned('node-1')).toBe(true);
    await world.patch('victim', { stage: 'Complete' });
    await world.eventually('victim', 'it to be finished', finished);
  });
});
