import { Client, type WorkflowClientInterceptor } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { TestWorkflowEnvironment } from '@temporalio/testing';
import type { Condition } from '../../../api/core.ts';
import { longRunningTaskQueueOf, MAINTENANCE_FINALIZER } from '../../../api/names.ts';
import { TASK_QUEUE, testScope, workflowIdOf } from '../../kit/temporalNames.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { runMaintenanceController } from '../../../controllers/maintenance/maintenance.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { Informer } from '../../../kube/informer.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { SettableAvailability } from '../../kit/availability.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { FakeMaintenance } from '../../kit/fakeMaintenance.ts';
import { withBrokenWorkflow } from '../../kit/otherBuilds.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { DescribeCounter } from '../../kit/temporalCalls.ts';
import { addAttributes } from '../../../temporal-config/namespace.ts';
import {
  eventuallyProgress,
  ownTemporal,
  quietTemporal,
  signalsTo,
  terminated,
  workflowBundle,
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
  // Temporal waits ever longer between attempts of a workflow task that fails: up to ten minutes unless configured otherwise.
  temporal = await ownTemporal(sandbox, { 'history.workflowTaskRetryMaxInterval': '1s' });
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

/** Short, because most tests wait for one of them. */
const intervals = { verifyAfterMs: 500, closedRunsEveryMs: 500 };

interface Controlling extends Pick<Parameters<typeof runMaintenanceController>[0], 'timing' | 'lostAfterMs'> {
  cluster?: typeof c.cluster;
  availability?: SettableAvailability;
  client?: Client;
  stalledRunTimeoutSeconds?: number;
}

function controlling({
  cluster = c.cluster,
  availability = new SettableAvailability(),
  client = lab.client,
  stalledRunTimeoutSeconds = 300,
  ...checks
}: Controlling = {}): void {
  const abort = new AbortController();
  const temporalDeps = { temporal: client, availability, scope: testScope, stalledRunTimeoutSeconds };
  const deps = { cluster, ...temporalDeps, ...intervals, ...checks, events, log: silentLog };
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

/** Waits, because a run that has just started is not listed yet. */
async function eventuallyOneRun(maintenance: NodeMaintenance): Promise<void> {
  await eventually(`one run of ${maintenance.metadata.name}`, async () =>
    expect(await runsOf(maintenance)).toBe(1),
  );
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
      kubectl: `kubectl maintenance status ${name}`,
      clusterUid: testScope.uid,
    });
    await fence();
    await eventuallyOneRun(applied);
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
    await eventually('the Event', async () => {
      const { items } = await c.admin.list(resources.events, { namespace: 'default', fieldSelector });
      expect(items.map(({ message }) => message)).toEqual([
        `Workflow ${workflowIdOf(applied.metadata.name)} was terminated before the maintenance was complete: a new run continues from the state of the object. Complete the maintenance to end it.`,
      ]);
    });
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

test('a deadline that changed while nobody led is signalled to the run, which schedules its steps', async () => {
  const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Drain' }));
  const { name } = applied.metadata;
  controlling();
  await eventuallySignalled(applied, [observed(applied, 'Drain', 1)]);
  await stopped();
  const patch = { spec: { drainDeadline: { after: '2h' } } };
  const edited = await c.patched(resources.nodeMaintenances, { name }, patch);
  // The drain in progress has seen it.
  await c.caughtUpWith(await c.withStatus(edited, { observedGeneration: 2, nodes: 0 }));
  controlling();
  await eventuallySignalled(applied, [observed(applied, 'Drain', 1), observed(applied, 'Drain', 2)]);
});

describe('a status that changes', () => {
  test('costs no request to Temporal, with any leader', async () => {
    const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Cordon' }));
    const counter = new DescribeCounter(lab.client.connection);
    const checked = () => counter.count(workflowIdOf(applied.metadata.name));
    for (let leader = 1; leader <= 2; leader++) {
      const before = checked();
      controlling({ client: counter.client });
      await eventuallySignalled(applied, [observed(applied, 'Cordon', 1)]);
      await c.caughtUpWith(await c.withStatus(applied, { observedGeneration: 1, nodes: leader }));
      await eventually('the check of the signalled run', () => expect(checked()).toBeGreaterThan(before));
      const after = checked();
      for (let nodes = 3; nodes < 9; nodes++)
        await c.caughtUpWith(await c.withStatus(applied, { observedGeneration: 1, nodes: nodes * leader }));
      await fence();
      // Every run is checked once a minute.
      expect(checked()).toBeLessThanOrEqual(after + 1);
      await stopped();
    }
    expect(await signalsTo(runOf(applied), 'observe')).toHaveLength(1);
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
    controlling({ cluster: { ...c.cluster, maintenances: unsynced() } });
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
    // The run of the first object was done: nothing has ended too early.
    await events.flush();
    expect((await c.eventsAbout(second)).filter((text) => text.startsWith('WorkflowRestarted'))).toEqual([]);
  });
});

describe('during an outage of Temporal', () => {
  /** Counts the requests about workflows that are open at the same time, and those that were sent. */
  class RequestCounter {
    sent = 0;
    most = 0;
    #open = 0;

    readonly client = new Client({
      connection: lab.client.connection,
      interceptors: { workflow: [this.#interceptor()] },
    });

    #interceptor(): WorkflowClientInterceptor {
      const counted = <I, O>(input: I, next: (input: I) => Promise<O>) => this.#count(() => next(input));
      return { signal: counted, signalWithStart: counted, describe: counted };
    }

    async #count<T>(request: () => Promise<T>): Promise<T> {
      this.sent += 1;
      this.#open += 1;
      this.most = Math.max(this.most, this.#open);
      try {
        return await request();
      } finally {
        this.#open -= 1;
      }
    }
  }

  test('nothing is sent; afterwards each maintenance gets one run, a few at a time', async () => {
    const counter = new RequestCounter();
    const availability = new SettableAvailability();
    availability.down();
    controlling({ availability, client: counter.client });
    const applied = await Promise.all(
      Array.from({ length: 60 }, () => c.applied(c.maintenance({ nodes: ['none'] }))),
    );
    for (const maintenance of applied) await c.caughtUpWith(maintenance);
    expect(counter.sent).toBe(0);
    availability.up();
    for (const maintenance of applied) await eventuallyRunning(maintenance);
    for (const maintenance of applied) await eventuallyOneRun(maintenance);
    expect(counter.most).toBeLessThanOrEqual(4);
  });

  test('a deletion is remembered, and ends the run afterwards', async () => {
    const availability = new SettableAvailability();
    controlling({ availability });
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    await eventuallySignalled(applied, [observed(applied, 'Idle', 1)]);
    availability.down();
    await c.deleted(applied);
    await eventually('the informer to notice the deletion', () =>
      expect(c.cluster.maintenances.get(applied.metadata.name)).toBeUndefined(),
    );
    expect(await signalsTo(runOf(applied), 'observe')).toHaveLength(1);
    availability.up();
    const { uid } = applied.metadata;
    await eventuallySignalled(applied, [observed(applied, 'Idle', 1), { uid, kind: 'Gone' }]);
  });
});

/** How often runs are checked, so that a test need not wait for it. */
const often = { everyMs: 1_000, suspectEveryMs: 1_000, maxPerPass: 5, waitingMs: 1_000 };

async function eventuallyStalled(
  maintenance: NodeMaintenance,
  facts: Partial<Omit<Condition, 'message'>>,
): Promise<Condition> {
  return eventually(`condition Stalled of ${maintenance.metadata.name}`, async () => {
    const { status } = await c.maintenanceNow(maintenance.metadata.name);
    const condition = status?.conditions.find(({ type }) => type === 'Stalled');
    expect(condition).toMatchObject(facts);
    return condition as Condition;
  });
}

/** Waits, because the Event is recorded after the condition is written. */
async function eventuallyOneStalledEvent(maintenance: NodeMaintenance, message: string): Promise<void> {
  await eventually('the Event WorkflowStalled', async () => {
    const about = await c.eventsAbout(maintenance);
    expect(about.filter((text) => text.startsWith('WorkflowStalled: '))).toEqual([
      `WorkflowStalled: ${message}`,
    ]);
  });
}

/** The run that the controller starts for the object, with activities that do not need one. */
const fakeOf = ({ metadata: { name, uid = '' } }: NodeMaintenance) => new FakeMaintenance({ name, uid });

describe('a run that cannot continue', () => {
  /** Only the first failure of a workflow task is reported. The next attempt fails when it times out. */
  const workflowTaskTimeout = msToTs(3_000);
  let brokenBuild: string;
  let client: Client;
  beforeAll(async () => {
    brokenBuild = withBrokenWorkflow((await workflowBundle()).code, 'nodeMaintenance');
    const signalWithStart: WorkflowClientInterceptor['signalWithStart'] = (input, next) =>
      next({ ...input, options: { ...input.options, workflowTaskTimeout } });
    client = new Client({
      connection: lab.client.connection,
      interceptors: { workflow: [{ signalWithStart }] },
    });
  });

  test('is reported on its object, and is replaced by one that continues from the object', async () => {
    controlling({ client, stalledRunTimeoutSeconds: 3 });
    await lab.worker(TASK_QUEUE, {}, brokenBuild);
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    const first = await eventuallyRunning(applied);
    const workflowId = workflowIdOf(applied.metadata.name);
    const { message, lastTransitionTime } = await eventuallyStalled(applied, {
      status: 'True',
      reason: 'WorkflowTaskFailed',
    });
    // The run that replaces it would stall, too.
    await lab.clear();
    const replacedAt = new Date(Date.parse(lastTransitionTime) + 3_000).toISOString();
    expect(message).toContain('its workflow task fails again and again (a broken build). Roll back');
    expect(message).toContain(
      `--workflow-id ${workflowId} --run-id ${first}. The worker terminates it at ${replacedAt}.`,
    );
    await eventuallyOneStalledEvent(applied, message);
    await eventuallyRunning(applied, first);
    const { events: history } = await lab.client.workflow.getHandle(workflowId, first).fetchHistory();
    expect(history?.at(-1)?.workflowExecutionTerminatedEventAttributes?.reason).toBe(
      'its workflow task failed again and again, and a new run continues from the object',
    );
    await eventuallyStalled(applied, { status: 'False', reason: 'WorkflowReplaced' });
  });

  test('is not replaced if it belongs to another cluster', async () => {
    const foreign = await c.applied(c.maintenance({ nodes: ['none'] }));
    const run = await lab.client.workflow.start('nodeMaintenance', {
      workflowId: workflowIdOf(foreign.metadata.name),
      taskQueue: TASK_QUEUE,
      args: [{ name: foreign.metadata.name }],
      memo: { clusterUid: 'another' },
      workflowTaskTimeout: '3s',
    });
    controlling({ client, stalledRunTimeoutSeconds: 1 });
    await lab.worker(TASK_QUEUE, {}, brokenBuild);
    const own = await c.applied(c.maintenance({ nodes: ['none'] }));
    await eventuallyRunning(own, await eventuallyRunning(own));
    expect(await runOf(foreign).describe()).toMatchObject({
      runId: run.firstExecutionRunId,
      status: { name: 'RUNNING' },
    });
    const { status } = await c.maintenanceNow(foreign.metadata.name);
    expect(status?.conditions ?? []).toEqual([]);
  });

  test('stays if the setting says so, and the object says when it continues', async () => {
    controlling({ client, stalledRunTimeoutSeconds: 0, timing: often });
    await lab.worker(TASK_QUEUE, {}, brokenBuild);
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    const first = await eventuallyRunning(applied);
    const { message } = await eventuallyStalled(applied, { status: 'True', reason: 'WorkflowTaskFailed' });
    expect(message).toMatch(new RegExp(`--run-id ${first}$`));
    await lab.clear();
    await lab.worker(TASK_QUEUE, fakeOf(applied).activities);
    await eventuallyStalled(applied, { status: 'False', reason: 'WorkflowContinues' });
    expect((await runOf(applied).describe()).runId).toBe(first);
  });

  test('because a search attribute is missing is not replaced, and continues when it is registered', async () => {
    const { operatorService } = temporal.connection;
    const name = 'MaintenanceNodes';
    await operatorService.removeSearchAttributes({ namespace: 'default', searchAttributes: [name] });
    controlling({ client, stalledRunTimeoutSeconds: 1 });
    const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
    await lab.worker(TASK_QUEUE, fakeOf(applied).activities);
    const first = await eventuallyRunning(applied);
    const { message } = await eventuallyStalled(applied, { status: 'True', reason: 'WorkflowTaskFailed' });
    expect(message).toContain(name);
    expect(message).toContain('npm run temporal-config -- apply');
    await addAttributes(temporal.connection, 'default', { [name]: 'KeywordList' });
    await eventuallyStalled(applied, { status: 'False', reason: 'WorkflowContinues' });
    expect((await runOf(applied).describe()).runId).toBe(first);
  });
});

test('an activity whose start no worker has got is started again, long before its heartbeat times out', async () => {
  const applied = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Cordon' }));
  const { name, uid = '' } = applied.metadata;
  const fake = new FakeMaintenance({ name, uid, stage: 'Cordon' });
  controlling({ timing: often, lostAfterMs: 2_000 });
  const { keepCordoned, drain, keepDrained, uncordonNodes, ...short } = fake.activities;
  await lab.worker(TASK_QUEUE, short);
  const queue = {
    namespace: 'default',
    taskQueue: { name: longRunningTaskQueueOf(TASK_QUEUE) },
    identity: 'lost',
  };
  const { taskToken } = await lab.client.withDeadline(Date.now() + 60_000, () =>
    lab.client.workflowService.pollActivityTaskQueue(queue),
  );
  expect(taskToken?.length).toBeGreaterThan(0);
  await lab.worker(TASK_QUEUE, { keepCordoned, drain, keepDrained, uncordonNodes });
  await fake.inProgress('keepCordoned Cordon');
  const { raw } = await runOf(applied).describe();
  const failures = raw.pendingActivities?.map(({ lastFailure }) => lastFailure?.applicationFailureInfo?.type);
  expect(failures).toEqual(['StartLost']);
});

test('runs that fail at once, again and again, are reported on the object', async () => {
  controlling();
  const applied = await c.applied(c.maintenance({ nodes: ['none'] }));
  const fake = fakeOf(applied);
  const failure = ApplicationFailure.nonRetryable('the disk is full', 'InvalidInput');
  fake.failing('admit', ...Array.from({ length: 99 }, () => failure));
  await lab.worker(TASK_QUEUE, fake.activities);
  const { message } = await eventuallyStalled(applied, { status: 'True', reason: 'WorkflowFailed' });
  expect(message).toBe(
    `Workflow ${workflowIdOf(applied.metadata.name)} fails soon after each start (the disk is full). It is started again with growing pauses, up to 60 s: remove the cause, or complete the maintenance to end it.`,
  );
  await eventuallyOneStalledEvent(applied, message);
});
