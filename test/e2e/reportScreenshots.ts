import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Deployment } from '../../api/core.ts';
import { windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { MaintenanceWindowSpec } from '../../api/maintenanceWindow.ts';
import { windowWorkflowIdOf } from '../kit/temporalNames.ts';
import { NODE_DISRUPTION_BUDGET, NODE_DISRUPTION_BUDGET_NAME } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { openBrowser } from '../kit/browser.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { startWorker } from '../kit/worker.ts';
import { createWorld, drained, finished } from '../kit/world.ts';

/** `npm run screenshots`, or `node test/e2e/reportScreenshots.ts`: takes the screenshots of docs/reference/cli.md again, from real runs. */
const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url));

const evacuator = 'evacuation.coordination.k8s.io/priority_deployment.apps.k8s.io';
const patched = ['node-3', 'node-4', 'node-5', 'node-6'];
/** The time that a person would need, shortened. */
const workMs = 6_000;

const [world, browser] = await Promise.all([createWorld({ nodes: 6 }), openBrowser()]);
const worker = startWorker(world.sandbox);
const dir = await mkdtemp(join(tmpdir(), 'nm-report-'));
try {
  await worker.ready();
  await mkdir(folder, { recursive: true });
  const kubectl = kubectlOf(world.sandbox);
  const picture = async (
    name: string,
    subject: string,
    look: { height: number; colorScheme: 'light' | 'dark' },
  ) => {
    const file = join(dir, `${name}.html`);
    await writeFile(file, await succeeds(kubectl(['maintenance', 'report', subject])));
    const { height, colorScheme } = look;
    const page = await browser.newPage({ viewport: { width: 1_120, height }, colorScheme });
    await page.goto(pathToFileURL(file).href);
    await page.screenshot({ path: `${folder}report-${name}.png` });
    process.stdout.write(`docs/images/report-${name}.png\n`);
  };

  const important = {
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name: 'important' },
    value: 5_000,
  };
  await succeeds(kubectl(['apply', '-f', '-'], important));
  await world.deployment('web', 18);
  await world.budget('web', { app: 'web' }, { minAvailable: 16 });
  await world.deployment('db', 6, { priorityClassName: 'important' });
  await world.placePods('node-1', 1, { labels: { app: 'cache' } });
  await world.budget('cache', { app: 'cache' }, { minAvailable: 1 });
  const labels = { app: 'queue' };
  const template = {
    metadata: { labels, annotations: { [evacuator]: '10000/controller' } },
    spec: {
      nodeSelector: { 'kubernetes.io/hostname': 'node-2' },
      containers: [{ name: 'main', image: 'none' }],
    },
  };
  await world.kube.create(resources.deployments, {
    metadata: { name: 'queue', namespace: 'default' },
    spec: { replicas: 1, selector: { matchLabels: labels }, template },
  } as unknown as Deployment);
  await world.apply('rack-7', {
    nodes: ['node-1', 'node-2'],
    stage: 'Drain',
    reason: 'firmware 2.4',
    drainPlan: [
      { podType: 'Default', podPriority: 0 },
      { podType: 'Default', podPriority: 5_000 },
    ],
  });
  await world.eventually('rack-7', 'a pod is blocked', ({ status }) => (status?.podsBlocked ?? 0) > 0);
  // Long enough for the snapshot of what blocks the drain, which a run gets at most every 30 s.
  await sleep(40_000);
  await succeeds(kubectl(['patch', 'pdb', 'cache', '--type=merge', '-p', '{"spec":{"minAvailable":0}}']));
  await world.kube.mergePatch(
    resources.deployments,
    { namespace: 'default', name: 'queue' },
    { spec: { template: { spec: { nodeSelector: null } } } },
  );
  await world.eventually('rack-7', 'it is drained', drained);
  await sleep(workMs);
  await world.patch('rack-7', { stage: 'Complete' });
  await world.eventually('rack-7', 'it is finished', finished);
  await picture('maintenance', 'rack-7', { height: 1_900, colorScheme: 'light' });

  await succeeds(
    kubectl([
      'patch',
      NODE_DISRUPTION_BUDGET.plural,
      NODE_DISRUPTION_BUDGET_NAME,
      '--type=merge',
      '-p',
      '{"spec":{"maxUnavailable":3}}',
    ]),
  );
  const spec = {
    schedule: {
      timeZone: 'Europe/Berlin',
      duration: '1h',
      calendar: [{ time: '02:00', daysOfWeek: ['Saturday'] }],
    },
    nodeSelector: {
      nodeSelectorTerms: patched.map((name) => ({
        matchFields: [{ key: 'metadata.name', operator: 'In', values: [name] }],
      })),
    },
    approval: 'PerWindow',
    rollout: { maxUnavailable: 2 },
    template: { reason: 'OS patches of December' },
  } as unknown as MaintenanceWindowSpec;
  await world.kube.create(resources.maintenanceWindows, { metadata: { name: 'os-patch' }, spec });
  const windowNow = () => world.kube.get(resources.maintenanceWindows, { name: 'os-patch' });
  const schedule = world.temporal.schedule.getHandle(windowWorkflowIdOf('os-patch'));
  await eventually('the Schedule to open the window', () => schedule.trigger());
  await eventuallyHolds(
    'the window to be open',
    windowNow,
    (window) => window?.status?.active?.waiting !== undefined,
  );
  await sleep(workMs);
  await succeeds(kubectl(['maintenance', 'window', 'approve', 'os-patch']));
  for (const node of patched) {
    await eventuallyHolds(
      `${node} to be drained`,
      async () => {
        const { items } = await world.kube.list(resources.nodeMaintenances);
        return windowMaintenancesOf('os-patch', items).find((one) => one.node === node);
      },
      (found) => found !== undefined && drained(found.maintenance),
    );
    await sleep(workMs);
    await eventually('the node to be advanced', () =>
      succeeds(kubectl(['maintenance', 'window', 'advance', 'os-patch', '--node', node])),
    );
  }
  await eventuallyHolds(
    'the window to close',
    windowNow,
    (window) => window?.status?.lastClosed !== undefined && window.status.active === undefined,
  );
  await picture('window', 'mw/os-patch', { height: 1_020, colorScheme: 'dark' });
} finally {
  await browser.close();
  await worker.kill();
  await world.close();
  await rm(dir, { recursive: true, force: true });
}
