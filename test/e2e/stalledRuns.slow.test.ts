import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { isStalled, stalledMessage } from '../../domain/common/stalledRun.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { withAnotherFirstCommand } from '../kit/otherBuilds.ts';
import { workflowIdOf } from '../kit/temporalNames.ts';
import { startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { workflowBundle } from '../kit/workflows.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;
/** File with the workflows of another build. */
let otherBuild: string;

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
  otherBuild = join(world.sandbox.dir, 'other-build.js');
  await writeFile(otherBuild, withAnotherFirstCommand((await workflowBundle()).code));
  worker = startWorker(world.sandbox);
  await worker.ready();
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

const name = 'stalled';
const latestRun = () => world.temporal.workflow.getHandle(workflowIdOf(name)).describe();
const maintenance = (...args: string[]) => succeeds(kubectlOf(world.sandbox)(['maintenance', ...args]));

async function metrics(): Promise<string> {
  const port = /"metrics":(\d+)/.exec(worker.log())?.[1];
  return (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
}

/** Waits, because a metric may change after the object that it describes. */
const eventuallyExported = (metric: string) =>
  eventuallyHolds(`the metric ${metric}`, metrics, (text) => text.split('\n').includes(metric));

async function eventsOf({ metadata: { uid } }: NodeMaintenance, reason: string): Promise<string[]> {
  const fieldSelector = `involvedObject.uid=${uid},reason=${reason}`;
  const { items } = await world.kube.list(resources.events, { namespace: 'default', fieldSelector });
  return items.map(({ message }) => message);
}

test('a drain whose history no worker can replay is reported, and continues in a new run where it stood', async () => {
  await world.placePods('node-1', 3);
  await world.placePods('node-1', 2, { labels: { app: 'db' } });
  await world.budget('db', { app: 'db' }, { minAvailable: 2 });
  const applied = await world.apply(name, { nodes: ['node-1'], stage: 'Drain' });
  await world.eventually(name, 'only blocked pods are left', ({ status }) => {
    const { podsPendingEvacuation = 0, podsEvacuating = 0, podsBlocked = 0 } = status ?? {};
    return podsBlocked === 2 && podsPendingEvacuation + podsEvacuating === 2;
  });
  const { runId: first } = await latestRun();

  await worker.kill();
  const env = { WORKFLOW_BUNDLE: otherBuild, STALLED_RUN_TIMEOUT: '20' };
  worker = await startNextWorker(world, { env });
  await worker.ready();
  // The run learns of the edit, and its next workflow task replays its history.
  await world.patch(name, { reason: 'an edit' });
  const reported = await world.eventually(name, 'Stalled', ({ status }) => isStalled(status?.conditions));
  const message = stalledMessage(reported.status?.conditions);
  expect(message).toContain(
    `Workflow ${workflowIdOf(name)} cannot continue, because its workflow task fails again and again ([TMPRL1100] Nondeterminism error`,
  );
  await eventuallyExported(
    `node_maintenance_stalled{kind="NodeMaintenance",name="${name}",reason="WorkflowTaskFailed"} 1`,
  );
  expect(await maintenance('status', name)).toContain(
    'Roll back the workers to the version that ran the workflow before',
  );
  await eventuallyHolds(
    'the Event',
    () => eventsOf(applied, 'WorkflowStalled'),
    ([text]) => text === message,
  );

  const { runId: second } = await eventuallyHolds('another run', latestRun, ({ runId }) => runId !== first);
  const replaced = await world.temporal.workflow.getHandle(workflowIdOf(name), first).describe();
  expect(replaced.status.name).toBe('TERMINATED');
  await world.eventually(name, 'no longer stalled', ({ status }) => !isStalled(status?.conditions));
  expect((await world.node('node-1')).spec.unschedulable).toBe(true);
  await eventuallyExported('node_maintenance_workflow_restarts_total{workflow="nodeMaintenance"} 1');

  const key = { namespace: 'default', name: 'db' };
  const budget = await world.kube.get(resources.podDisruptionBudgets, key);
  await world.kube.delete(resources.podDisruptionBudgets, key, { uid: budget?.metadata.uid ?? '' });
  const done = await world.eventually(name, 'the maintenance is drained', drained);
  expect(done.status?.stageStatuses.map(({ name: stage }) => stage)).toEqual(
    reported.status?.stageStatuses.map(({ name: stage }) => stage),
  );
  // No pod was evacuated twice.
  expect([...world.record.evacuations.values()].map(({ size }) => size)).toEqual([1, 1, 1, 1, 1]);
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'the maintenance is finished', finished);
  expect((await world.node('node-1')).spec.unschedulable).not.toBe(true);
  expect((await latestRun()).runId).toBe(second);

  const audit = JSON.parse(await maintenance('history', name, '-o', 'json')) as {
    runs: { runId: string; status: string }[];
  };
  expect(audit.runs).toMatchObject([{ runId: first, status: 'TERMINATED' }, { runId: second }]);
});
