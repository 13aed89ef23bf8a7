import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { RebootAnnotation } from '../../api/names.ts';
import { nodeResultOf, workResultOf } from '../../domain/windows/nodeResult.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { RebootingHost } from '../kit/rebootingHost.ts';
import { deathNoticedSoon, startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';
import { Windows } from './windows.ts';

// Windows that reboot nodes. The nodes are simulated; their agents are the code of agent/, and a reboot is a script that gives the Node a new boot ID.

const pools = { linux: ['node-1', 'node-2', 'node-3'], other: ['node-4'], failing: ['node-5'] } as const;
const { Required, Requested, Started } = RebootAnnotation;

let world: World;
let worker: WorkerProcess;
let windows: Windows;
const hosts = new Map<string, RebootingHost>();

beforeAll(async () => {
  world = await createWorld({ nodes: Object.values(pools).flat().length });
  windows = await Windows.in(world, pools);
  windows.sendHeartbeats();
  worker = startWorker(world.sandbox, { env: deathNoticedSoon });
  await worker.ready();
  await windows.setBudget(3);
  const { kube, sandbox } = world;
  for (const node of Object.values(pools).flat())
    hosts.set(node, await RebootingHost.start({ kube, node, env: sandbox.env }));
});

afterAll(async () => {
  await Promise.all([...hosts.values()].map((one) => one.close()));
  await worker?.kill();
  windows?.close();
  await world?.close();
});

const host = (node: string): RebootingHost => hosts.get(node) as RebootingHost;

async function kubectl(...args: string[]): Promise<string> {
  const { env } = world.sandbox;
  return (await promisify(execFile)('kubectl', args, { env: { ...process.env, ...env } })).stdout;
}

const annotationsOf = async (node: string): Promise<Record<string, string>> =>
  (await world.node(node)).metadata.annotations ?? {};

const progressOf = async (name: string) => (await windows.now(name)).status?.progress;

const reboot = (differs: object = {}) => ({ type: 'Reboot', reboot: { policy: 'IfRequired', ...differs } });

test('the window of docs/how-to/reboots.md is accepted as it is', async () => {
  const text = await readFile(new URL('../../docs/how-to/reboots.md', import.meta.url), 'utf8');
  const [, yaml = ''] = /^```yaml\n([^]*?)^```$/m.exec(text) ?? [];
  const tryApply = kubectlOf(world.sandbox)(
    ['apply', '--dry-run=server', '-o', 'json', '-f', '-'],
    parse(yaml) as object,
  );
  expect(JSON.parse(await succeeds(tryApply))).toMatchObject({ spec: parse(yaml).spec });
});

describe('a window that reboots nodes', () => {
  test('shows which nodes wait for it, before it opens', async () => {
    await windows.applied('reboots', { pool: 'linux', work: reboot() });
    await host('node-1').needsReboot('linux-image\nlibc6\n');
    await kubectl('annotate', 'node', 'node-2', `${Required}=new BIOS`);
    await eventually('the progress of the window', async () =>
      expect(await progressOf('reboots')).toMatchObject({
        summary: '0/2',
        notRequired: 1,
        rebootRequired: { nodes: 2, names: ['node-1', 'node-2'] },
      }),
    );
    expect(await annotationsOf('node-1')).toMatchObject({ [Required]: 'packages: linux-image, libc6' });
    expect(await kubectl('get', 'mw', 'reboots', '-o', 'wide')).toMatch(/REBOOTS[^]*0\/2.*\b2\b/);
  });

  test('reboots each of them once, drained and one at a time, although its worker is killed', async () => {
    await world.placePods('node-1', 2);
    const mostOut = windows.mostOutOf('linux');
    const run = await windows.open('reboots');
    await eventually('the first reboot', async () => expect(await host('node-1').reboots()).toHaveLength(1));
    await worker.kill();
    worker = await startNextWorker(world, { env: deathNoticedSoon });
    await worker.ready();
    expect(await run.result()).toMatchObject({ done: 2, failed: [], remaining: 0 });
    expect(mostOut()).toBe(1);
    for (const node of ['node-1', 'node-2']) {
      expect(await host(node).reboots()).toEqual([
        { bootId: expect.any(String), unschedulable: true, drained: true },
      ]);
      const maintenance = await windows.maintenanceOf('reboots', node);
      expect(workResultOf(maintenance)).toMatchObject({ status: 'True', reason: 'Rebooted' });
    }
    expect(await host('node-3').reboots()).toEqual([]);
    expect(await windows.maintenancesOf('reboots')).toHaveLength(2);
    const { items } = await world.kube.list(resources.events, { fieldSelector: 'reason=NodeStarted' });
    expect(items.map(({ message }) => message)).toContain(
      'Started the maintenance of node node-2, which needs a reboot (new BIOS).',
    );
    await windows.schedulable(pools.linux);
    for (const node of pools.linux)
      expect(Object.keys(await annotationsOf(node))).not.toEqual(
        expect.arrayContaining([expect.stringMatching(/\/reboot-/)]),
      );
    expect(await progressOf('reboots')).toMatchObject({ summary: '2/2', rebootRequired: { nodes: 0 } });
  });

  test('reboots nothing until a node needs it again, in the same revision', async () => {
    expect(await (await windows.open('reboots')).result()).toMatchObject({ done: 2, remaining: 0 });
    await host('node-1').needsReboot('');
    await eventually('the need', async () =>
      expect(await progressOf('reboots')).toMatchObject({
        summary: '1/2',
        rebootRequired: { names: ['node-1'] },
      }),
    );
    const { uid } = (await windows.maintenanceOf('reboots', 'node-1')).metadata;
    expect(await (await windows.open('reboots')).result()).toMatchObject({ done: 2, remaining: 0 });
    expect(await host('node-1').reboots()).toHaveLength(2);
    expect(await host('node-2').reboots()).toHaveLength(1);
    expect((await windows.maintenanceOf('reboots', 'node-1')).metadata.uid).not.toBe(uid);
  });

  test('leaves a node alone whose sentinel disappears', async () => {
    await host('node-3').needsReboot('linux-image');
    await eventually('the annotation', async () =>
      expect(await annotationsOf('node-3')).toHaveProperty([Required]),
    );
    await host('node-3').noLongerNeedsReboot();
    await eventually('the annotation to be removed', async () =>
      expect(await annotationsOf('node-3')).not.toHaveProperty([Required]),
    );
    expect(await (await windows.open('reboots')).result()).toMatchObject({ done: 2, remaining: 0 });
    expect(await host('node-3').reboots()).toEqual([]);
  });
});

describe('a node whose agent', () => {
  test('does not run is not drained: the window says what to do, and reboots it when the agent runs', async () => {
    await windows.applied('others', { pool: 'other', work: reboot({ policy: 'Always' }) });
    await host('node-4').leased(7_200);
    const run = await windows.open('others');
    await eventually('the reason', async () =>
      expect((await windows.now('others')).status?.active?.waiting).toMatchObject({
        reason: 'AgentNotRunning',
        message: expect.stringContaining('node-4'),
      }),
    );
    await host('node-4').leased(0, 'static-pods');
    await eventually('the other reason', async () =>
      expect((await windows.now('others')).status?.active?.waiting?.message).toMatch(
        /^The node agent of node node-4 has no reboot command/,
      ),
    );
    expect(await windows.maintenancesOf('others')).toEqual([]);
    await host('node-4').leased();
    expect(await run.result()).toMatchObject({ done: 1, failed: [], remaining: 0 });
    expect(await host('node-4').reboots()).toHaveLength(1);
  });

  test('is asked too late is not rebooted: a cancelled window withdraws the request and uncordons the node', async () => {
    await host('node-4').stopAgent();
    await windows.patched('others', { template: { reason: 'again' } });
    const run = await windows.open('others');
    await eventually('the request', async () =>
      expect(await annotationsOf('node-4')).toMatchObject({ [Requested]: host('node-4').bootId }),
    );
    const { runId } = (await windows.now('others')).status?.active ?? {};
    await kubectl('annotate', 'mw', 'others', `nodemaintenance.k8s.io/cancel=${runId}`);
    await run.result();
    expect(await annotationsOf('node-4')).not.toHaveProperty([Requested]);
    await windows.schedulable(['node-4']);
    host('node-4').startAgent();
    await throughout('no reboot', 2_000, async () => expect(await host('node-4').reboots()).toHaveLength(1));
  });

  test('is restored by a crash of the host needs no second reboot', async () => {
    await host('node-4').stopAgent();
    const run = await windows.open('others');
    await eventually('the request', async () =>
      expect(await annotationsOf('node-4')).toHaveProperty([Requested]),
    );
    await host('node-4').crash();
    expect(await run.result()).toMatchObject({ done: 1, failed: [], remaining: 0 });
    expect(await host('node-4').reboots()).toHaveLength(1);
  });

  test('cannot run its command reports that, retries it, and the node fails in time with a remedy', async () => {
    await windows.applied('failing', {
      pool: 'failing',
      work: reboot({ policy: 'Always', timeoutSeconds: 3 }),
    });
    await host('node-5').commandFails(true);
    const run = await windows.open('failing');
    const failed = await eventually('the failure', async () => {
      const maintenance = await windows.maintenanceOf('failing', 'node-5');
      expect(nodeResultOf(maintenance)).toMatchObject({ status: 'False', reason: 'RebootTimeout' });
      return maintenance;
    });
    expect(nodeResultOf(failed)?.message).toContain('check the log of the agent');
    await eventually('the Event', async () => {
      const { items } = await world.kube.list(resources.events, { fieldSelector: 'reason=RebootFailed' });
      expect(items.map(({ message, involvedObject }) => [involvedObject.name, message])).toContainEqual([
        'node-5',
        expect.stringContaining('Failed to connect to bus'),
      ]);
    });
    await eventually('the request to be withdrawn', async () => {
      const annotations = await annotationsOf('node-5');
      expect([annotations[Requested], annotations[Started]]).toEqual([undefined, undefined]);
    });
    await host('node-5').commandFails(false);
    expect((await world.node('node-5')).spec.unschedulable).toBe(true);
    // The user reboots the node and marks its work as done.
    await host('node-5').crash();
    await kubectl('annotate', 'nm', failed.metadata.name, 'nodemaintenance.k8s.io/work-done=true');
    expect(await run.result()).toMatchObject({ done: 1, failed: [] });
    await windows.schedulable(pools.failing);
    expect(await host('node-5').reboots()).toEqual([]);
  });
});
