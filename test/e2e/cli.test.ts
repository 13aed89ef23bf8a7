import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import type { Job, KubeObject } from '../../api/core.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import {
  NODE_DISRUPTION_BUDGET_NAME,
  WindowAnnotation,
  NODE_MAINTENANCE,
  WORK_NAMESPACE,
} from '../../api/names.ts';
import { TASK_QUEUE, windowWorkflowIdOf } from '../kit/temporalNames.ts';
import { newWindowMaintenance } from '../../domain/windows/windowMaintenance.ts';
import type { MaintenanceSummary } from '../../domain/maintenance/summary.ts';
import { jobName } from '../../domain/common/revision.ts';
import type { WindowSummary } from '../../domain/windows/summary.ts';
import { forEachBounded } from '../../kube/bounded.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { changedKubeconfig } from '../kube/fixtures.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { sendHeartbeats } from '../kit/heartbeats.ts';
import { gate, ofPool, ReadinessPolicies, readinessPolicy } from '../kit/readiness.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, finished, type World } from '../kit/world.ts';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 4 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  // The apiserver has read the schemas by then.
  await world.apply('probe', { nodes: ['node-1'] });
  await world.eventually('probe', 'a worker to have observed it', ({ status }) => status !== undefined);
  expect(await maintenance('cancel', 'probe', '--wait', '--timeout', '2m')).toMatchObject({ code: 0 });
});
afterAll(async () => {
  world?.sandbox.server('kwok').resume();
  await worker?.kill();
  await world?.close();
});

/** Runs the plugin as a user does: kubectl finds it on PATH. */
const maintenance = (...args: string[]) => kubectlOf(world.sandbox)(['maintenance', ...args]);

async function statusOf(name: string): Promise<MaintenanceSummary> {
  const { items } = JSON.parse(await succeeds(maintenance('status', name, '-o', 'json'))) as {
    items: [MaintenanceSummary];
  };
  return items[0];
}

/** Ctrl-C */
const interruptKey = '\u0003';
const showCursor = '\u001b[?25h';

const children: ChildProcess[] = [];
/** Ends the programs of a test that failed. */
afterEach(() => {
  for (const child of children.splice(0)) child.kill();
});

/** Starts the plugin, and follows its output. */
function running(...args: string[]) {
  return followed(join(world.sandbox.bin, 'kubectl'), ['maintenance', ...args]);
}

/** Starts the plugin at a terminal of 24 lines and 80 columns. */
function atTerminal(...args: string[]) {
  const command = `stty rows 24 cols 80 && exec kubectl maintenance ${args.join(' ')}`;
  return followed('script', ['--quiet', '--command', command, '/dev/null']);
}

function followed(file: string, args: string[]) {
  const { env, dir } = world.sandbox;
  const child = spawn(file, args, { env: { ...env, HOME: dir } });
  let observed = '';
  children.push(child);
  const exited = once(child, 'close').then(([code]) => code as number);
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (observed += chunk.toString()));
  return { output: () => observed, exited: () => exited, types: (keys: string) => child.stdin.write(keys) };
}

const prints = (program: ReturnType<typeof running>, expected: string) =>
  eventuallyHolds(`the output to contain "${expected}"`, program.output, (output) =>
    output.includes(expected),
  );

