import { execFile } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { completeDrainPlan } from '../../domain/drain/plan.ts';
import { resources } from '../../kube/resources.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { PlayedAgent } from '../kit/nodeAgent.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World, stageStarted } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  worker = startWorker(world.sandbox);
  await worker.ready();
});
afterAll(async () => {
  await worker?.stop();
  await world?.close();
});

interface Output {
  code: number;
  text: string;
}

/** Runs the temporal CLI as a user does. */
function temporal(...args: string[]): Promise<Output> {
  const options = { env: { ...process.env, ...world.sandbox.env } };
  return new Promise((resolve) => {
    execFile(`${world.sandbox.bin}/temporal`, args, options, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, text: stdout + stderr });
    });
  });
}

function start(name: string, input: string): Promise<Output> {
  const id = `node-maintenance-${name}`;
  return temporal(
    'workflow',
    'start',
    '--task-queue',
    'node-maintenance',
    '--type',
    'nodeMaintenance',
    '--workflow-id',
    id,
    '--input',
    input,
  );
}

const cordoned = async (node: string) => (await world.node(node)).spec.unschedulable === true;
const becomesCordoned = (node: string) =>
  eventuallyHolds(
    `${node} to be cordoned`,
    () => cordoned(node),
    (observed) => observed,
  );
const becomesSchedulable = (node: string) =>
  eventuallyHolds(
    `${node} to be schedulable`,
    () => cordoned(node),
    (observed) => !observed,
  );

describe('a maintenance that is started from the Temporal CLI', () => {
  test('creates the object with the complete drain plan, and drains', async () => {
    await world.deployment('cli', 8);
    const { code } = await start(
      'cli',
      '{"name":"cli","nodes":["node-1"],"stage":"Drain","reason":"firmware 2.4"}',
    );
    expect(code).toBe(0);
    const observed = await world.eventually('cli', 'it is drained', drained);
    expect(observed.spec).toMatchObject({
      stage: 'Drain',
      reason: 'firmware 2.4',
      drainPlan: completeDrainPlan(),
    });
    expect(observed.metadata.annotations?.['nodemaintenance.k8s.io/started-by']).toMatch(
      /^unverified Temporal identity: .+@/,
    );
    expect(await world.podsOn('node-1')).toEqual([]);
    expect(await cordoned('node-1')).toBe(true);
  });

  test('is advanced by signals from the CLI, and the object follows', async () => {
    const signalled = await temporal('workflow', 'signal', '-w', 'node-maintenance-cli', '--name', 'advance');
    expect(signalled.code).toBe(0);
    await world.eventually('cli', 'it is finished', finished);
    expect(await cordoned('node-1')).toBe(false);
  });

  test.each([
    {
      when: 'an unknown node',
      input: '{"name":"bad","nodes":["node-77"]}',
      message: 'nodes[0]: there is no node "node-77"',
    },
    {
      when: 'an empty selector',
      input: '{"name":"bad","nodeSelector":{"nodeSelectorTerms":[]}}',
      message: 'nodeSelector.nodeSelectorTerms: expected at least one',
    },
    { when: 'no object', input: '"bad"', message: 'expected one JSON object' },
    {
      when: 'an unknown field',
      input: '{"name":"bad","nodes":["node-1"],"stge":"Drain"}',
      message: 'stge: unknown field',
    },
    {
      when: 'a plan out of order',
      input:
        '{"name":"bad","nodes":["node-1"],"drainPlan":[{"podType":"Default","podPriority":2},{"podType":"Default","podPriority":1}]}',
      message: 'drainPlan[1] has podPriority 1 after 2',
    },
    {
      when: 'a duplicate entry',
      input:
        '{"name":"bad","nodes":["node-1"],"drainPlan":[{"podType":"Default","podPriority":2},{"podType":"Default","podPriority":2}]}',
      message: 'drainPlan[1] repeats drainPlan[0]',
    },
    {
      when: 'the name of an existing one with another spec',
      input: '{"name":"cli","nodes":["node-2"]}',
      message: 'exists with a different nodeSelector',
      name: 'cli',
    },
  ])('is rejected with a remedy, and nothing is created: $when', async ({ input, message, name = 'bad' }) => {
    await start(name, input);
    const { text } = await temporal('workflow', 'result', '-w', `node-maintenance-${name}`);
    expect(text).toContain(message);
    if (name === 'bad') expect(await world.maintenance('bad')).toBeUndefined();
  });

  test('malformed JSON never reaches the server', async () => {
    expect(await start('bad', '{"name":')).toMatchObject({
      code: 1,
      text: expect.stringContaining('not valid JSON'),
    });
  });
});

