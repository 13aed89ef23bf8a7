import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { MAINTENANCE_FINALIZER, workflowIdOf } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { runMaintenanceController } from '../../controllers/maintenance.ts';
import { Informer } from '../../kube/informer.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { FakeMaintenance } from '../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import {
  eventuallyProgress,
  ownTemporal,
  quietTemporal,
  signalsTo,
  terminated,
  workflowLab,
  type WorkflowLab,
} from '../kit/workflows.ts';

/**
 * On a Temporal of its own, because the controller looks at every run of its namespace. No worker polls the task queue of
 * the maintenances: what a run was told stands in its history.
 */
let sandbox: Sandbox;
let temporal: TestWorkflowEnvironment;
let lab: WorkflowLab;
let c: TestCluster;
let running: { abort: AbortController; ended: Promise<void> } | undefined;

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  temporal = await ownTemporal(sandbox);
  lab = await workflowLab(temporal.address);
  c = await testCluster(sandbox, { prefix: 'control' });
});

afterEach(async () => {
  await stopped();
  await lab.clear();
  await everyRunTerminated();
  await c.maintenancesDropped();
});

afterAll(async () => {
  await c?.close();
  await lab?.close();
  await temporal?.teardown();
  await releaseSandbox(sandbox);
});

function controlling(cluster = c.cluster): void {
  const abort = new AbortController();
  const deps = { cluster, temporal: lab.client, log: silentLog };
  running = { abort, ended: runMaintenanceController(deps, abort.signal) };
}

/** An informer that has not caught up with anything. */
function unsynced(): Informer<NodeMaintenance> {
  return new Informer({ kube: c.cluster.kube, resource: resources.nodeMaintenances, log: silentLog });
}

async function stopped(): Promise<void> {
  running?.abort.abort();
  await running?.ended;
  running = undefined;
}

/** By the names of the objects too, because a run that was only just started is not listed yet. */
async function everyRunTerminated(): Promise<void> {
  const { items } = await c.admin.list(resources.nodeMaintenances);
  for (const maintenance of items) await terminated(runOf(maintenance));
  await eventually('no run to be listed', async () => {
    const left: string[] = [];
    for await (const { workflowId } of lab.client.workflow.list({ query: 'ExecutionStatus = "Running"' }))
      left.push(workflowId);
    for (const workflowId of left) await terminated(lab.client.workflow.getHandle(workflowId));
    expect(left).toEqual([]);
  });
}

const runOf = ({ metadata }: NodeMaintenance) => lab.client.workflow.getHandle(workflowIdOf(metadata.name));

/** Resolves with the id of the run that a maintenance has. */
async function eventuallyRunning(maintenance: NodeMaintenance, otherThan?: string): Promise<string> {
  return eventually(`a run of ${maintenance.metadata.name}`, async () => {
    const { status, runId } = await runOf(maintenance).describe();
    expect(status.name).toBe('RUNNING');
    expect(runId).not.toBe(otherThan);
    return runId;
  });
}

async function eventuallyTold(maintenance: NodeMaintenance, expected: object[]): Promise<void> {
  await eventually(`what the run of ${maintenance.metadata.name} was told`, async () =>
    expect(await signalsTo(runOf(maintenance), 'observe')).toEqual(expected),
  );
}

async function runsOf({ metadata }: NodeMaintenance): Promise<number> {
  const { count } = await lab.client.workflow.count(`WorkflowId = "${workflowIdOf(metadata.name)}"`);
  return count;
}

const seen = ({ metadata: { uid } }: NodeMaintenance, stage: string, generation: number) => ({
  uid,
  kind: 'StageChanged',
  stage,
  generation,
  orderedBy: 'user sandbox-admin (field manager kubectl-edit)',
});

/** Nothing can be noted on an object about who deletes it. */
function seenDeleted(maintenance: NodeMaintenance, generation: number) {
  const { orderedBy: _orderedBy, ...rest } = seen(maintenance, 'Complete', generation);
  return rest;
}

