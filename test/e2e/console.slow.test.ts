import { spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { openBrowser } from '../kit/browser.ts';
import { Ui } from '../kit/temporalUi.ts';
import type { WindowRunProgress } from '../../workflows/windows/run.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { Windows } from './windows.ts';
import { createWorld, drained, finished, type World, stageStarted } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;
let browser: Browser;
let ui: Ui;

const pools = { patched: ['node-3'] } as const;

beforeAll(async () => {
  [world, browser] = await Promise.all([createWorld({ nodes: 3 }), openBrowser()]);
  worker = startWorker(world.sandbox);
  await worker.ready();
  const page = await browser.newPage();
  page.setDefaultTimeout(60_000);
  ui = new Ui(page, world.sandbox.temporalUi);
});

afterAll(async () => {
  await browser?.close();
  await worker?.stop();
  await world?.close();
});

/** Returns what kubectl maintenance prints at a terminal. */
async function atTerminal(...args: string[]): Promise<string> {
  const command = ['kubectl', 'maintenance', ...args].join(' ');
  const { env, dir } = world.sandbox;
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env: { ...env, HOME: dir },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return (await text(child.stdout)).replaceAll('\r', '');
}

describe('A maintenance in the Temporal UI', () => {
  test('shows its progress, what blocks it and the commands for it', async () => {
    await world.placePods('node-1', 2, { labels: { app: 'db' } });
    await world.budget('db', { app: 'db' }, { minAvailable: 2 });
    await world.apply('rack-7', { nodes: ['node-1'], stage: 'Drain', reason: 'firmware 2.4' });
    await world.eventually('rack-7', 'pods are blocked', ({ status }) => (status?.podsBlocked ?? 0) > 0);
    await ui.openMaintenance('rack-7');
    await ui.eventuallyShows('Draining 1 node');
    await ui.eventuallyShows('firmware 2.4');
    // Long before the next renewal of the Leases.
    await ui.eventuallyShows('Action required:');
    await ui.eventuallyShows('PodDisruptionBudget default/db can never allow a disruption');
    const { details } = ui;
    expect(await details.locator('table').first().innerText()).toMatch(/node-1\s+2 of 2\s+Evacuating/);
    expect(await details.locator('table').last().innerText()).toMatch(
      /advance\s+\{"from": "Drain"\}\s+ends the drain/,
    );
  });

  test('is paused and resumed by signals from there, and shows the next step', async () => {
    const { send } = await ui.signal('pause');
    await send();
    await ui.eventuallyShows('Paused: drain of 1 node');
    expect(await ui.details.locator('table').last().innerText()).toMatch(
      /resume\s+none\s+continues (the drain|with tier 1 of 1)/,
    );
    await (await ui.signal('resume')).send();
    await ui.eventuallyShows('Draining 1 node');
  });

  test('is advanced by a signal with JSON typed there', async () => {
    const { dialog, send } = await ui.signal('advance', '{"to": "Complete"}');
    expect(JSON.parse(await dialog.locator('.cm-content').innerText())).toEqual({ to: 'Complete' });
    await send();
    await world.eventually('rack-7', 'it is finished', finished);
    expect((await world.node('node-1')).spec.unschedulable).not.toBe(true);
    expect((await world.podsOn('node-1')).length).toBe(2);
  });
});

test('A window in the Temporal UI has its nodes approved and advanced by signals from there', async () => {
  const [node] = pools.patched;
  const windows = await Windows.in(world, pools);
  await windows.applied('os-patch', { pool: 'patched', approval: 'PerNode' });
  const run = await windows.open('os-patch');
  await ui.openRun(run.workflowId);
  await ui.eventuallyShows('Waiting for approval');
  await (await ui.signal('approve', JSON.stringify({ node }))).send();
  await windows.inProgress(run, node);
  await eventually('the node to be drained', async () =>
    expect(drained(await windows.maintenanceOf('os-patch', node))).toBe(true),
  );
  await ui.eventuallyShows('0 of 1 nodes done, 1 in progress, 0 remaining');
  await (await ui.signal('advance', JSON.stringify({ node }))).send();
  await eventually('the window to be closed', async () => {
    const { state } = await run.query<WindowRunProgress>('progress');
    expect({ state, status: (await run.describe()).status.name }).toMatchObject({ status: 'COMPLETED' });
  });
  expect(await run.result()).toMatchObject({ done: 1, remaining: 0 });
  await windows.schedulable([node]);
  windows.close();
});

describe('The links that kubectl maintenance prints at a terminal', () => {
  test('open a form that is filled in, and that starts the maintenance with the printed input', async () => {
    const output = await atTerminal('plan', 'node-2', 'node-3');
    const form = /^Start it in the Temporal UI: (\S+)$/m.exec(output)?.[1] ?? output;
    const input = /^ {2}Input: (\{.+\})$/m.exec(output)?.[1] ?? output;
    expect(JSON.parse(input)).toMatchObject({ nodes: ['node-2', 'node-3'], stage: 'Drain' });
    const { name } = JSON.parse(input) as { name: string };
    const { page } = ui;
    await ui.openForm(form);
    const filled = ['workflowId', 'taskQueue', 'workflowType'].map((id) =>
      page.locator(`#${id}`).inputValue(),
    );
    expect(await Promise.all(filled)).toEqual([
      `node-maintenance-${name}`,
      'node-maintenance',
      'nodeMaintenance',
    ]);
    await (await ui.input(input)).start();
    await world.eventually(name, 'it is drained', drained);
  });

  test('open the run of a maintenance, after start and after status', async () => {
    const started = await atTerminal('start', 'node-1', '--name', 'linked', '--stage', 'Cordon');
    await world.eventually('linked', 'Cordon has started', (observed) => stageStarted(observed, 'Cordon'));
    const output = await atTerminal('status', 'linked');
    const link = `Temporal UI: ${world.sandbox.temporalUi}/namespaces/default/workflows/node-maintenance-linked\n`;
    expect(started).toContain(link);
    expect(output).toContain(link);
    await ui.page.goto(link.slice('Temporal UI: '.length).trim());
    await ui.page.locator('#user-metadata-tab').click();
    await ui.eventuallyShows('Cordoned: 1 node');
  });
});

test('The documented search finds in the UI the maintenance that holds a node', async () => {
  await ui.search(
    'WorkflowType = "nodeMaintenance" AND ExecutionStatus = "Running" AND MaintenanceNodes = "node-1" AND NodeMaintenanceStage IN ("Cordon", "Drain")',
  );
  const rows = ui.page.locator('a[href*="/workflows/node-maintenance-"]');
  await rows.first().waitFor();
  expect(new Set(await rows.allInnerTexts()).has('node-maintenance-linked')).toBe(true);
  expect(await rows.filter({ hasText: 'rack-7' }).count()).toBe(0);
});