describe("a maintenance that is started by the Temporal UI's form", () => {
  const json = (value: object) => ({
    payloads: [{ metadata: { encoding: btoa('json/plain') }, data: btoa(JSON.stringify(value)) }],
  });
  let headers: { [name: string]: string };

  /** Sends what the UI's pages send, through the UI's own server. */
  const post = async (path: string, body: object) => {
    const answer = await fetch(`${world.sandbox.temporalUi}/api/v1/namespaces/default/workflows/${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    expect(`${answer.status} ${await answer.text()}`).toMatch(/^200 /);
  };

  beforeAll(async () => {
    const page = await fetch(`${world.sandbox.temporalUi}/api/v1/namespaces/default`);
    const cookie =
      page.headers
        .getSetCookie()
        .find((one) => one.startsWith('_csrf='))
        ?.split(';')[0] ?? '';
    headers = { cookie, 'x-csrf-token': cookie.slice('_csrf='.length) };
  });

  test('cordons, and its signals advance it', async () => {
    const input = json({ name: 'ui', nodes: ['node-2'], stage: 'Cordon' });
    await post('node-maintenance-ui', {
      taskQueue: { name: 'node-maintenance' },
      workflowType: { name: 'nodeMaintenance' },
      input,
    });
    await becomesCordoned('node-2');
    await post('node-maintenance-ui/signal/advance', {
      signalName: 'advance',
      input: json({ to: 'Complete' }),
    });
    await world.eventually('ui', 'it is finished', finished);
    expect(await cordoned('node-2')).toBe(false);
  });
});

describe('a maintenance that is applied with kubectl', () => {
  const run = () => world.temporal.workflow.getHandle('node-maintenance-applied');
  const advance = (to: string) =>
    run().executeUpdate<{ stage: string }, [{ to: string }]>('advance', { args: [{ to }] });

  test('waits in Idle without touching anything', async () => {
    await world.apply('applied', { nodes: ['node-3'] });
    const observed = await world.eventually('applied', 'Idle has started', (one) =>
      stageStarted(one, 'Idle'),
    );
    expect(observed.metadata.finalizers).toBeUndefined();
    expect(await cordoned('node-3')).toBe(false);
  });

  test('follows an edit of .spec.stage', async () => {
    await world.patch('applied', { stage: 'Cordon' });
    await becomesCordoned('node-3');
    expect((await world.maintenance('applied'))?.metadata.finalizers).toEqual([
      'nodemaintenance.k8s.io/maintenance-completion',
    ]);
  });

  test('rejects an update to an earlier stage, and names the stages that may follow', async () => {
    await expect(advance('Cordn')).rejects.toMatchObject({
      cause: { message: expect.stringContaining('to: expected "Cordon"') },
    });
    await expect(advance('Drain')).resolves.toMatchObject({ stage: 'Drain' });
    await expect(advance('Cordon')).rejects.toMatchObject({
      cause: { message: 'stage cannot go from Drain back to Cordon: choose Complete' },
    });
    expect((await world.maintenance('applied'))?.spec.stage).toBe('Drain');
  });

  test('pauses: no new Evacuation, the cordon stays; resumes: the pod leaves', async () => {
    await world.eventually('applied', 'it is drained', drained);
    await run().executeUpdate('pause');
    await world.placePods('node-3', 1);
    await world.kube.mergePatch(resources.nodes, { name: 'node-3' }, { spec: { unschedulable: false } });
    await becomesCordoned('node-3');
    const [pod] = await world.podsOn('node-3');
    expect(pod?.metadata.deletionTimestamp).toBeUndefined();
    expect(world.record.evacuations.has(pod?.metadata.uid ?? 'none')).toBe(false);
    await run().executeUpdate('resume');
    await eventuallyHolds(
      'the pod to be evacuated',
      () => world.podsOn('node-3'),
      (pods) => pods.length === 0,
    );
  });

  test('continues in a new run when its run was terminated', async () => {
    await world.eventually('applied', 'it is drained', drained);
    await run().terminate('by mistake');
    await eventuallyHolds(
      'a new run',
      async () => (await run().describe()).status.name,
      (status) => status === 'RUNNING',
    );
    await world.placePods('node-3', 2, { awaited: false });
    await eventuallyHolds(
      'a late pod to be evacuated',
      () => world.podsOn('node-3'),
      (pods) => pods.length === 0,
    );
  });

  test('"is moved to the Complete stage on deletion", uncordons the node, and only then is gone', async () => {
    const { metadata } = (await world.maintenance('applied')) ?? { metadata: { uid: '' } };
    await world.kube.delete(resources.nodeMaintenances, { name: 'applied' }, { uid: metadata.uid ?? '' });
    await becomesSchedulable('node-3');
    await eventuallyHolds(
      'the object to be gone',
      () => world.maintenance('applied'),
      (observed) => observed === undefined,
    );
    await expect(run().result()).resolves.toMatchObject({ name: 'applied' });
  });

  test('deleted in Idle, it is gone at once, and its run ends', async () => {
    const { metadata } = await world.apply('planned', { nodes: ['node-4'] });
    await world.eventually('planned', 'Idle has started', (one) => stageStarted(one, 'Idle'));
    await world.kube.delete(resources.nodeMaintenances, { name: 'planned' }, { uid: metadata.uid ?? '' });
    await expect(
      world.temporal.workflow.getHandle('node-maintenance-planned').result(),
    ).resolves.toMatchObject({ drained: false });
  });

  test('a node that another user had cordoned stays cordoned, with an Event', async () => {
    await world.kube.mergePatch(resources.nodes, { name: 'node-4' }, { spec: { unschedulable: true } });
    await world.apply('foreign', { nodes: ['node-4'], stage: 'Drain' });
    await world.eventually('foreign', 'it is drained', drained);
    await world.patch('foreign', { stage: 'Complete' });
    await world.eventually('foreign', 'it is finished', finished);
    expect(await cordoned('node-4')).toBe(true);
    const { items } = await world.kube.list(resources.events, { namespace: 'default' });
    expect(
      items.filter(({ involvedObject }) => involvedObject.name === 'foreign').map(({ reason }) => reason),
    ).toContain('NodeKeptCordoned');
    await world.kube.mergePatch(resources.nodes, { name: 'node-4' }, { spec: { unschedulable: false } });
  });

  test('a PodDisruptionBudget that blocks is named with its numbers, and the drain continues once it allows the eviction', async () => {
    await world.deployment('guarded', 4);
    await world.budget('strict', { app: 'guarded' }, { minAvailable: 4 });
    const nodes = ['node-1', 'node-2', 'node-3', 'node-4'].slice(0, 2);
    await world.apply('blocked', { nodes, stage: 'Drain' });
    const evacuations = () => world.kube.list(resources.evacuations, { namespace: 'default' });
    await eventuallyHolds('an Evacuation names the budget', evacuations, ({ items }) =>
      items.some(
        ({ status }) =>
          status?.message.includes('PodDisruptionBudget default/strict (disruptionsAllowed 0') === true,
      ),
    );
    const budget = { namespace: 'default', name: 'strict' };
    await world.kube.mergePatch(resources.podDisruptionBudgets, budget, { spec: { minAvailable: 3 } });
    await world.eventually('blocked', 'it is drained', drained);
    await world.patch('blocked', { stage: 'Complete' });
    await world.eventually('blocked', 'it is finished', finished);
  });

  test('a selector that matches no node is reported; a node that appears is cordoned and drained', async () => {
    await world.apply('early', { nodes: ['late-node'], stage: 'Drain' });
    await world.eventually(
      'early',
      'it reports why it waits',
      ({ status }) => status?.conditions.some(({ reason }) => reason === 'NoNodeMatches') === true,
    );
    await world.sandbox.addNodes(['late-node']);
    await becomesCordoned('late-node');
    await world.eventually('early', 'it is drained', drained);
  });

  test('static pods are left running, and the Drained condition says so', async () => {
    await world.placePods('late-node', 1, { annotations: { 'kubernetes.io/config.mirror': 'made-by-hand' } });
    const observed = await world.eventually(
      'early',
      'it is reported',
      ({ status }) => status?.podsRemaining === 1,
    );
    expect(observed.status?.conditions.find(({ type }) => type === 'Drained')).toMatchObject({
      status: 'True',
      reason: 'StaticPodsRemain',
    });
    expect(observed.status?.nodeStatuses[0]?.drainMessage).toMatch(
      /^Drained, left running: default\/placed-\d+\.$/,
    );
    expect(await world.podsOn('late-node')).toHaveLength(1);
  });

  test('a node agent that appears stops them, and the status names it', async () => {
    const agent = new PlayedAgent({ admin: world.kube }, 'late-node');
    const playing = new AbortController();
    await agent.reports();
    await world.eventually('early', 'the static pod is to leave', (nm) => !drained(nm));
    const running = agent.run(playing.signal);
    const { status } = await world.eventually(
      'early',
      'no static pod is left',
      (nm) => drained(nm) && nm.status?.podsRemaining === 0,
    );
    playing.abort();
    await running;
    expect(status?.nodeStatuses[0]).toMatchObject({ agentVersion: '1.2.3', drainMessage: 'Drained' });
    expect(await world.podsOn('late-node')).toHaveLength(0);
  });
});