/** An object that is the last one of its kind to be looked at, so that all before it have been looked at. */
async function fence(): Promise<void> {
  await eventuallyRunning(await c.applied(c.maintenance({ nodes: ['none'] })));
}

describe('A NodeMaintenance', () => {
  test('gets one run, which is told what the object says and carries its reason', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Cordon', reason: 'disk swap' }));
    await eventuallyRunning(applied);
    await eventuallyTold(applied, [seen(applied, 'Cordon', 1)]);
    const described = await runOf(applied).describe();
    const { name } = applied.metadata;
    expect(await described.staticSummary()).toBe('disk swap');
    expect(await described.staticDetails()).toContain(`kubectl get nm ${name} -o yaml`);
    expect(described.memo).toEqual({ reason: 'disk swap', kubectl: `kubectl maintenance status ${name}` });
    await fence();
    expect(await runsOf(applied)).toBe(1);
  });

  test('that was there before the controller gets its run', async () => {
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    controlling();
    await eventuallyTold(applied, [seen(applied, 'Idle', 1)]);
  });

  test('tells its run of every edit, and of nothing else', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    await eventuallyRunning(applied);
    await c.withStatus(applied, { nodes: 1 });
    await c.staged(applied.metadata.name, 'Cordon');
    await eventuallyTold(applied, [seen(applied, 'Idle', 1), seen(applied, 'Cordon', 2)]);
    await c.withStatus(applied, { nodes: 2 });
    await c.staged(applied.metadata.name, 'Drain');
    await eventuallyTold(applied, [
      seen(applied, 'Idle', 1),
      seen(applied, 'Cordon', 2),
      seen(applied, 'Drain', 3),
    ]);
  });

  test('has its run told what needs somebody, when that changes and not with every pod', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Drain' }));
    const { uid } = applied.metadata;
    await eventuallyRunning(applied);
    const blocked = (name: string, reason: string) => ({
      namespace: 'shop',
      name,
      node: 'none',
      reason,
      message: `Somebody has to see to ${reason}.`,
    });
    const told = () => signalsTo(runOf(applied), 'glance');
    await c.withStatus(applied, { podsBlocked: 1, blockedPods: [blocked('web', 'DisruptionBudget')] });
    await c.withStatus(applied, { podsBlocked: 1, blockedPods: [blocked('db-0', 'EvacuationDeleted')] });
    const glance = {
      stage: 'Drain',
      podsBlocked: 1,
      causes: [{ needsAPerson: true, message: 'Somebody has to see to EvacuationDeleted.' }],
    };
    await eventually('the run to be told', async () => expect(await told()).toMatchObject([{ uid, glance }]));
    await c.withStatus(applied, {
      podsBlocked: 2,
      blockedPods: [blocked('db-0', 'EvacuationDeleted'), blocked('db-1', 'EvacuationDeleted')],
    });
    await fence();
    expect(await told()).toHaveLength(1);
  });

  test('gets another run when somebody terminates the one that it has', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Drain' }));
    const first = await eventuallyRunning(applied);
    await runOf(applied).terminate();
    await eventuallyRunning(applied, first);
    await eventuallyTold(applied, [seen(applied, 'Drain', 1)]);
  });

  test('that is being deleted is told to be complete', async () => {
    controlling();
    const maintenance = c.maintenance({ nodes: ['none'], stage: 'Cordon' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const applied = await c.applied(maintenance);
    await eventuallyTold(applied, [seen(applied, 'Cordon', 1)]);
    await c.deleted(applied);
    await eventuallyTold(applied, [seen(applied, 'Cordon', 1), seenDeleted(applied, 2)]);
  });

  test('that is gone has its run told so', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    await eventuallyRunning(applied);
    await c.deleted(applied);
    const { uid } = applied.metadata;
    await eventuallyTold(applied, [seen(applied, 'Idle', 1), { uid, kind: 'Gone' }]);
  });

  test('in Complete is left alone once its Complete stage is done', async () => {
    const finished = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Complete' }));
    const stageStatuses = [{ name: 'Complete', startTimestamp: '2026-01-01T00:00:00Z' }];
    await c.caughtUpWith(await c.withStatus(finished, { stageStatuses }));
    controlling();
    await fence();
    expect(await runsOf(finished)).toBe(0);
  });

  test.each([
    { when: 'has not begun', begun: false, held: false },
    { when: 'still holds the object', begun: true, held: true },
  ])('in Complete gets its run when that stage $when', async ({ begun, held }) => {
    const maintenance = c.maintenance({ nodes: ['none'], stage: 'Complete' });
    if (held) maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const applied = await c.applied(maintenance);
    const stageStatuses = [{ name: 'Complete', startTimestamp: '2026-01-01T00:00:00Z' }];
    if (begun) await c.caughtUpWith(await c.withStatus(applied, { stageStatuses }));
    controlling();
    await eventuallyTold(applied, [seen(applied, 'Complete', 1)]);
  });
});

