import { mkdir } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import { windowWorkflowIdOf } from '../kit/temporalNames.ts';
import { resources } from '../../kube/resources.ts';
import { openBrowser } from '../kit/browser.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { Ui } from '../kit/temporalUi.ts';
import { startWorker } from '../kit/worker.ts';
import { createWorld, drained } from '../kit/world.ts';

/** `npm run screenshots`: takes the screenshots of docs/how-to/temporal-ui.md again, from real runs. */
const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url));

const [world, browser] = await Promise.all([createWorld({ nodes: 6 }), openBrowser()]);
const worker = startWorker(world.sandbox);
try {
  await worker.ready();
  await mkdir(folder, { recursive: true });
  const page = await browser.newPage();
  const ui = new Ui(page, world.sandbox.temporalUi);
  const picture = async (name: string, height: number) => {
    await page.setViewportSize({ width: 1360, height });
    await page.screenshot({ path: `${folder}temporal-${name}.png` });
    process.stdout.write(`docs/images/temporal-${name}.png\n`);
  };

  await world.deployment('web', 12);
  await world.budget('web', { app: 'web' }, { minAvailable: 11 });
  await world.placePods('node-1', 1, { labels: { app: 'db' } });
  await world.budget('db', { app: 'db' }, { minAvailable: 1 });
  await world.apply('rack-7', { nodes: ['node-1', 'node-2'], stage: 'Drain', reason: 'firmware 2.4' });
  await world.eventually(
    'rack-7',
    'only one pod is left, and blocked',
    ({ status }) => status?.podsBlocked === 1 && status.podsPendingEvacuation + status.podsEvacuating === 1,
  );
  await ui.openMaintenance('rack-7');
  await ui.eventuallyShows('Action required:');
  await picture('maintenance', 1_250);

  await ui.signal('advance', '{"to": "Complete"}');
  await picture('signal', 850);
  await page.keyboard.press('Escape');
  await page.locator('#history-tab').click();
  await page.getByText('Evacuate a tier of the drain plan').first().waitFor();
  await picture('history', 850);

  await world.apply('rack-8', { nodes: ['node-3'], stage: 'Drain', reason: 'disk swap' });
  await world.eventually('rack-8', 'it is drained', drained);
  await ui.openMaintenance('rack-8');
  await ui.eventuallyShows('ready for work');
  await picture('drained', 1_000);

  const names = ['node-4', 'node-5', 'node-6'];
  const spec = {
    schedule: { timeZone: 'Europe/Berlin', duration: '4h', cron: '0 2 * * 6' },
    nodeSelector: {
      nodeSelectorTerms: names.map((name) => ({
        matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
      })),
    },
    approval: 'PerNode',
    template: { reason: 'OS patches of December' },
  } as unknown as MaintenanceWindowSpec;
  await world.kube.create(resources.maintenanceWindows, { metadata: { name: 'os-patch' }, spec });
  const schedule = world.temporal.schedule.getHandle(windowWorkflowIdOf('os-patch'));
  await eventually('the Schedule to open the window', () => schedule.trigger());
  const opened = await eventuallyHolds(
    'a run of the Schedule',
    async () => (await schedule.describe()).info.recentActions[0]?.action.workflow.workflowId,
    (id) => id !== undefined,
  );
  await ui.openRun(opened ?? '');
  await ui.eventuallyShows('Waiting for approval');
  await picture('window', 1_000);

  await ui.search('ExecutionStatus = "Running" AND NodeMaintenanceStage = "Drain"');
  await page.getByText('node-maintenance-rack-8').first().waitFor();
  await picture('search', 450);

  await page.goto(
    `${world.sandbox.temporalUi}/namespaces/default/schedules/${windowWorkflowIdOf('os-patch')}`,
  );
  await page.getByText('Upcoming Runs').waitFor();
  await picture('schedule', 850);

  const filled = 'workflowId=node-maintenance-rack-9&taskQueue=node-maintenance&workflowType=nodeMaintenance';
  await ui.openForm(`${world.sandbox.temporalUi}/namespaces/default/workflows/start-workflow?${filled}`);
  await ui.input('{"name":"rack-9","nodes":["node-6"],"stage":"Drain"}');
  await picture('start', 850);
} finally {
  await browser.close();
  await worker.kill();
  await world.close();
}