test('start creates a NodeMaintenance, and waits until its nodes are drained', async () => {
  const pods = await world.placePods('node-1', 3);
  const answer = await maintenance('start', 'node-1', '--reason', 'firmware', '--wait', '--timeout', '2m');
  expect(answer).toMatchObject({
    code: 0,
    stdout: 'nodemaintenance/node-1 created: stage Drain, node node-1\nnodemaintenance/node-1 is drained\n',
  });
  expect(await world.maintenance('node-1')).toMatchObject({
    spec: {
      stage: 'Drain',
      reason: 'firmware',
      nodeSelector: { nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', values: ['node-1'] }] }] },
    },
  });
  const left = (await world.podsOn('node-1')).map(({ metadata }) => metadata.name);
  expect(left.filter((name) => pods.includes(name))).toEqual([]);
});

test('status shows the progress, for users and for scripts', async () => {
  const plain = await succeeds(maintenance('status', 'nm/node-1'));
  expect(plain).toMatch(
    /^nodemaintenance\/node-1: Drain for \S+, drained: firmware\n {2}3 of 3 pods evacuated\n/,
  );
  expect(plain).toMatch(/NODE +DRAINED +TO EVACUATE +GATES +TARGETS +MESSAGE\n/);
  expect(plain).toMatch(/node-1 +█{10} 100% +0 +<none> +.* +Drained\n/);
  expect(await statusOf('node-1')).toMatchObject({
    name: 'node-1',
    stage: 'Drain',
    drained: true,
    podsToEvacuate: 0,
    podsEvacuated: 3,
    nodes: [{ node: 'node-1', cordoned: true, message: 'Drained' }],
  });
  const all = await succeeds(maintenance('status'));
  expect(all).toContain('nodemaintenance/node-1: ');
  expect(all).not.toContain('nodemaintenance/probe: ');
});

test('the same nodes are not started twice, until advance has uncordoned them', async () => {
  const again = await maintenance('start', 'node-1');
  expect(again).toMatchObject({ code: 1, stdout: '' });
  expect(again.stderr).toMatch(
    /^error: nodemaintenance\/node-1 already has these nodes and is in stage Drain: /,
  );

  const answer = await maintenance('advance', 'node-1', '--from', 'Drain', '--wait', '--timeout', '2m');
  expect(answer).toMatchObject({
    code: 0,
    stdout: [
      'nodemaintenance/node-1 moved from Drain to Complete\n',
      'nodemaintenance/node-1 is complete and its nodes are in service\n',
    ].join(''),
  });
  expect((await world.node('node-1')).spec.unschedulable).not.toBe(true);
  await world.eventually('node-1', 'Complete has done its work', finished);
  expect(await maintenance('advance', 'node-1', '--from', 'Drain')).toMatchObject({
    code: 0,
    stdout: 'nodemaintenance/node-1 is already in stage Complete\n',
  });
  expect(await maintenance('advance', 'node-1')).toMatchObject({
    code: 1,
    stderr: 'error: nodemaintenance/node-1: stage Complete is final: there is nothing to advance to\n',
  });

  const dry = await maintenance('start', 'node-1', '--stage', 'Cordon', '--dry-run', 'server', '-o', 'yaml');
  expect(dry).toMatchObject({ code: 0, stdout: expect.stringContaining('name: node-1-2\n') });
  expect(await world.maintenance('node-1-2')).toBeUndefined();
  const all = ['node-1', 'node-2', 'node-3', 'node-4'];
  expect((await maintenance('start', ...all, '--dry-run', 'server')).stderr).toMatch(
    /^Warning: spec.nodeSelector matches all 4 nodes: /m,
  );
  expect((await maintenance('advance', 'node-1', '--to', 'Drain')).stderr).toContain(
    'stage Complete is final',
  );
});

describe('a maintenance whose pod cannot leave', () => {
  const name = 'rack-2';
  let pod: string;

  beforeAll(async () => {
    [pod = ''] = await world.placePods('node-2', 1, { labels: { app: 'never' } });
    await world.budget('never', { app: 'never' }, { minAvailable: 1 });
    expect(await succeeds(maintenance('start', 'node-2', 'node-3', '--name', name))).toBe(
      'nodemaintenance/rack-2 created: stage Drain, 2 nodes\n',
    );
    await world.eventually(name, 'the pod is blocked', ({ status }) => status?.podsBlocked === 1);
  });

  test('makes --wait time out', async () => {
    const answer = await maintenance('advance', name, '--to', 'Drain', '--wait', '--timeout', '4s');
    expect(answer).toMatchObject({
      code: 1,
      stdout: 'nodemaintenance/rack-2 is already in stage Drain\n',
      stderr: expect.stringMatching(
        /\nerror: nodemaintenance\/rack-2: timed out after 4s, still waiting for /,
      ),
    });
    expect(answer.stderr).toContain(`waiting for default/${pod} on node-2, which cannot leave: `);
  });

  test('names the pod and what to do about it', async () => {
    const plain = await succeeds(maintenance('status', name));
    expect(plain).toMatch(/^nodemaintenance\/rack-2: Drain for \S+, tier 1 of 1\n/);
    expect(plain).toContain('0 of 1 pods evacuated, 1 blocked; no estimate: blocked pods require action');
    expect(plain).toContain(
      `  default/${pod} (node-2) blocked: PodDisruptionBudget default/never can never allow a disruption: `,
    );
    expect(await statusOf(name)).toMatchObject({
      podsBlocked: 1,
      estimate: { basis: 'Blocked' },
      nodes: [
        { leaving: [{ pod: `default/${pod}`, blocker: { reason: 'DisruptionBudgetNeverAllows' } }] },
        {},
      ],
    });
  });

  test('is paused and resumed', async () => {
    const paused = 'paused: no new Evacuation and no new tier starts, nodes stay cordoned\n';
    expect(await succeeds(maintenance('pause', name))).toBe(`nodemaintenance/rack-2 is ${paused}`);
    expect(await succeeds(maintenance('pause', name))).toBe(`nodemaintenance/rack-2 is already ${paused}`);
    expect(await statusOf(name)).toMatchObject({ paused: true, estimate: { basis: 'Paused' } });
    const resumed = JSON.parse(await succeeds(maintenance('resume', name, '-o', 'json')));
    expect(resumed).toMatchObject({ kind: 'NodeMaintenance', metadata: { name } });
    expect(await statusOf(name)).toMatchObject({ paused: false });
  });

  test('is planned by its name', async () => {
    expect(await plannedNodes('nm/rack-2')).toEqual(['node-2', 'node-3']);
    expect(await plannedNodes('rack-2')).toEqual(['node-2', 'node-3']);
  });

  test('is cancelled, and its nodes take pods again, including one that was deleted and recreated', async () => {
    await succeeds(kubectlOf(world.sandbox)(['delete', 'node', 'node-3']));
    const cancelling = running('cancel', name, '--wait', '--timeout', '3m');
    await prints(cancelling, 'waiting for node node-3: it does not exist');
    await world.sandbox.addNodes(['node-3']);
    expect([await cancelling.exited(), cancelling.output()]).toEqual([
      0,
      expect.stringContaining('nodemaintenance/rack-2 is complete and its nodes are in service\n'),
    ]);
    expect(JSON.parse(await succeeds(maintenance('cancel', name, '-o', 'json')))).toMatchObject({
      spec: { stage: 'Complete' },
    });
    expect(await maintenance('pause', name)).toMatchObject({
      code: 1,
      stderr: 'error: nodemaintenance/rack-2 is in stage Complete: there is nothing to pause\n',
    });
    expect((await world.node('node-2')).spec.unschedulable).not.toBe(true);
    expect((await world.podsOn('node-2')).map(({ metadata }) => metadata.name)).toContain(pod);
  });
});

async function plannedNodes(...args: string[]): Promise<string[]> {
  const answer = await succeeds(maintenance('plan', '-o', 'json', ...args));
  return (JSON.parse(answer) as { nodes: string[] }).nodes;
}

test('agent kubeconfig prints none that would not verify the apiserver', async () => {
  const insecure = { 'insecure-skip-tls-verify': true, 'certificate-authority-data': undefined };
  const { path, remove } = await changedKubeconfig(world.sandbox.kubeconfig, { cluster: insecure });
  try {
    expect(await maintenance('agent', 'kubeconfig', 'node-1', '--kubeconfig', path)).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('use one with certificate-authority-data'),
    });
  } finally {
    await remove();
  }
});

