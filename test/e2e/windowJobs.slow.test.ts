import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { WorkflowHandle } from '@temporalio/client';
import type { KubeObject } from '../../api/core.ts';
import { WindowAnnotation, WORK_NAMESPACE, WORK_SERVICE_ACCOUNT } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { WindowRunProgress } from '../../workflows/windows/run.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { serviceAccounts } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';
import { gatedPod, Windows, work } from './windows.ts';

let world: World;
let worker: WorkerProcess;
let windows: Windows;
let dir: string;

const pools = { jobs: ['node-1', 'node-2'], hands: ['node-3'], other: ['node-4'] } as const;

const kubectl = (...args: string[]) => succeeds(kubectlOf(world.sandbox)(args));
const enable = () => kubectl('apply', '--server-side', '--force-conflicts', '-k', 'deploy/window-jobs');
const disable = () => kubectl('delete', '--ignore-not-found', '-k', 'deploy/window-jobs');

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'window-jobs-'));
  // Other files need the namespace of Jobs.
  world = await createWorld({ nodes: Object.values(pools).flat().length, ownServers: true });
  await disable();
  windows = await Windows.in(world, pools);
  worker = startWorker(world.sandbox);
  await worker.ready();
});

afterAll(async () => {
  await worker?.kill();
  windows?.close();
  await world?.close();
  await rm(dir, { recursive: true, force: true });
});

const conditionOf = async (window: string, type: string) =>
  (await windows.now(window)).status?.conditions.find((one) => one.type === type);

const waitingOf = async (run: WorkflowHandle) =>
  (await run.query<WindowRunProgress>('progress')).state?.waiting?.reason;

/** Returns the spec of the pod of a node's Job. */
async function podOf(window: string, node: string) {
  const pod = await world.kube.get(resources.pods, await windows.jobPodOf(window, node));
  return pod?.spec as unknown as {
    serviceAccountName: string;
    volumes?: { projected?: { sources: object[] } }[];
  };
}

const tokensOf = ({ volumes = [] }: Awaited<ReturnType<typeof podOf>>) =>
  volumes.flatMap(({ projected }) => projected?.sources ?? []).filter((one) => 'serviceAccountToken' in one);

let waiting: WorkflowHandle;

describe('while Jobs of windows are not enabled', () => {
  const remedy =
    'apply deploy/window-jobs (Helm chart: windowJobs.enabled; npm start -- --install --window-jobs)';

  test('a window that runs a Job says so, and opens at none of its times', async () => {
    await windows.applied('patch', { pool: 'jobs', work, rollout: { maxUnavailable: 2 } });
    await eventually('condition Valid', async () =>
      expect(await conditionOf('patch', 'Valid')).toMatchObject({
        status: 'False',
        reason: 'JobsNotEnabled',
        message: expect.stringContaining(remedy),
      }),
    );
    await windows.emitted('JobsNotEnabled', remedy);
    expect(await conditionOf('patch', 'Scheduled')).toMatchObject({ status: 'False', reason: 'InvalidSpec' });
    expect(await kubectl('maintenance', 'windows', 'patch')).toContain('JobsNotEnabled');
    expect(await kubectl('maintenance', 'windows', 'patch')).toContain('apply deploy/window-jobs');
  });

  test('it starts no node when a user opens it', async () => {
    waiting = await windows.open('patch');
    await eventually('the reason', async () => expect(await waitingOf(waiting)).toBe('JobsNotEnabled'));
    expect((await windows.now('patch')).status?.active?.waiting?.message).toContain(remedy);
    expect(await kubectl('maintenance', 'windows', 'patch')).toContain('Jobs of windows are not enabled');
    await expectNoneStarted();
  });

  async function expectNoneStarted(): Promise<void> {
    expect(await windows.maintenancesOf('patch')).toEqual([]);
    for (const node of pools.jobs) expect(await windows.isCordoned(node)).toBe(false);
  }

  test('a window without a Job maintains its node at the same time', async () => {
    await windows.applied('by-hand', { pool: 'hands' });
    const run = await windows.open('by-hand');
    await windows.inProgress(run, 'node-3');
    await kubectl('maintenance', 'window', 'advance', 'by-hand', '--node', 'node-3');
    expect(await run.result()).toMatchObject({ done: 1, remaining: 0 });
    await expectNoneStarted();
  });

  test('the worker asks for Jobs, and logs the missing permission once and not as a problem', async () => {
    const lines = worker
      .log()
      .split('\n')
      .filter((line) => line.includes('jobs.batch'));
    expect(lines).toEqual([expect.stringContaining('Permission is missing, waiting for it')]);
    expect(lines[0]).toContain('"level":30');
  });
});

