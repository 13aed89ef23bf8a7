import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import { TEMPORAL_USER, WindowOverrideAnnotation, WindowRequestAnnotation } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { WindowRunProgress } from '../../workflows/windows/run.ts';
import { type Answer, kubectlOf, succeeds } from '../api/kubectl.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import { clusterRoles } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

/**
 * Attacks of a client that may write to the Temporal namespace, and that Kubernetes lets maintain no node; and what users do in the meantime
 * with their own permissions.
 */
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

/** Grants Temporal these nodes, or all nodes (`undefined`); with none it is as after an installation without deploy/temporal-user. */
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

/** Starts a run and waits for it, and not for one that the controller starts after it. */
function start(type: string, workflowId: string, ...inputs: object[]): Promise<string> {
  const options = ['--task-queue', 'node-maintenance', '--type', type, '--workflow-id', workflowId];
  // In place of the run that the controller may have started.
  options.push('--id-conflict-policy', 'TerminateExisting');
  const input = inputs.flatMap((one) => ['--input', JSON.stringify(one)]);
  return temporal('workflow', 'execute', ...options, ...input);
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

describe('an open window that needs approval', () => {
  const namespace = 'window-requests';
  let dir: string;
  let run: WorkflowHandle;
  /** Runs `kubectl maintenance` with the permissions of a ServiceAccount, where no Temporal can be reached. */
  let as: Record<'scheduler' | 'clerk', (...args: string[]) => Promise<Answer>>;
  const kubectl = (...args: string[]) => succeeds(kubectlOf(world.sandbox)(args));
  const mayDeleteNodes = async () => {
    const question = ['auth', 'can-i', 'delete', 'nodes', '--as', TEMPORAL_USER];
    return (await kubectlOf(world.sandbox)(question)).stdout.trim();
  };
  const progress = () => run.query<WindowRunProgress>('progress');
  const pauseNow = async () =>
    (await windows.now('by-request')).metadata.annotations?.[WindowOverrideAnnotation.Paused];
  const requestsNow = async () => (await windows.now('by-request')).status?.active?.requests;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'window-requests-'));
    await kubectl('create', 'namespace', namespace);
    await kubectl('create', 'clusterrole', 'delete-nodes', '--verb=delete', '--resource=nodes');
    const account = async (name: string, ...roles: string[]) => {
      await kubectl('create', 'serviceaccount', name, '-n', namespace);
      for (const role of roles) {
        const binding = `${namespace}-${name}-${role}`;
        const of = [`--clusterrole=${role}`, `--serviceaccount=${namespace}:${name}`];
        await kubectl('create', 'clusterrolebinding', binding, ...of);
      }
      const kubeconfig = await kubeconfigOf(world.sandbox, { namespace, name }, dir);
      const env = { ...world.sandbox.env, TEMPORAL_ADDRESS: '127.0.0.1:1' };
      const plugin = kubectlOf({ ...world.sandbox, env });
      return (...args: string[]) => plugin(['maintenance', ...args, '--kubeconfig', kubeconfig]);
    };
    as = {
      scheduler: await account('scheduler', 'node-maintenance-scheduler', 'delete-nodes'),
      clerk: await account('clerk', 'node-maintenance-scheduler'),
    };
    await windows.setBudget(2);
    await windows.applied('by-request', { pool: 'target', approval: 'PerNode' });
    // Only an opening by its own schedule needs no permission.
    await temporalMayMaintain(undefined);
    await eventually('the permission', async () => expect(await mayDeleteNodes()).toBe('yes'));
    run = await windows.open('by-request');
    await eventually('the window to wait for approval', async () =>
      expect((await windows.now('by-request')).status?.active?.waiting?.reason).toBe('ApprovalNeeded'),
    );
    await temporalMayMaintain(['no-node']);
    await eventually('the permission to be withdrawn', async () => expect(await mayDeleteNodes()).toBe('no'));
  });

  afterAll(async () => {
    await kubectl('delete', 'namespace', namespace, '--wait=false');
    await kubectl('delete', 'clusterrole', 'delete-nodes');
    await kubectl(
      'delete',
      'clusterrolebinding',
      ...['scheduler', 'clerk'].map((name) => `${namespace}-${name}-node-maintenance-scheduler`),
      `${namespace}-scheduler-delete-nodes`,
    );
    await rm(dir, { recursive: true, force: true });
  });

  test('is not approved or cancelled by a client of Temporal, nor by a user who may change it and delete no node', async () => {
    const before = await requestsNow();
    await expect(run.executeUpdate('approve')).rejects.toMatchObject({
      cause: { message: expect.stringContaining('may not delete node') },
    });
    for (const [verb, ...options] of [['approve'], ['approve', '--node', 'node-1'], ['cancel']]) {
      const { code, stderr } = await as.clerk('window', verb ?? '', 'by-request', ...options);
      expect({ code, stderr }).toEqual({
        code: 1,
        stderr: expect.stringContaining(
          `metadata.annotations[nodemaintenance.k8s.io/${verb}]: user "system:serviceaccount:${namespace}:clerk" may not delete every node`,
        ),
      });
    }
    expect(await requestsNow()).toEqual(before);
    expect(await windows.maintenancesOf('by-request')).toEqual([]);
  });

  test('is paused by a user who may change it, and resumed by one who may delete its nodes, without Temporal', async () => {
    expect(await succeeds(as.clerk('window', 'pause', 'by-request'))).toBe(
      'maintenancewindow/by-request paused: it starts no more nodes and does not open until it is resumed; nodes in progress continue\n',
    );
    await eventually('Temporal to show the pause', async () =>
      expect(await progress()).toMatchObject({ paused: true }),
    );
    const { code, stderr } = await as.clerk('window', 'resume', 'by-request');
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining('may not delete every node'),
    });
    expect(await pauseNow()).toMatch(/^since /);
    expect(await succeeds(as.scheduler('window', 'resume', 'by-request'))).toBe(
      'maintenancewindow/by-request resumed\n',
    );
    expect(await pauseNow()).toBeUndefined();
    await eventually('Temporal to show the end of the pause', async () =>
      expect(await progress()).toMatchObject({ paused: false }),
    );
  });

  test('maintains the node that a user who may delete it approves, and no other one', async () => {
    expect(await succeeds(as.scheduler('window', 'approve', 'by-request', '--node', 'node-2'))).toBe(
      'maintenancewindow/by-request approved for node-2 until the window ends\n',
    );
    await windows.inProgress(run, 'node-2');
    await eventually('Temporal to show the approval', async () =>
      expect(await progress()).toMatchObject({ approved: false, approvedNodes: ['node-2'] }),
    );
    const foreign = await as.scheduler('window', 'approve', 'by-request', '--node', 'node-3');
    expect(foreign).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('rejected the request; check that it selects node-3'),
    });
    await windows.emitted('RequestRejected', 'the window does not select "node-3"');
  });

  test('ignores a request for another opening, and reports it', async () => {
    await kubectl('annotate', 'mw', 'by-request', `${WindowRequestAnnotation.Cancel}=an-earlier-run`);
    await windows.emitted('RequestRejected', '(got "an-earlier-run")');
    const { metadata, status } = await windows.now('by-request');
    expect(metadata.annotations?.[WindowRequestAnnotation.Cancel]).toBeUndefined();
    expect(status?.active?.requests?.cancelled).toBeUndefined();
    await windows.inProgress(run, 'node-2');
  });

  test('is cancelled by a user who may delete its nodes, and uncordons the node in progress', async () => {
    expect(await succeeds(as.scheduler('window', 'cancel', 'by-request'))).toBe(
      'maintenancewindow/by-request cancelled: it ends now, and nodes whose work is not done are uncordoned\n',
    );
    expect(await run.result()).toMatchObject({ done: 0, remaining: 2 });
    await windows.schedulable(['node-1', 'node-2']);
    expect((await as.scheduler('window', 'cancel', 'by-request')).stderr).toContain(
      'is not open: there is nothing to cancel',
    );
  });
});