describe('plan', () => {
  let lone: string;

  beforeAll(async () => {
    [lone = ''] = await world.placePods('node-3', 1, { volumes: [{ name: 'scratch', emptyDir: {} }] });
  });

  test('shows tier by tier what would leave and be lost, and changes nothing', async () => {
    const plain = await succeeds(maintenance('plan', 'node-3', '--check'));
    expect(plain).toMatch(/^1 pod would be evacuated from node node-3, in 1 tier. Nothing was changed.\n/);
    expect(plain).toMatch(/\nTier 1 of 1, Default pods with priority up to 1000000000: 1 pod\n/);
    expect(plain).toContain('no controller recreates it; data in emptyDir scratch will be lost\n');
    expect(plain).toMatch(/\nNothing blocks the drain.\n$/);
    expect((await world.node('node-3')).spec.unschedulable).not.toBe(true);
    expect((await world.podsOn('node-3')).map(({ metadata }) => metadata.name)).toContain(lone);
  });

  test('names the evacuator of each pod, and the pods that only a kubelet ends', async () => {
    const migrates = 'evacuation.coordination.k8s.io/priority_migrate.example.com';
    const [taken] = await world.placePods('node-3', 1, { annotations: { [migrates]: '20000/controller' } });
    const [mirror] = await world.placePods('node-3', 1, {
      annotations: { 'kubernetes.io/config.mirror': 'hash' },
    });
    const plain = await succeeds(maintenance('plan', 'node-3'));
    expect(plain).toMatch(new RegExp(`default/${taken} .*migrate\\.example\\.com \\(20000\\)`));
    const [leaves = '', stays = ''] = plain.split('Static pods keep running');
    expect([leaves.includes(`default/${mirror}`), stays.includes(`default/${mirror}`)]).toEqual([
      false,
      true,
    ]);
    for (const { metadata } of await world.podsOn('node-3')) {
      if (metadata.name !== taken && metadata.name !== mirror) continue;
      const { namespace, name, uid = '' } = metadata;
      await world.kube.delete(resources.pods, { namespace, name }, { uid, gracePeriodSeconds: 0 });
    }
  });

  test('names what would block, and --check fails on it', async () => {
    const answer = await maintenance('plan', 'node-2', 'node-3', '--check');
    expect(answer).toMatchObject({
      code: 1,
      stderr: 'error: the drain would not finish without intervention\n',
    });
    expect(answer.stdout).toMatch(
      /BLOCKED: PodDisruptionBudget default\/never can never allow a disruption: /,
    );
    expect(answer.stdout).toMatch(/default\/never +never +0 of 1 +/);
    expect(answer.stdout).toMatch(/\nBLOCKED: 1 pod cannot be evacuated without intervention.\n$/);
  });

  test('knows from the Lease of the worker for which pods it registers the evacuator of Deployments', async () => {
    const answer = await succeeds(maintenance('plan', 'node-3', '-o', 'json'));
    expect(JSON.parse(answer)).toMatchObject({ deploymentRegistration: 'annotated' });
  });

  test('is blocked by a node whose Lease has another holder', async () => {
    await succeeds(maintenance('lease', 'acquire', 'node-4', '--reason', 'disk errors'));
    const answer = await maintenance('plan', 'node-4', '--check');
    expect(answer).toMatchObject({
      code: 1,
      stdout: expect.stringMatching(/\nBLOCKED: maintenance Leases are held by others: node-4 \(/),
    });
    await succeeds(maintenance('lease', 'release', 'node-4'));
  });

  test('says of a node that a maintenance has cordoned nothing else, because that returns to service', async () => {
    await world.apply('holds', { nodes: ['node-4'], stage: 'Cordon' });
    await eventually('node-4 to be cordoned', async () =>
      expect((await world.node('node-4')).spec.unschedulable).toBe(true),
    );
    const plain = await succeeds(maintenance('plan', 'node-4'));
    expect(plain).toContain('holds');
    expect(plain).not.toContain('already cordoned');
    await succeeds(maintenance('cancel', 'holds', '--wait', '--timeout', '2m'));
  });

  test('takes labels, or a maintenance in a file, and prints JSON', async () => {
    expect(await plannedNodes('-l', 'kubernetes.io/hostname in (node-1,node-4)')).toEqual([
      'node-1',
      'node-4',
    ]);
    const manifest = await world.maintenance('node-1');
    const asked = kubectlOf(world.sandbox)(['maintenance', 'plan', '-f', '-', '-o', 'json'], manifest);
    expect(JSON.parse(await succeeds(asked))).toMatchObject({ nodes: ['node-1'], blocked: false });
  });
});

describe('the budget of nodes', () => {
  const budget = (maxUnavailable: number | string) =>
    world.kube.mergePatch(
      resources.nodeDisruptionBudgets,
      { name: NODE_DISRUPTION_BUDGET_NAME },
      { spec: { maxUnavailable } },
    );

  beforeAll(() => budget(1));
  afterAll(() => budget('100%'));

  test('is warned of by plan, and by start with the message of admission', async () => {
    const warning =
      'spec.nodeSelector: 2 nodes would be out of service, and NodeDisruptionBudget cluster allows 1: this maintenance is not blocked, but maintenance windows start no node until fewer are out of service';
    const two = ['node-3', 'node-4'];
    // The admission server has the budget from a watch.
    await eventually('start to warn', async () =>
      expect(await maintenance('start', ...two, '--dry-run', 'server')).toMatchObject({
        code: 0,
        stderr: `Warning: ${warning}\n`,
      }),
    );
    expect(await succeeds(maintenance('plan', ...two))).toContain(warning);
    expect(await succeeds(maintenance('plan', 'node-4'))).not.toContain('NodeDisruptionBudget');
    expect(await maintenance('start', 'node-4', '--dry-run', 'server')).toMatchObject({ stderr: '' });
  });
});

describe('a window', () => {
  const openings = (...args: string[]) => maintenance('windows', ...args);
  const windowNow = async () =>
    (await world.kube.get(resources.maintenanceWindows, { name: 'os-patch' })) as MaintenanceWindow;
  const summaryNow = async () => {
    const { items } = JSON.parse(await succeeds(openings('os-patch', '-o', 'json'))) as {
      items: [WindowSummary];
    };
    return items[0];
  };

  beforeAll(async () => {
    const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In' as const, values: ['node-4'] }];
    await world.kube.create(resources.maintenanceWindows, {
      metadata: { name: 'os-patch' },
      spec: {
        schedule: {
          calendar: [{ time: '03:00', months: [12], daysOfMonth: [28, 29], years: [2098] }],
          timeZone: 'Europe/Berlin',
          duration: '1h',
        },
        nodeSelector: { nodeSelectorTerms: [{ matchExpressions }] },
        approval: 'PerNode',
      },
    } as unknown as MaintenanceWindow);
  });

  test('is listed with a description of its schedule, and its next openings in its zone and in local time', async () => {
    await eventually('a worker to have scheduled it', async () =>
      expect(await summaryNow()).toMatchObject({
        schedule: 'on the 28-29 of December in 2098 at 03:00 Europe/Berlin, for 1h',
        next: ['2098-12-28T02:00:00.000Z', '2098-12-29T02:00:00.000Z'],
        problems: [],
        nodes: [],
      }),
    );
    const plain = await succeeds(openings());
    expect(plain).toMatch(/^NAME +OPENS +NEXT +OPEN UNTIL +IN PROGRESS +DONE +REMAINING +FAILED +REMARKS\n/);
    expect(plain).toMatch(
      /\nos-patch +on the 28-29 of December .* Sun 2098-12-28 03:00( \(\S+ here\))? +<none> /,
    );
    expect(await maintenance('window', 'approve', 'os-patch', '--node', 'node-4')).toMatchObject({
      code: 1,
      stderr:
        'error: maintenancewindow/os-patch is not open: there is nothing to approve; it opens next at 2098-12-28T02:00:00.000Z\n',
    });
  });

  test('does not open on a skipped date', async () => {
    expect(await succeeds(maintenance('window', 'skip', 'mw/os-patch'))).toBe(
      'maintenancewindow/os-patch does not open on 2098-12-28: the date was added to its annotation nodemaintenance.k8s.io/skipped-dates\n',
    );
    const { metadata, spec } = await windowNow();
    expect(metadata.annotations).toMatchObject({ 'nodemaintenance.k8s.io/skipped-dates': '2098-12-28' });
    expect(spec.schedule.exceptions).toBeUndefined();
    expect(await succeeds(maintenance('window', 'skip', 'os-patch', '--date', '2098-12-28'))).toBe(
      'maintenancewindow/os-patch unchanged: 2098-12-28 is already skipped\n',
    );
    await eventually('the next opening to be the other one', async () =>
      expect(await summaryNow()).toMatchObject({ next: ['2098-12-29T02:00:00.000Z'] }),
    );
  });

  test('that is open waits for approval, and shows the command for it', async () => {
    const watching = running('windows', 'os-patch', '--watch');
    await world.temporal.workflow.start('maintenanceWindow', {
      workflowId: windowWorkflowIdOf('os-patch'),
      taskQueue: TASK_QUEUE,
      args: [{ name: 'os-patch' }],
    });
    await eventually('it to wait', async () =>
      expect(await summaryNow()).toMatchObject({
        awaitsApproval: true,
        progress: { nodes: 1, remaining: 1 },
      }),
    );
    const plain = await succeeds(openings('os-patch'));
    expect(plain).toMatch(/^maintenancewindow\/os-patch: open until .*, \S+ left\n/);
    expect(plain).toContain('  0 of 1 nodes done, 0 in progress, 0 failed, 1 remaining\n');
    expect(plain).toContain('  to approve: kubectl maintenance window approve os-patch --node NODE\n');
    await prints(watching, 'waiting for approval');
    expect(await succeeds(maintenance('window', 'approve', 'os-patch', '--node', 'node-4'))).toBe(
      'maintenancewindow/os-patch approved for node-4 until the window ends\n',
    );
    await eventually('the node to be in progress', async () => {
      expect(await succeeds(openings('os-patch'))).toMatch(
        /\n  NODE +STATE +FOR +STAGE +NODEMAINTENANCE +MESSAGE\n  node-4 +InProgress +\S+ +Drain +os-patch-\S+ +drained, waiting for its work to be marked as done\n/,
      );
    });
    await prints(watching, '0 of 1 nodes done, 1 in progress, 0 failed, 0 remaining (node-4)');
  });

  const escape = '\u001b';
  const cursorUp = new RegExp(String.raw`${escape}\[\d*A`);

  test.each([
    { args: ['windows', 'os-patch', '--watch'], title: 'maintenancewindow/os-patch: open until ' },
    { args: ['status', '--watch'], title: 'nodemaintenance/os-patch-' },
  ])('is redrawn at a terminal by $args.0 --watch, and fits', async ({ args, title }) => {
    const terminal = atTerminal(...args);
    const isRedrawn = (observed: string) => observed.includes(title) && cursorUp.test(observed);
    await eventuallyHolds('it to be redrawn', terminal.output, isRedrawn);
    terminal.types(interruptKey);
    await terminal.exited();
    const observed = terminal.output();
    const lines = stripVTControlCharacters(observed).split(/[\r\n]+/);
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}NODE .* MESSAGE$/));
    expect(lines).toContainEqual(expect.stringMatching(/^ {2}node-4 /));
    expect(observed.slice(observed.lastIndexOf('node-4'))).toContain(showCursor);
  });

  const shownAsPaused = (paused: boolean) =>
    eventually(`Temporal to show ${paused ? 'the pause' : 'its end'}`, async () => {
      const run = world.temporal.workflow.getHandle(windowWorkflowIdOf('os-patch'));
      expect(await run.query('progress')).toMatchObject({ paused });
    });

  test('is paused and resumed, in its object and in Temporal', async () => {
    const { generation } = (await windowNow()).metadata;
    const paused = await succeeds(maintenance('window', 'pause', 'os-patch', '--reason', 'disk errors'));
    expect(paused).toBe(
      'maintenancewindow/os-patch paused: it starts no more nodes and does not open until it is resumed; nodes in progress continue\n',
    );
    expect((await windowNow()).metadata).toMatchObject({
      generation,
      annotations: { 'nodemaintenance.k8s.io/paused': 'disk errors' },
    });
    await shownAsPaused(true);
    await eventually('no opening to be next', async () =>
      expect(await summaryNow()).toMatchObject({
        suspended: false,
        paused: 'disk errors',
        next: [],
        problems: [],
      }),
    );
    expect(await succeeds(openings('os-patch'))).toContain(
      '  paused by annotation (disk errors); to resume: kubectl maintenance window resume os-patch\n',
    );
    expect(await succeeds(maintenance('window', 'pause', 'os-patch'))).toMatch(
      / unchanged: already paused: /,
    );
    const resumed = await succeeds(maintenance('window', 'resume', 'os-patch', '-o', 'json'));
    const { metadata } = JSON.parse(resumed) as MaintenanceWindow;
    expect(metadata.annotations).not.toHaveProperty('nodemaintenance.k8s.io/paused');
    await shownAsPaused(false);
    expect(await succeeds(maintenance('window', 'resume', 'os-patch'))).toBe(
      'maintenancewindow/os-patch unchanged: it is not paused\n',
    );
  });

  test('that is suspended by its manifest stays suspended when it is resumed, which says so', async () => {
    const suspend = (value: boolean) =>
      world.kube.mergePatch(resources.maintenanceWindows, { name: 'os-patch' }, { spec: { suspend: value } });
    const remedy = `spec.suspend is true, so that it does not open: set it to false where its manifest is kept, or run kubectl patch mw os-patch --type merge -p '{"spec":{"suspend":false}}'`;
    await suspend(true);
    expect(await succeeds(openings('os-patch'))).toContain(
      '  suspended by spec.suspend: change it where its manifest is kept\n',
    );
    await succeeds(maintenance('window', 'pause', 'os-patch'));
    await shownAsPaused(true);
    expect(await succeeds(maintenance('window', 'resume', 'os-patch'))).toBe(
      `maintenancewindow/os-patch resumed; ${remedy}\n`,
    );
    await shownAsPaused(false);
    expect(await maintenance('window', 'resume', 'os-patch')).toMatchObject({
      code: 1,
      stderr: `error: maintenancewindow/os-patch is not paused but suspended: ${remedy}\n`,
    });
    expect((await windowNow()).spec.suspend).toBe(true);
    await suspend(false);
  });

  test('advances a node, and lists it as succeeded', async () => {
    const stop = sendHeartbeats(world.kube, () => ['node-4']);
    expect(await succeeds(maintenance('window', 'advance', 'os-patch', '--node', 'node-4'))).toBe(
      'maintenancewindow/os-patch work on node-4 marked as done: uncordoned when Ready, at once if it had failed\n',
    );
    await eventually('the node to be done', async () =>
      expect(await summaryNow()).toMatchObject({
        progress: { done: 1, nodes: 1 },
        nodes: [{ node: 'node-4', state: 'Succeeded', stage: 'Complete' }],
      }),
    );
    stop();
    expect((await world.node('node-4')).spec.unschedulable ?? false).toBe(false);
  });

  test('does not advance a node that is done, nor one whose Job runs', async () => {
    const advance = (node: string) => maintenance('window', 'advance', 'os-patch', '--node', node);
    expect(await advance('node-4')).toMatchObject({
      code: 1,
      stderr:
        'error: maintenancewindow/os-patch does not maintain node "node-4" now; kubectl maintenance windows os-patch lists its nodes\n',
    });
    const maintenanceOfNode = newWindowMaintenance(await windowNow(), { name: 'node-3', uid: '' });
    const annotations = { ...maintenanceOfNode.metadata.annotations, [WindowAnnotation.WorkType]: 'Job' };
    const { uid = '', name } = (
      await world.kube.create(resources.nodeMaintenances, {
        metadata: { ...maintenanceOfNode.metadata, annotations },
        spec: { ...maintenanceOfNode.spec, stage: 'Idle' },
      })
    ).metadata;
    const key = { namespace: WORK_NAMESPACE, name: jobName(maintenanceOfNode.metadata.name) };
    const spec = { restartPolicy: 'Never', containers: [{ name: 'patch', image: 'none' }] };
    const { apiVersion, kind } = NODE_MAINTENANCE;
    const job = await world.kube.create(resources.jobs, {
      metadata: { ...key, ownerReferences: [{ apiVersion, kind, name, uid }] },
      spec: { suspend: true, template: { spec } },
    } as Job);
    expect(await advance('node-3')).toMatchObject({
      code: 1,
      stderr: `error: Job ${key.name} is running on node node-3: wait until it ends, or delete it with kubectl delete job -n ${key.namespace} ${key.name} and then mark the work as done (kubectl maintenance window advance)\n`,
    });
    const background = { propagationPolicy: 'Background' as const };
    await world.kube.delete(resources.jobs, key, { uid: job.metadata.uid ?? '', ...background });
    await world.kube.delete(resources.nodeMaintenances, { name: maintenanceOfNode.metadata.name }, { uid });
  });
});

