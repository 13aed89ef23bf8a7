import type { TestWorkflowEnvironment } from '@temporalio/testing';
import { MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import { testScope, workflowIdOf } from '../../kit/temporalNames.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { runMaintenanceController } from '../../../controllers/maintenance/maintenance.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { Informer } from '../../../kube/informer.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import {
  eventuallyProgress,
  ownTemporal,
  quietTemporal,
  signalsTo,
  terminated,
  workflowLab,
  type WorkflowLab,
} from '../../kit/workflows.ts';

/**
 * These tests have their own Temporal server, because the controller checks every run of its namespace. No worker polls the task queue of
 * the maintenances: the signals of a run are in its history.
 */
let sandbox: Sandbox;
let temporal: TestWorkflowEnvironment;
let lab: WorkflowLab;
let c: TestCluster;
let events: EventRecorder;
let running: { abort: AbortController; ended: Promise<void> } | undefined;

beforeAll(async () => {
  quietTemporal();
  sandbox = await testSandbox();
  temporal = await ownTemporal(sandbox);
  lab = await workflowLab(temporal.address);
  c = await testCluster(sandbox, { prefix: 'control' });
  events = new EventRecorder({ kube: c.cluster.kube, component: 'node-maintenance', log: silentLog });
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
  const deps = { cluster, temporal: lab.client, scope: testScope, events, log: silentLog };
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

/** Finds runs by the names of the objects too, because a run that has just started is not listed yet. */
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

async function eventuallySignalled(maintenance: NodeMaintenance, expected: object[]): Promise<void> {
  await eventually(`the signals of the run of ${maintenance.metadata.name}`, async () =>
    expect(await signalsTo(runOf(maintenance), 'observe')).toEqual(expected),
  );
}

async function runsOf({ metadata }: NodeMaintenance): Promise<number> {
  const { count } = await lab.client.workflow.count(`WorkflowId = "${workflowIdOf(metadata.name)}"`);
  return count;
}

const observed = ({ metadata: { uid } }: NodeMaintenance, stage: string, generation: number) => ({
  uid,
  kind: 'StageChanged',
  stage,
  generation,
  requestedBy: 'user sandbox-admin (field manager kubectl-edit)',
});

/** Nothing can be noted on an object about who deletes it. */
function observedDeleted(maintenance: NodeMaintenance, generation: number) {
  const { requestedBy: _requestedBy, ...rest } = observed(maintenance, 'Complete', generation);
  return rest;
}

/** An object that is checked after all others. */
async function fence(): Promise<void> {
  await eventuallyRunning(await c.applied(c.maintenance({ nodes: ['none'] })));
}

describe('a NodeMaintenance', () => {
  test('gets one run, which is signalled the state of the object and has its reason', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Cordon', reason: 'disk swap' }));
    await eventuallyRunning(applied);
    await eventuallySignalled(applied, [observed(applied, 'Cordon', 1)]);
    const described = await runOf(applied).describe();
    const { name } = applied.metadata;
    expect(await described.staticSummary()).toBe('disk swap');
    expect(await described.staticDetails()).toContain(`kubectl get nm ${name} -o yaml`);
    expect(described.memo).toEqual({
      reason: 'disk swap',
      kubectl: `kubectl maintenance status ${name}`,
      clusterUid: testScope.uid,
    });
    await fence();
    expect(await runsOf(applied)).toBe(1);
  });

  test('that exists before the controller starts gets its run', async () => {
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    controlling();
    await eventuallySignalled(applied, [observed(applied, 'Idle', 1)]);
  });

  test('signals its run for every edit, and for nothing else', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    await eventuallyRunning(applied);
    await c.withStatus(applied, { nodes: 1 });
    await c.staged(applied.metadata.name, 'Cordon');
    await eventuallySignalled(applied, [observed(applied, 'Idle', 1), observed(applied, 'Cordon', 2)]);
    await c.withStatus(applied, { nodes: 2 });
    await c.staged(applied.metadata.name, 'Drain');
    await eventuallySignalled(applied, [
      observed(applied, 'Idle', 1),
      observed(applied, 'Cordon', 2),
      observed(applied, 'Drain', 3),
    ]);
  });

  test('refreshes the details of its run when the reasons that require intervention change, and not for every pod', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Drain' }));
    const { uid } = applied.metadata;
    await eventuallyRunning(applied);
    const blocked = (name: string, reason: string) => ({
      namespace: 'shop',
      name,
      node: 'none',
      reason,
      message: `Action required: ${reason}.`,
    });
    const refreshes = () => signalsTo(runOf(applied), 'refreshDetails');
    await c.withStatus(applied, { podsBlocked: 1, blockedPods: [blocked('web', 'DisruptionBudget')] });
    await c.withStatus(applied, { podsBlocked: 1, blockedPods: [blocked('db-0', 'EvacuationDeleted')] });
    const details = {
      stage: 'Drain',
      podsBlocked: 1,
      causes: [{ requiresIntervention: true, message: 'Action required: EvacuationDeleted.' }],
    };
    await eventually('the run to be signalled', async () =>
      expect(await refreshes()).toMatchObject([{ uid, details }]),
    );
    await c.withStatus(applied, {
      podsBlocked: 2,
      blockedPods: [blocked('db-0', 'EvacuationDeleted'), blocked('db-1', 'EvacuationDeleted')],
    });
    await fence();
    expect(await refreshes()).toHaveLength(1);
  });

  test('gets another run when a user terminates its run', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Drain' }));
    const first = await eventuallyRunning(applied);
    await eventuallySignalled(applied, [observed(applied, 'Drain', 1)]);
    await runOf(applied).terminate();
    await eventuallyRunning(applied, first);
    await eventuallySignalled(applied, [observed(applied, 'Drain', 1)]);
    await events.flush();
    const fieldSelector = `involvedObject.uid=${applied.metadata.uid},reason=WorkflowRestarted`;
    const { items } = await c.admin.list(resources.events, { namespace: 'default', fieldSelector });
    expect(items.map(({ message }) => message)).toEqual([
      `Workflow ${workflowIdOf(applied.metadata.name)} was terminated before the maintenance was complete: a new run continues from the state of the object. Complete the maintenance to end it.`,
    ]);
  });

  test('that is being deleted is signalled as Complete', async () => {
    controlling();
    const maintenance = c.maintenance({ nodes: ['none'], stage: 'Cordon' });
    maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const applied = await c.applied(maintenance);
    await eventuallySignalled(applied, [observed(applied, 'Cordon', 1)]);
    await c.deleted(applied);
    await eventuallySignalled(applied, [observed(applied, 'Cordon', 1), observedDeleted(applied, 2)]);
  });

  test('that is gone is signalled to its run', async () => {
    controlling();
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    await eventuallyRunning(applied);
    await c.deleted(applied);
    const { uid } = applied.metadata;
    await eventuallySignalled(applied, [observed(applied, 'Idle', 1), { uid, kind: 'Gone' }]);
  });

  test('gets no run after Complete has finished', async () => {
    const finished = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Complete' }));
    const stageStatuses = [{ name: 'Complete', startTimestamp: '2026-01-01T00:00:00Z' }];
    await c.caughtUpWith(await c.withStatus(finished, { stageStatuses }));
    controlling();
    await fence();
    expect(await runsOf(finished)).toBe(0);
  });

  test.each([
    { when: 'has not started', started: false, held: false },
    { when: 'still holds the object', started: true, held: true },
  ])('in Complete gets its run when that stage $when', async ({ started, held }) => {
    const maintenance = c.maintenance({ nodes: ['none'], stage: 'Complete' });
    if (held) maintenance.metadata.finalizers = [MAINTENANCE_FINALIZER];
    const applied = await c.applied(maintenance);
    const stageStatuses = [{ name: 'Complete', startTimestamp: '2026-01-01T00:00:00Z' }];
    if (started) await c.caughtUpWith(await c.withStatus(applied, { stageStatuses }));
    controlling();
    await eventuallySignalled(applied, [observed(applied, 'Complete', 1)]);
  });
});