describe('when they are enabled', () => {
  test('the open window continues by itself, and its nodes are maintained', async () => {
    await enable();
    expect(await waiting.result()).toMatchObject({ nodes: 2, done: 2, failed: [] });
    await windows.schedulable(pools.jobs);
    await eventually('condition Valid', async () =>
      expect(await conditionOf('patch', 'Valid')).toMatchObject({ status: 'True' }),
    );
    expect(await conditionOf('patch', 'Scheduled')).toMatchObject({ status: 'True' });
  });

  test('the pods of Jobs have the ServiceAccount without permissions, and no token', async () => {
    const spec = await podOf('patch', 'node-1');
    expect(spec.serviceAccountName).toBe(WORK_SERVICE_ACCOUNT);
    expect(tokensOf(spec)).toEqual([]);
  });

  test('a template may name another ServiceAccount, whose token its pods get', async () => {
    const metadata = { namespace: WORK_NAMESPACE, name: 'patcher' };
    await world.kube.create(serviceAccounts, { metadata });
    const template = { spec: { ...work.job.template.spec, serviceAccountName: 'patcher' } };
    await windows.applied('own-account', { pool: 'other', work: { type: 'Job', job: { template } } });
    expect(await (await windows.open('own-account')).result()).toMatchObject({ done: 1 });
    const spec = await podOf('own-account', 'node-4');
    expect(spec.serviceAccountName).toBe('patcher');
    expect(tokensOf(spec)).toHaveLength(1);
  });
});

describe('the ServiceAccount of Jobs', () => {
  /** Runs kubectl with a token of the account, as a pod could that asks for one. */
  async function as(namespace: string, name: string, ...args: string[]) {
    const kubeconfig = await kubeconfigOf(world.sandbox, { namespace, name }, dir);
    return kubectlOf(world.sandbox)([`--kubeconfig=${kubeconfig}`, ...args]);
  }

  test('may do what every ServiceAccount may, and nothing else', async () => {
    const listed = ['auth', 'can-i', '--list', '-n', WORK_NAMESPACE];
    const [ours, any] = await Promise.all([
      succeeds(as(WORK_NAMESPACE, WORK_SERVICE_ACCOUNT, ...listed)),
      succeeds(as('default', 'default', ...listed)),
    ]);
    expect(ours).toContain('selfsubjectreviews.authentication.k8s.io');
    expect(ours).toBe(any);
  });

  const job: KubeObject = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { namespace: WORK_NAMESPACE, name: 'copy' },
    spec: { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'x', image: 'none' }] } } },
  } as KubeObject;

  test.each([
    { attack: 'get secrets -A' },
    { attack: 'get pods -A' },
    { attack: 'get nodes' },
    { attack: 'get leases -A' },
    { attack: 'get maintenancewindows' },
    { attack: `get serviceaccounts -n ${WORK_NAMESPACE}` },
    { attack: `create token ${WORK_SERVICE_ACCOUNT} -n ${WORK_NAMESPACE}` },
    { attack: `create token node-maintenance-worker -n node-maintenance` },
    { attack: 'cordon node-1' },
    { attack: 'get nodes --as system:admin --as-group system:masters' },
    { attack: 'create -f -', object: job },
  ])('is refused: kubectl $attack', async ({ attack, object }) => {
    const kubeconfig = await kubeconfigOf(
      world.sandbox,
      { namespace: WORK_NAMESPACE, name: WORK_SERVICE_ACCOUNT },
      dir,
    );
    const answer = await kubectlOf(world.sandbox)(
      [`--kubeconfig=${kubeconfig}`, ...attack.split(' ')],
      object,
    );
    expect(answer).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('orbidden') });
  });
});

describe('when they are disabled while a Job is running', () => {
  const binding = ['rolebinding', 'node-maintenance-worker', '-n', WORK_NAMESPACE];

  test('its node stays cordoned although a user cancels the window or advances the node, until they are enabled', async () => {
    const other = { type: 'Job', job: { template: gatedPod } };
    await windows.applied('revoked', { pool: 'other', work: other });
    const run = await windows.open('revoked');
    await windows.inProgress(run, 'node-4');
    await windows.jobPodOf('revoked', 'node-4');
    await kubectl('delete', ...binding);
    await eventually('the reason', async () => expect(await waitingOf(run)).toBe('JobsNotEnabled'));
    const { name } = (await windows.maintenanceOf('revoked', 'node-4')).metadata;
    await kubectl('annotate', 'nm', name, `${WindowAnnotation.WorkDone}=true`);
    await windows.emitted(
      'AdvanceRejected',
      'the worker may not see whether a Job is running on node node-4',
    );
    await expect(run.executeUpdate('advance', { args: [{ node: 'node-4' }] })).rejects.toMatchObject({
      cause: { message: expect.stringContaining('may not see whether a Job is running on node node-4') },
    });
    await kubectl('maintenance', 'window', 'cancel', 'revoked');
    await throughout('the node to stay cordoned', 5_000, async () =>
      expect(await windows.isCordoned('node-4')).toBe(true),
    );
    await enable();
    expect(await run.result()).toMatchObject({ done: 0, remaining: 1 });
    await windows.schedulable(['node-4']);
    expect(await windows.jobsOf('revoked')).toEqual([]);
  });
});