describe('shell completion works', () => {
  const linesOf = (all: string) => all.trimEnd().split('\n');

  test('by kubectl, with names of the cluster', async () => {
    const complete = async (...args: string[]) =>
      linesOf(await succeeds(kubectlOf(world.sandbox)(['__complete', 'maintenance', ...args])));
    // Names that take too long to list are left out.
    await eventually('the nodes', async () =>
      expect(await complete('start', 'node-1', 'node-')).toEqual(['node-2', 'node-3', 'node-4', ':4']),
    );
    await eventually('the maintenances', async () =>
      expect(await complete('status', 'rack')).toEqual(['rack-2\tComplete', ':4']),
    );
    expect(await complete('advance', 'rack')).toEqual([':4']);
    expect(await complete('advance', 'x', '--to', 'D')).toEqual(['Drain', ':4']);
    expect(await complete('plan', '--plan', '')).toEqual([':0']);
    await eventually('the windows', async () =>
      expect(await complete('window', 'approve', 'os')).toEqual([expect.stringMatching(/^os-patch\t/), ':4']),
    );
  });

  test('by bash, for the plugin by its own name', async () => {
    const { bin, env, dir } = world.sandbox;
    const script = [
      'source <(kubectl-maintenance completion bash)',
      'complete_line() { COMP_LINE=$1 COMP_POINT=${#1}; _kubectl_maintenance; printf "%s\\n" "${COMPREPLY[@]}"; }',
      'complete_line "kubectl-maintenance start --stage "',
      'complete_line "kubectl-maintenance start --stage=D"',
    ];
    const shell = spawn('bash', ['-c', script.join('\n')], {
      env: { ...env, HOME: dir, PATH: `${bin}:${process.env['PATH']}` },
    });
    // The line contains everything before the last = already.
    expect(linesOf(await text(shell.stdout))).toEqual(['Idle', 'Cordon', 'Drain', 'Complete', 'Drain']);
  });
});

