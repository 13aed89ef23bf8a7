import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { eventuallyHolds } from '../kit/eventually.ts';
import { temporalNames } from '../../api/names.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { workflowBundle } from '../kit/workflows.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const run = promisify(execFile);

/** Where the workflow of a maintenance ends: what the builds of this test insert there has not run yet while a drain lasts. */
const end = 'async function complete(run: Run): Promise<Outcome> {\n';
/** Where it begins: what is inserted there has run already. */
const beginning =
  'if (carried === undefined) await CancellationScope.nonCancellable(() => start(run, input));\n';

const builds = {
  /** Runs of another build can continue with it: `patched` keeps its change from those that have passed the place. */
  compatible: (source: string) => source.replace(end, `${end}  if (patched('flush')) await sleep(1);\n`),
  incompatible: (source: string) => source.replace(beginning, `${beginning}    await sleep(1);\n`),
};

const deploymentName = 'node-maintenance';
let world: World;
let windows: Windows;
let folder: string;
const bundles = { compatible: '', incompatible: '' };
let first: WorkerProcess;
let second: WorkerProcess;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'nm-builds-'));
  world = await createWorld({ nodes: 5 });
  windows = await Windows.in(world, { patched: ['node-5'] });
  for (const name of ['compatible', 'incompatible'] as const) bundles[name] = await bundleOf(name);
  first = startBuild('1');
  await first.ready();
});

afterAll(async () => {
  await first?.kill();
  await second?.kill();
  // Other tests use this Temporal, too.
  await leaveVersioning().catch(() => undefined);
  windows?.close();
  await world?.close();
  await rm(folder, { recursive: true, force: true });
});

/** Bundles changed sources of the workflows, as the next release does. */
async function bundleOf(name: keyof typeof builds): Promise<string> {
  const copy = join(folder, name);
  await mkdir(copy);
  for (const shared of ['activities', 'api', 'domain', 'node_modules', 'package.json'])
    await symlink(join(root, shared), join(copy, shared));
  await cp(join(root, 'workflows'), join(copy, 'workflows'), { recursive: true });
  const file = join(copy, 'workflows', 'maintenance', 'nodeMaintenance.ts');
  const source = await readFile(file, 'utf8');
  const built = builds[name](source);
  const changed = built.replace('  proxyActivities,\n', '  proxyActivities,\n  sleep,\n');
  expect([source, built]).not.toContain(changed);
  expect(built).not.toBe(source);
  await writeFile(file, changed);
  const { code } = await bundleWorkflowCode({
    workflowsPath: join(copy, 'workflows', 'index.ts'),
    payloadConverterPath: join(copy, 'workflows', 'payloadConverter.ts'),
    failureConverterPath: join(copy, 'workflows', 'failureConverter.ts'),
    logger: new DefaultLogger('ERROR'),
  });
  const bundle = join(folder, `${name}.js`);
  // Workers accept a bundle of their own sources only; this one stands for those of another release.
  const { code: own } = await workflowBundle();
  const inputs = own.split('\n').find((line) => line.startsWith('//# workflowInputs=')) ?? '';
  // The source map has to be the last line.
  const sourceMap = code.lastIndexOf('//# sourceMappingURL=');
  await writeFile(bundle, `${code.slice(0, sourceMap)}${inputs}\n${code.slice(sourceMap)}`);
  return bundle;
}

function startBuild(buildId: string, bundle?: string): WorkerProcess {
  return startWorker(world.sandbox, {
    ...(bundle !== undefined && { env: { WORKFLOW_BUNDLE: bundle } }),
    args: [`--deployment-name=${deploymentName}`, `--build-id=${buildId}`],
  });
}

/** Runs `npm run replay` with the connection of the sandbox. */
async function replay(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const env = { ...process.env, ...world.sandbox.env, HOME: folder };
  return run(process.execPath, [join(root, 'worker', 'replay', 'main.ts'), ...args], { env }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({
      code,
      stdout,
      stderr,
    }),
  );
}

async function untilCurrent(buildId: string): Promise<void> {
  await eventuallyHolds(
    `build ${buildId} to be the current version`,
    async () => {
      const described = await world.temporal.workflowService.describeWorkerDeployment({
        namespace: 'default',
        deploymentName,
      });
      return described.workerDeploymentInfo?.routingConfig?.currentDeploymentVersion?.buildId;
    },
    (current) => current === buildId,
  );
}

