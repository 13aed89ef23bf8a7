import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { HistoryRow } from '../../cli/maintenance/historyRows.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Report } from '../../domain/report/report.ts';
import { type KubeEvent, resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { workflowIdOf } from '../kit/temporalNames.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;
const name = 'audited';

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  worker = startWorker(world.sandbox);
  await worker.ready();
});
afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

const history = (...args: string[]) => kubectlOf(world.sandbox)(['maintenance', 'history', ...args]);

interface Audit {
  temporal: { namespace: string; retentionSeconds: number };
  object: NodeMaintenance | null;
  events: KubeEvent[];
  runs: { workflowId: string; runId: string; status: string }[];
  items: (HistoryRow & { source: string; runId?: string })[];
}

const report = (...args: string[]) => kubectlOf(world.sandbox)(['maintenance', 'report', name, ...args]);

async function reported(): Promise<Report> {
  return JSON.parse(await succeeds(report('-o', 'json'))) as Report;
}

async function exported(): Promise<Audit> {
  return JSON.parse(await succeeds(history(name, '-o', 'json'))) as Audit;
}

/** Deletes the runs as Temporal itself does at the end of their retention. */
async function runsExpired(): Promise<void> {
  const { workflowService, options } = world.temporal;
  const { namespace } = options;
  const workflowId = workflowIdOf(name);
  const query = `WorkflowId = "${workflowId}"`;
  for await (const { runId } of world.temporal.workflow.list({ query }))
    await workflowService.deleteWorkflowExecution({ namespace, workflowExecution: { workflowId, runId } });
  await eventually('the runs to be deleted', async () =>
    expect((await world.temporal.workflow.count(query)).count).toBe(0),
  );
}

test('an audit outlives the runs of its maintenance, by what the object and its Events hold', async () => {
  await world.apply(name, { nodes: ['node-1'], stage: 'Drain', reason: 'ticket 4711' });
  await world.eventually(name, 'it is drained', drained);
  const workflow = world.temporal.workflow.getHandle(workflowIdOf(name));
  const { runId: first } = await workflow.describe();
  await workflow.terminate('wrong workflow');
  await eventuallyHolds(
    'another run',
    () => workflow.describe(),
    ({ runId }) => runId !== first,
  );
  await world.patch(name, { stage: 'Complete' });
  await world.eventually(name, 'it is finished', finished);
  const { runId: second } = await workflow.describe();

  const whole = await eventuallyHolds(
    'a completed run',
    exported,
    ({ runs }) => runs[1]?.status === 'COMPLETED',
  );
  expect(whole.temporal).toMatchObject({ namespace: 'default', retentionSeconds: 86_400 });
  expect(whole.runs.map(({ runId }) => runId)).toEqual([first, second]);
  expect(whole.object).toMatchObject({ kind: 'NodeMaintenance', spec: { reason: 'ticket 4711' } });
  expect(whole.events.map(({ reason }) => reason)).toEqual(
    expect.arrayContaining(['StageStarted', 'WorkflowRestarted', 'Completed']),
  );
  const said = (row: object) => expect.objectContaining({ source: 'Temporal', ...row });
  expect(whole.items).toEqual(
    expect.arrayContaining([
      said({
        runId: first,
        what: expect.stringMatching(/^reported generation 1: stage Drain, requested by user sandbox-admin/),
      }),
      said({ runId: first, what: 'terminated the workflow: wrong workflow' }),
      said({ runId: second, what: 'started stage Complete' }),
    ]),
  );

  const { sandbox } = world;
  const unreachable = { ...sandbox, env: { ...sandbox.env, TEMPORAL_ADDRESS: '127.0.0.1:1' } };
  const [page, drawn, apart] = await Promise.all([
    report(),
    reported(),
    kubectlOf(unreachable)(['maintenance', 'report', name]),
  ]);
  expect(page).toMatchObject({ code: 0, stderr: '' });
  expect(page.stdout).toMatch(/^<!doctype html>\n[^]*<h1>audited<\/h1>[^]*<\/html>\n$/);
  expect(page.stdout).toContain('reported generation 1: stage Drain, requested by user sandbox-admin');
  const stages = ({ timelines }: Report) => timelines[0]?.rows.map((row) => row.name);
  expect(drawn).toMatchObject({
    state: 'complete: its nodes were returned to service',
    reason: 'ticket 4711',
    nodes: [{ node: 'node-1', state: 'returned' }],
  });
  expect(stages(drawn)).toEqual(['Cordon', 'Drain', 'Complete']);
  expect(apart).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^note: The history could not be read, .*127\.0\.0\.1:1/),
  });
  expect(apart.stdout).toContain('The history could not be read');
  expect(apart.stdout).toContain('changed the spec last, to generation 2: stage Complete');

  await runsExpired();
  const [redrawn, left, kept] = await Promise.all([reported(), history(name), exported()]);
  expect(redrawn).toMatchObject({
    unknown: expect.arrayContaining([
      expect.stringMatching(/^Temporal has no run of this maintenance any more/),
    ]),
  });
  expect(left).toMatchObject({ code: 0 });
  expect(left.stderr).toMatch(
    /^note: Temporal namespace default at \S+, which keeps the history of a closed run for 24h, has no run of NodeMaintenance "audited" any more: this is what the object and its Events hold\n$/,
  );
  expect(left.stdout).toMatch(/ <unknown> +started stage Drain\n/);
  expect(left.stdout).toMatch(
    / user sandbox-admin.* +changed the spec last, to generation 2: stage Complete\n/,
  );
  expect(left.stdout).toMatch(
    / node-maintenance +Event WorkflowRestarted: Workflow node-maintenance-audited /,
  );
  expect(kept).toMatchObject({ runs: [], object: { metadata: { name } } });

  const { uid = '' } = (await world.maintenance(name))?.metadata ?? {};
  await world.kube.delete(resources.nodeMaintenances, { name }, { uid });
  await eventuallyHolds(
    'the object to be gone',
    () => world.maintenance(name),
    (one) => one === undefined,
  );
  const [eventsOnly, rest, remembered] = await Promise.all([history(name), exported(), reported()]);
  expect(eventsOnly).toMatchObject({ code: 0, stderr: left.stderr });
  expect(eventsOnly.stdout).toContain('Event Completed: ');
  expect(eventsOnly.stdout).not.toContain('started stage Drain');
  expect(rest).toMatchObject({ runs: [], object: null });
  expect(remembered.actions.map(({ what }) => what)).toContainEqual(
    expect.stringContaining('Event Completed: '),
  );

  await succeeds(
    kubectlOf(world.sandbox)([
      'delete',
      'events',
      '-n',
      'default',
      '--field-selector',
      `involvedObject.name=${name}`,
    ]),
  );
  const [unknown, nothing] = await Promise.all([report(), history(name)]);
  expect(unknown).toMatchObject({
    code: 1,
    stdout: '',
    stderr: expect.stringContaining('error: nothing is known of NodeMaintenance "audited": '),
  });
  expect(nothing).toMatchObject({ code: 1, stdout: '' });
  expect(nothing.stderr).toContain(
    'error: nothing is left of NodeMaintenance "audited": Temporal namespace default at',
  );
  expect(nothing.stderr).toContain(
    'To keep histories, raise the retention (temporal operator namespace update --namespace default --retention 90d), archive them in Temporal, or export them in time: kubectl maintenance history NAME -o json',
  );
});