const invalid = [
  { args: ['start'], code: 2, message: 'specify node names or --selector' },
  { args: ['start', 'node-1', '-l', 'a=b'], code: 2, message: 'specify node names or --selector, not both' },
  {
    args: ['start', '-l', 'a in b'],
    code: 2,
    message: 'error: --selector: expected requirements such as pool=gpu',
  },
  { args: ['start', '-l', 'pool=none'], code: 1, message: 'no node matches pool=none' },
  {
    args: ['start', 'nobody', 'node-1', 'no-one'],
    code: 1,
    message: 'nodes "no-one", "nobody" not found',
  },
  { args: ['start', 'node-1', '--name', 'Rack 7'], code: 2, message: 'name: ' },
  {
    args: ['start', 'node-1', '--stage', 'Drained'],
    code: 2,
    message: 'Allowed choices are Idle, Cordon, Drain, Complete',
  },
  { args: ['start', 'node-1', '--plan', '/nowhere'], code: 2, message: '/nowhere: cannot be read' },
  {
    args: ['start', 'node-1', '--wait', '--timeout', '5'],
    code: 2,
    message: 'expected a duration such as 90s',
  },
  { args: ['advance'], code: 2, message: "missing required argument 'name'" },
  {
    args: ['advance', 'nobody'],
    code: 1,
    message: 'NodeMaintenance "nobody" not found; kubectl get nm lists them',
  },
  {
    args: ['status', 'nobody'],
    code: 1,
    message: 'NodeMaintenance "nobody" not found; kubectl get nm lists them',
  },
  { args: ['plan', 'nobody'], code: 1, message: 'node "nobody" not found; kubectl get nodes lists them' },
  {
    args: ['plan', 'nm/rack-2'],
    code: 1,
    message: 'nodemaintenance/rack-2 is in stage Complete and does not drain any more',
  },
  { args: ['plan', 'nm/rack-2', '-l', 'a=b'], code: 2, message: 'nm/rack-2 cannot be combined with' },
  { args: ['plan', 'rack-2', '--plan', '/nowhere'], code: 2, message: 'rack-2 cannot be combined with' },
  {
    args: ['start', 'node-1', '--name', 'rack-2'],
    code: 1,
    message: 'nodemaintenance/rack-2 already exists and is in stage Complete',
  },
  { args: ['start', 'node-1', '--timeout', '5m'], code: 2, message: '--timeout requires --wait' },
  { args: ['cancel', ''], code: 2, message: 'expected the name of a NodeMaintenance' },
  { args: ['plan', '-f', '/nowhere'], code: 2, message: '/nowhere: cannot be read' },
  { args: ['status', '-w', '-o', 'json'], code: 2, message: 'specify --watch or --output, not both' },
  { args: ['windows', '-w', '-o', 'json'], code: 2, message: 'specify --watch or --output, not both' },
  {
    args: ['windows', 'nobody'],
    code: 1,
    message: 'MaintenanceWindow "nobody" not found; kubectl get mw lists them',
  },
  { args: ['window', 'cancel', 'os-patch'], code: 1, message: 'maintenancewindow/os-patch is not open' },
  {
    args: ['window', 'skip', 'os-patch', '--date', '2098-13-01'],
    code: 2,
    message: 'expected a date such as',
  },
  {
    args: ['window', 'skip', 'os-patch', '--date', '2098-12-27'],
    code: 1,
    message: 'does not open on 2098-12-27, so that nothing would be skipped',
  },
  {
    args: ['window', 'advance', 'os-patch'],
    code: 2,
    message: "required option '--node <name...>' not specified",
  },
  {
    args: ['window', 'advance', 'os-patch', '--node', 'node-1'],
    code: 1,
    message: 'does not maintain node "node-1" now',
  },
  { args: ['completion', 'csh'], code: 2, message: 'Allowed choices are bash, zsh, fish' },
  {
    args: ['resume', 'nobody'],
    code: 1,
    message: 'NodeMaintenance "nobody" not found; kubectl get nm lists them',
  },
];