/** Returns the build ids of the workers that decided for a run, in order. */
async function buildsOf(workflowId: string): Promise<string[]> {
  const { events } = await world.temporal.workflow.getHandle(workflowId).fetchHistory();
  const used = (events ?? []).flatMap(
    ({ workflowTaskCompletedEventAttributes: task }) => task?.deploymentVersion?.buildId ?? [],
  );
  return used.filter((buildId, index) => buildId !== used[index - 1]);
}

/** The documented way back: workers without the setting get all tasks again. */
async function leaveVersioning(): Promise<void> {
  const unset = ['worker', 'deployment', 'set-current-version', '--unversioned', '--yes'];
  await run('temporal', [...unset, '--deployment-name', deploymentName], {
    env: { ...world.sandbox.env, HOME: folder },
  });
}

const idOf = (name: string) => temporalNames(undefined).maintenanceId(name);

async function startDrained(name: string, node: string): Promise<void> {
  await world.placePods(node, 2);
  await world.apply(name, { nodes: [node], stage: 'Drain' });
  await world.eventually(name, 'it is drained', drained);
}

async function completed(name: string): Promise<void> {
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'it is finished', finished);
}

describe('an upgrade of the workers', () => {
  let window: Awaited<ReturnType<Windows['open']>>;

  test('begins with maintenances and a window that the first build runs', async () => {
    await untilCurrent('1');
    await startDrained('upgraded', 'node-1');
    await startDrained('ended-by-the-second', 'node-2');
    await windows.setBudget(5);
    await windows.applied('patch', { pool: 'patched' });
    window = await windows.open('patch');
    await windows.inProgress(window, 'node-5');
    expect(await buildsOf(idOf('upgraded'))).toEqual(['1']);
  });

  test('is tried before, by a replay of what runs: it names the runs that could not continue', async () => {
    const asNow = await replay('--from-server');
    expect(asNow).toMatchObject({ code: 0, stderr: '' });
    expect(asNow.stdout).toMatch(/^ok {6}node-maintenance-upgraded /m);
    expect(asNow.stdout).toMatch(/^ok {6}maintenance-window-patch/m);
    expect(await replay('--from-server', '--workflow-bundle', bundles.compatible)).toMatchObject({ code: 0 });
    const broken = await replay('--from-server', '--workflow-bundle', bundles.incompatible);
    expect(broken.code).toBe(1);
    expect(broken.stdout).toMatch(/^failed {2}node-maintenance-upgraded .*TMPRL1100/m);
    expect(broken.stdout).toMatch(/^ok {6}maintenance-window-patch/m);
    expect(broken.stdout).toMatch(/ cannot continue\.$/m);
  });

  test('moves every run to the second build when its process leads, and none before', async () => {
    second = startBuild('2', bundles.compatible);
    await second.ready();
    await startDrained('in-between', 'node-3');
    expect(await buildsOf(idOf('in-between'))).toEqual(['1']);
    expect(await first.stop()).toBe(0);
    await untilCurrent('2');
    await completed('ended-by-the-second');
    expect(await buildsOf(idOf('ended-by-the-second'))).toEqual(['1', '2']);
    await startDrained('started-by-the-second', 'node-4');
    expect(await buildsOf(idOf('started-by-the-second'))).toEqual(['2']);
  });

  test('is rolled back in the same way: the first build continues with what the second has done', async () => {
    first = startBuild('1');
    await first.ready();
    expect(await second.stop()).toBe(0);
    await untilCurrent('1');
    for (const name of ['upgraded', 'in-between', 'started-by-the-second']) await completed(name);
    expect(await buildsOf(idOf('started-by-the-second'))).toEqual(['2', '1']);
    await window.executeUpdate('advance', { args: [{ node: 'node-5' }] });
    expect(await window.result()).toMatchObject({ done: 1, failed: [], remaining: 0 });
    for (const node of [1, 2, 3, 4, 5])
      expect((await world.node(`node-${node}`)).spec.unschedulable ?? false).toBe(false);
  });

  test('leaves Worker Versioning when the current version is unset', async () => {
    await startDrained('unversioned', 'node-1');
    await leaveVersioning();
    expect(await first.stop()).toBe(0);
    first = startWorker(world.sandbox);
    await first.ready();
    await completed('unversioned');
  });
});