describe('A run', () => {
  test('whose object went while no controller was there is told, and ends', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.begun(fake);
    await fake.underWay('keepCordoned Cordon');
    controlling();
    expect(await handle.result()).toMatchObject({ name: fake.name });
    expect(fake.calls).not.toContain('giveBackNodes');
  });

  test('that has yet to create its object is left alone', async () => {
    const fake = new FakeMaintenance();
    const down = Array.from({ length: 99 }, () => new Error('the apiserver is down'));
    fake.failing('admit', ...down);
    const handle = await lab.begun(fake);
    await eventually('a try to admit', () => expect(fake.calls).toContain('admit'));
    controlling();
    await fence();
    expect(await signalsTo(handle, 'observe')).toEqual([]);
  });

  test('whose object the informer has not seen yet is left alone', async () => {
    const { metadata } = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Cordon' }));
    const fake = new FakeMaintenance({ name: metadata.name, uid: metadata.uid ?? '', stage: 'Cordon' });
    const orphan = new FakeMaintenance({ stage: 'Cordon' });
    // Newest first: when the older one has been told, the other was looked at.
    const told = await lab.begun(orphan);
    const handle = await lab.begun(fake);
    await Promise.all([orphan, fake].map((one) => one.underWay('keepCordoned Cordon')));
    controlling({ ...c.cluster, maintenances: unsynced() });
    await told.result();
    await stopped();
    expect(await signalsTo(handle, 'observe')).toEqual([]);
  });

  test('of a former object of the same name makes way for a run of the present one', async () => {
    const maintenance = c.maintenance({ nodes: ['none'] });
    const former = new FakeMaintenance({ name: maintenance.metadata.name, stage: 'Idle' });
    const handle = await lab.begun(former);
    await eventuallyProgress(handle, { nodes: former.nodes });
    const { runId } = await handle.describe();
    const applied = await c.applied(maintenance);
    controlling();
    await eventuallyRunning(applied, runId);
    const first = lab.client.workflow.getHandle(handle.workflowId, runId);
    expect(await first.result()).toMatchObject({ name: former.name });
    expect(former.calls).not.toContain('giveBackNodes');
  });

  test('makes way when its object is replaced by another of the same name', async () => {
    const maintenance = c.maintenance({ nodes: ['none'] });
    const first = await c.applied(maintenance);
    const { name, uid = '' } = first.metadata;
    const fake = new FakeMaintenance({ name, uid });
    const handle = await lab.begun(fake);
    await eventuallyProgress(handle, { nodes: fake.nodes });
    const { runId } = await handle.describe();
    controlling();
    await fence();
    await c.deleted(first);
    const second = await c.applied(maintenance);
    expect(second.metadata.uid).not.toBe(uid);
    await eventuallyRunning(second, runId);
  });
});