test('status of maintenances that do not exist says only this', async () => {
  const stderr = 'error: NodeMaintenance "nobody" not found; kubectl get nm lists them\n';
  for (const args of [[], ['--watch']])
    expect(await maintenance('status', 'nobody', ...args)).toMatchObject({ code: 1, stdout: '', stderr });
});

test('invalid commands fail with an exit code and a remedy', async () => {
  await forEachBounded(atOnce, invalid, async ({ args, code, message }) => {
    const answer = { args, ...(await maintenance(...args)) };
    expect(answer).toMatchObject({ args, code, stdout: '', stderr: expect.stringContaining(message) });
    expect(answer.stderr.trimEnd()).not.toMatch(/\n\s+at /);
  });
});

/** Number of programs that run at the same time. */
const atOnce = 4;

test('a user without permissions learns which role to ask for, and needs delete on a node to maintain it', async () => {
  const kubectl = kubectlOf(world.sandbox);
  const account = { namespace: 'default', name: 'jane' };
  await succeeds(kubectl(['create', 'serviceaccount', account.name, '-n', account.namespace]));
  const kubeconfig = await kubeconfigOf(world.sandbox, account, world.sandbox.dir);
  const start = () => maintenance('start', 'node-4', '--dry-run', 'server', '--kubeconfig', kubeconfig);
  const status = () => maintenance('status', 'nm/node-1', '--kubeconfig', kubeconfig);
  expect((await status()).stderr).toMatch(/: bind the ClusterRole node-maintenance-view\n$/);
  const bind = (role: string) => {
    const binding = [`--clusterrole=${role}`, '--serviceaccount=default:jane'];
    return succeeds(kubectl(['create', 'clusterrolebinding', role, ...binding]));
  };
  expect(await start()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /^error: list nodes: .*: bind the ClusterRole node-maintenance-operator\n$/,
    ),
  });
  await bind('node-maintenance-view');
  await eventually('the view role to take effect', async () =>
    expect(await status()).toMatchObject({ code: 0, stderr: '' }),
  );
  await succeeds(maintenance('plan', 'node-4', '--kubeconfig', kubeconfig));
  await bind('node-maintenance-operator');
  await eventually('the operator role to take effect', async () =>
    expect(await start()).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^error: .* may not delete node "node-4": .*; select other nodes, or request the verb delete on these nodes\n$/,
      ),
    }),
  );
});