describe('a run', () => {
  test('is signalled and ends if its object was deleted while no controller was running', async () => {
    const fake = new FakeMaintenance({ stage: 'Cordon' });
    const handle = await lab.startMaintenance(fake);
    await fake.inProgress('keepCordoned Cordon');
    fake.deleted();
    controlling();
    expect(await handle.result()).toMatchObject({ name: fake.name });
    expect(fake.calls).not.toContain('uncordonNodes');
  });

  test('is not signalled before it has created its object', async () => {
    const fake = new FakeMaintenance();
    const down = Array.from({ length: 99 }, () => new Error('the apiserver is down'));
    fake.failing('admit', ...down);
    const handle = await lab.startMaintenance(fake);
    await eventually('a try to admit', () => expect(fake.calls).toContain('admit'));
    controlling();
    await fence();
    expect(await signalsTo(handle, 'observe')).toEqual([]);
  });

  test('is not signalled while the informer does not have its object yet', async () => {
    const { metadata } = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Cordon' }));
    const fake = new FakeMaintenance({ name: metadata.name, uid: metadata.uid ?? '', stage: 'Cordon' });
    const orphan = new FakeMaintenance({ stage: 'Cordon' });
    // Newest first: when the older one has been signalled, the other has been checked.
    const signalled = await lab.startMaintenance(orphan);
    const handle = await lab.startMaintenance(fake);
    await Promise.all([orphan, fake].map((one) => one.inProgress('keepCordoned Cordon')));
    orphan.deleted();
    controlling({ ...c.cluster, maintenances: unsynced() });
    await signalled.result();
    await stopped();
    expect(await signalsTo(handle, 'observe')).toEqual([]);
  });

  test('of a previous object of the same name is replaced by a run of the current one', async () => {
    const maintenance = c.maintenance({ nodes: ['none'] });
    const previous = new FakeMaintenance({ name: maintenance.metadata.name, stage: 'Idle' });
    const handle = await lab.startMaintenance(previous);
    await eventuallyProgress(handle, { nodes: previous.nodes });
    const { runId } = await handle.describe();
    const applied = await c.applied(maintenance);
    previous.deleted();
    controlling();
    await eventuallyRunning(applied, runId);
    const first = lab.client.workflow.getHandle(handle.workflowId, runId);
    expect(await first.result()).toMatchObject({ name: previous.name });
    expect(previous.calls).not.toContain('uncordonNodes');
  });

  test('is replaced when its object is replaced by another of the same name', async () => {
    const maintenance = c.maintenance({ nodes: ['none'] });
    const first = await c.applied(maintenance);
    const { name, uid = '' } = first.metadata;
    const fake = new FakeMaintenance({ name, uid });
    const handle = await lab.startMaintenance(fake);
    await eventuallyProgress(handle, { nodes: fake.nodes });
    const { runId } = await handle.describe();
    controlling();
    await fence();
    await c.deleted(first);
    fake.deleted();
    const second = await c.applied(maintenance);
    expect(second.metadata.uid).not.toBe(uid);
    await eventuallyRunning(second, runId);
  });
});