test('a node is uncordoned behind the taint of its gates, and --wait names gate and pod until it is in service', async () => {
  const pool = 'gated';
  const agent = { app: 'cni' };
  const policies = new ReadinessPolicies(world.kube);
  const gates = [gate({ name: 'network', namespace: 'default', app: 'cni' })];
  await policies.applied(readinessPolicy('agents', ofPool(pool), gates), { pool });
  await world.sandbox.addNodes(['gated-1'], { pool });
  await world.kube.create(resources.daemonSets, {
    metadata: { name: 'cni', namespace: 'default' },
    spec: {
      selector: { matchLabels: agent },
      template: {
        metadata: { labels: agent },
        spec: {
          nodeSelector: { pool },
          tolerations: [{ operator: 'Exists' }],
          containers: [{ name: 'main', image: 'none' }],
        },
      },
    },
  } as KubeObject);
  const taintsOf = async () => (await world.node('gated-1')).spec.taints?.map(({ key }) => key) ?? [];
  await eventuallyHolds(
    'the taint to be removed',
    taintsOf,
    (keys) => !keys.includes('readiness.k8s.io/gates'),
  );
  await succeeds(maintenance('start', '-l', 'pool=gated', '--wait', '--timeout', '2m'));
  expect(await statusOf('pool-gated')).toMatchObject({
    nodes: [{ gates: { ready: 0, all: 1, notReady: [{ gate: 'network' }] } }],
  });

  // No pod becomes Ready without a kubelet.
  world.sandbox.server('kwok').pause();
  const watching = running('status', 'pool-gated', '--watch');
  const advancing = running('advance', 'pool-gated', '--to', 'Complete', '--wait', '--timeout', '3m');
  await prints(advancing, 'waiting for node gated-1: gate network: pod is not ready: default/cni-');
  const { items } = await world.kube.list(resources.pods, { fieldSelector: 'spec.nodeName=gated-1' });
  const [cni] = items.map(trimPod);
  expect(advancing.output()).toContain(`default/${cni?.metadata.name} (Pending)`);
  expect((await world.node('gated-1')).spec.unschedulable).not.toBe(true);
  expect(await taintsOf()).toContain('readiness.k8s.io/gates');
  expect(await succeeds(maintenance('status', 'pool-gated'))).toMatch(
    /gated-1 +no +0\/1 +gate network: pod is not ready: default\/cni-\S+ \(Pending\)/,
  );

  await prints(watching, 'nodemaintenance/pool-gated: node gated-1: gate network: pod is not ready: ');

  world.sandbox.server('kwok').resume();
  expect([await advancing.exited(), advancing.output()]).toEqual([
    0,
    expect.stringContaining('nodemaintenance/pool-gated is complete and its nodes are in service\n'),
  ]);
  expect(await taintsOf()).not.toContain('readiness.k8s.io/gates');
  expect([await watching.exited(), watching.output()]).toEqual([
    0,
    expect.stringContaining('nodemaintenance/pool-gated: node gated-1: in service\n'),
  ]);
});
