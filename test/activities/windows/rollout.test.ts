import type { Activities, WindowRequests, WindowRef } from '../../../activities/contract.ts';
import type { WindowState, WindowStep } from '../../../domain/windows/windowState.ts';
import { readBudget } from '../../kit/budget.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import type { Job, Lease } from '../../../api/core.ts';
import {
  AGENT_LEASE_NAMESPACE,
  IdentityAnnotation,
  NODE_DISRUPTION_BUDGET_NAME,
  RebootAnnotation,
  WindowAnnotation,
  WINDOW_LABEL,
  WORK_NAMESPACE,
  READINESS_CONDITION,
} from '../../../api/names.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../../kit/temporalNames.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { newWindowMaintenance } from '../../../domain/windows/windowMaintenance.ts';
import { jobName, otherMaintenanceName } from '../../../domain/common/revision.ts';
import { isTrue } from '../../../domain/common/conditions.ts';
import { advanceRequested, workResultOf } from '../../../domain/windows/nodeResult.ts';
import { heartbeatMs } from '../../../domain/leases/heartbeat.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { kubeletLease } from '../../../kube/kubeletLease.ts';
import { microTime } from '../../../kube/leaseRecord.ts';
import { resources, versionOf } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, started, testRunId } from '../../kit/activity.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, eventuallyHolds, throughout } from '../../kit/eventually.ts';
import { sendHeartbeats } from '../../kit/heartbeats.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { withMembers } from '../../kit/withMembers.ts';

/** No workflow runs the NodeMaintenances: the tests write their status. */
let sandbox: Sandbox;
let c: TestCluster;
let activities: Activities;
let flushEvents: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'rollout' });
  ({ activities, flushEvents } = activitiesOn(c));
});

beforeEach(() => setBudget('100%'));

afterAll(async () => {
  for (const { metadata } of (await c.admin.list(resources.maintenanceWindows)).items)
    if (metadata.name.startsWith(c.namespace))
      await c.admin.delete(
        resources.maintenanceWindows,
        { name: metadata.name },
        { uid: metadata.uid ?? '' },
      );
  const { metadata } = await readBudget(c);
  await c.admin.delete(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    { uid: metadata.uid ?? '' },
  );
  await c.close();
  await releaseSandbox(sandbox);
});

async function setBudget(maxUnavailable: number | string): Promise<void> {
  await readBudget(c);
  await c.admin.mergePatch(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    { spec: { maxUnavailable } },
  );
}

const named = (node: string) => ({ key: 'metadata.name', operator: 'In' as const, values: [node] });

interface Opened extends WindowRef {
  nodes: string[];
}

/** Creates a window with nodes that no other window selects. Without work, its nodes wait for a user. */
async function windowOf(count: number, differs: object = {}): Promise<Opened> {
  const nodes: string[] = [];
  for (let index = 0; index < count; index++) nodes.push(await c.nodeNamed('node'));
  return windowOver(nodes, differs);
}

async function windowOver(nodes: string[], differs: object): Promise<Opened> {
  const name = c.named('window');
  const { metadata } = await c.admin.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: {
      schedule: { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' },
      nodeSelector: { nodeSelectorTerms: nodes.map((node) => ({ matchFields: [named(node)] })) },
      ...differs,
    } as MaintenanceWindow['spec'],
  });
  return { name, uid: metadata.uid ?? '', nodes };
}

const requests = (differs: Partial<WindowRequests> = {}): WindowRequests => ({
  end: '2099-01-01T00:00:00.000Z',
  ended: false,
  cancelled: false,
  paused: false,
  approved: false,
  approvedNodes: [],
  ...differs,
});

/** Records on the window what its workflow was asked, as `openWindow` and `authorizeRequest` do. */
async function recorded({ name }: WindowRef, given: Partial<WindowRequests> = {}): Promise<void> {
  const { end, ended, approved, approvedNodes, paused, cancelled } = requests(given);
  const active = {
    workflowId: windowWorkflowIdOf(name),
    runId: testRunId,
    start: '2026-01-01T00:00:00.000Z',
    end: ended ? '2026-01-01T01:00:00.000Z' : end,
    requests: { approved, approvedNodes, paused, cancelled },
  };
  const options = { subresource: 'status' };
  const { metadata } = await c.admin.mergePatch(
    resources.maintenanceWindows,
    { name },
    { status: { active } },
    options,
  );
  await eventually('the window in the informer', () => {
    const cached = c.cluster.windows.get(name);
    expect(versionOf(cached ?? { metadata: { name } })).toBeGreaterThanOrEqual(versionOf({ metadata }));
  });
}

/** Runs the activity repeatedly, as the workflow does, until it returns the expected step. */
async function rolledOut(
  { name, uid }: WindowRef,
  given: Partial<WindowRequests>,
  holds: (step: WindowStep) => boolean,
): Promise<WindowStep> {
  let previous: WindowState | undefined;
  await recorded({ name, uid }, given);
  for (;;) {
    const step = await performed(() => activities.rollOut({ name, uid }, requests(given), previous));
    if (holds(step)) return step;
    previous = 'state' in step ? step.state : undefined;
  }
}

const stateIn = (step: WindowStep): WindowState => {
  if (!('state' in step)) throw new Error(`${step.kind} has no state`);
  return step.state;
};
const inProgress =
  (...nodes: string[]) =>
  (step: WindowStep) =>
    stateIn(step)
      .inProgress.map(({ node }) => node)
      .join() === nodes.join();
const waitsFor = (reason: string) => (step: WindowStep) => stateIn(step).waiting?.reason === reason;

const reserved = async ({ name }: WindowRef) =>
  ((await readBudget(c)).status?.reservations ?? [])
    .filter(({ window }) => window === name)
    .map(({ node }) => node);

async function maintenancesOf({ name }: WindowRef): Promise<NodeMaintenance[]> {
  return (await c.admin.list(resources.nodeMaintenances, { labelSelector: `${WINDOW_LABEL}=${name}` })).items;
}

async function onlyMaintenanceOf(window: WindowRef): Promise<NodeMaintenance> {
  const [maintenance, ...others] = await maintenancesOf(window);
  expect(others).toEqual([]);
  return maintenance as NodeMaintenance;
}

/** A NodeMaintenance that the window has not created itself. */
async function manualMaintenance({ name, nodes: [node = ''] }: Opened): Promise<NodeMaintenance> {
  const window = (await c.admin.get(resources.maintenanceWindows, { name })) as MaintenanceWindow;
  return newWindowMaintenance(window, { name: node, uid: (await c.node(node)).metadata.uid ?? '' });
}

const is = (type: string, status: 'True' | 'False' = 'True') => ({
  type,
  status,
  reason: type,
  message: '',
  lastTransitionTime: new Date().toISOString(),
});

/** Writes the status that its workflow would write. */
async function written(maintenance: NodeMaintenance, status: object): Promise<void> {
  const key = { name: maintenance.metadata.name };
  const body = { status: { ...emptyStatus, ...status } };
  await c.caughtUpWith({
    ...(await c.admin.mergePatch(resources.nodeMaintenances, key, body, { subresource: 'status' })),
    kind: 'NodeMaintenance',
  });
}

/** Completes it as a user and its workflow would. */
async function completed(
  maintenance: NodeMaintenance,
  conditions: object[] = [is('Drained')],
): Promise<void> {
  const key = { name: maintenance.metadata.name };
  await c.admin.mergePatch(resources.nodeMaintenances, key, { spec: { stage: 'Complete' } });
  const stageStatuses = [{ name: 'Complete', startTimestamp: new Date().toISOString() }];
  await written(maintenance, { conditions, stageStatuses });
}

describe('a window', () => {
  test('that waits for the budget continues when the budget allows it, without a signal', async () => {
    await setBudget(0);
    const window = await windowOf(1);
    const waiting = await rolledOut(window, {}, waitsFor('NodeDisruptionBudget'));
    const { ended } = started(() => activities.rollOut(window, requests(), stateIn(waiting)));
    await setBudget('100%');
    expect(inProgress(...window.nodes)(await ended)).toBe(true);
    expect(await reserved(window)).toEqual(window.nodes);
  });

  test('starts at the same time as others only what the budget of its pool allows, and names this budget and the node', async () => {
    const name = c.named('pool');
    const windows = await Promise.all(Array.from({ length: 4 }, () => windowOf(1)));
    const nodes = windows.flatMap((window) => window.nodes);
    const nodeSelector = { nodeSelectorTerms: nodes.map((node) => ({ matchFields: [named(node)] })) };
    const budget = { metadata: { name }, spec: { maxUnavailable: '25%', nodeSelector } };
    const { metadata } = await c.admin.create(resources.nodeDisruptionBudgets, budget);
    const isSettled = (window: Opened) => (step: WindowStep) =>
      inProgress(...window.nodes)(step) || waitsFor('NodeDisruptionBudget')(step);
    const steps = await Promise.all(windows.map((window) => rolledOut(window, {}, isSettled(window))));
    const winner = windows[steps.findIndex((step) => stateIn(step).inProgress.length > 0)];
    expect((await Promise.all(windows.map(reserved))).flat()).toEqual(winner?.nodes);
    const waiting = steps.flatMap((step) => stateIn(step).waiting?.message ?? []);
    expect(waiting.filter((message) => message.startsWith(`NodeDisruptionBudget ${name} `))).toEqual(
      Array.from(
        { length: 3 },
        () =>
          `NodeDisruptionBudget ${name} allows 1 of 4 nodes to be out of service, and 1 node is out of service: ${winner?.nodes} (in maintenance by window ${winner?.name}).`,
      ),
    );
    const [next = windows[0] as Opened] = windows.filter((window) => window !== winner);
    await c.admin.delete(resources.nodeDisruptionBudgets, { name }, { uid: metadata.uid ?? '' });
    await rolledOut(next, {}, inProgress(...next.nodes));
  });

  test('maintains a node although other objects have the names of its NodeMaintenance', async () => {
    const window = await windowOf(1);
    const { metadata, spec } = await manualMaintenance(window);
    const { name } = metadata;
    const take = (other: string) =>
      c.applied({
        ...c.maintenance({ name: other, nodes: window.nodes }),
        spec: { ...spec, stage: 'Idle' },
      });
    const taken = await take(name);
    const second = otherMaintenanceName(name, taken.metadata.uid ?? '');
    await take(second);
    await rolledOut(window, {}, inProgress(...window.nodes));
    const created = (await onlyMaintenanceOf(window)).metadata.name;
    expect(created).toMatch(new RegExp(`^${name}-[0-9a-z]{10}$`));
    expect(created).not.toBe(second);
    for (const other of [name, second]) expect((await c.maintenanceNow(other)).spec.stage).toBe('Idle');
  });

  test('releases the reservation of a node whose NodeMaintenance, with labels and annotations of the template, a user completes, and starts the next node', async () => {
    const metadata = { labels: { team: 'sre' }, annotations: { ticket: 'OPS-4711' } };
    const window = await windowOf(2, { template: { metadata } });
    const [first = '', second = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(first));
    expect((await onlyMaintenanceOf(window)).metadata).toMatchObject({
      labels: { ...metadata.labels, [WINDOW_LABEL]: window.name },
      annotations: { ...metadata.annotations, [WindowAnnotation.Node]: first },
    });
    await completed(await onlyMaintenanceOf(window));
    const step = await rolledOut(window, {}, inProgress(second));
    expect(stateIn(step)).toMatchObject({ done: 1, remaining: 0 });
    expect(await reserved(window)).toEqual([second]);
  });

  test('that soaks starts no node before the last node has succeeded, even if that node is in service already', async () => {
    const window = await windowOf(2, { rollout: { soakSeconds: 3_600 } });
    const [first = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(first));
    await completed(await onlyMaintenanceOf(window));
    const step = await rolledOut(window, {}, waitsFor('Soaking'));
    expect(stateIn(step)).toMatchObject({ done: 1, remaining: 1 });
    await onlyMaintenanceOf(window);
  });

  test('that soaks starts the next node when the time is over, without a change', async () => {
    const window = await windowOf(2, { rollout: { soakSeconds: 3 } });
    const [first = '', second = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(first));
    await completed(await onlyMaintenanceOf(window));
    const soaking = await rolledOut(window, {}, waitsFor('Soaking'));
    const { activities: unprompted } = activitiesOn(c, { resyncMs: 3_600_000 });
    const step = await performed(() => unprompted.rollOut(window, requests(), stateIn(soaking)));
    expect(inProgress(second)(step)).toBe(true);
  });

  test('starts a node again whose NodeMaintenance is deleted, but not while the window is paused', async () => {
    const window = await windowOf(1);
    await rolledOut(window, {}, inProgress(...window.nodes));
    const maintenance = await onlyMaintenanceOf(window);
    await c.deleted(maintenance);
    await rolledOut(window, { paused: true }, waitsFor('Paused'));
    expect(await maintenancesOf(window)).toEqual([]);
    expect(await reserved(window)).toEqual([]);
    await rolledOut(window, {}, inProgress(...window.nodes));
    expect((await onlyMaintenanceOf(window)).metadata.uid).not.toBe(maintenance.metadata.uid);
  });

  test('starts no node while an annotation pauses it, which its workflow learns', async () => {
    const window = await windowOf(1);
    const pausedBy = (reason: string | null) =>
      c.patched(
        resources.maintenanceWindows,
        { name: window.name },
        { metadata: { annotations: { 'nodemaintenance.k8s.io/paused': reason } } },
      );
    await pausedBy('disk');
    const step = await rolledOut(window, {}, waitsFor('Paused'));
    expect(stateIn(step)).toMatchObject({ requests: { paused: true } });
    expect(await maintenancesOf(window)).toEqual([]);
    await pausedBy(null);
    await rolledOut(window, {}, inProgress(...window.nodes));
  });

  test('starts no node if it was paused after the informer has observed it', async () => {
    const window = await windowOf(1);
    await recorded(window, {});
    const stale = await eventually('the informer to have the open window', () => {
      const found = c.cluster.windows.get(window.name);
      expect(found?.status?.active?.workflowId).toBeDefined();
      return found;
    });
    await c.patched(
      resources.maintenanceWindows,
      { name: window.name },
      { metadata: { annotations: { 'nodemaintenance.k8s.io/paused': 'disk' } } },
    );
    const windows = withMembers(c.cluster.windows, { get: () => stale });
    const { activities: behind } = activitiesOn({ cluster: { ...c.cluster, windows } });
    expect(await performed(() => behind.rollOut(window, requests(), undefined))).toMatchObject({
      state: { inProgress: [], remaining: 1 },
    });
    expect(await maintenancesOf(window)).toEqual([]);
    expect(await reserved(window)).toEqual([]);
    await rolledOut(window, {}, waitsFor('Paused'));
  });

  test('whose NodeMaintenances the apiserver rejects reports it, reserves no node, and continues', async () => {
    const drainPlan = Array.from({ length: 260 }, (_, podPriority) => ({ podType: 'Default', podPriority }));
    const window = await windowOf(2, { template: { drainPlan } });
    const step = await rolledOut(window, {}, waitsFor('MaintenanceRejected'));
    expect(stateIn(step)).toMatchObject({ inProgress: [], remaining: 2 });
    expect(await reserved(window)).toEqual([]);
    await flushEvents();
    const found = await c.admin.get(resources.maintenanceWindows, { name: window.name });
    expect(found?.status?.progress).toMatchObject({ remaining: 2, inProgress: 0 });
    const about = { kind: 'MaintenanceWindow', metadata: { name: window.name, uid: window.uid } };
    expect((await c.eventsAbout(about)).join('\n')).toContain(
      'MaintenanceRejected: The apiserver rejected the maintenance of node',
    );
  });

  test('reports a name conflict with a NodeMaintenance whose label was removed', async () => {
    const window = await windowOf(1);
    await rolledOut(window, {}, inProgress(...window.nodes));
    const maintenance = await onlyMaintenanceOf(window);
    await completed(maintenance);
    const labels = { [WINDOW_LABEL]: null };
    await c.patched(
      resources.nodeMaintenances,
      { name: maintenance.metadata.name },
      { metadata: { labels } },
    );
    const step = await rolledOut(window, {}, waitsFor('MaintenanceRejected'));
    expect(stateIn(step)).toMatchObject({ inProgress: [], remaining: 1 });
    expect(await reserved(window)).toEqual([]);
  });

  test('with HoldCurrent can close when its drains are paused, and the next opening resumes only those', async () => {
    const window = await windowOf(2, { onWindowEnd: 'HoldCurrent', rollout: { maxUnavailable: 2 } });
    const [first = '', second = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(first, second));
    const maintenances = await maintenancesOf(window);
    const own = maintenances.find(({ metadata }) => metadata.name.endsWith(first)) as NodeMaintenance;
    const byUser = maintenances.find(({ metadata }) => metadata.name.endsWith(second)) as NodeMaintenance;
    await written(byUser, { conditions: [is('Paused')] });
    const workflowId = workflowIdOf(own.metadata.name);
    const signal = await rolledOut(window, { ended: true }, ({ kind }) => kind === 'Signal');
    expect(signal).toMatchObject({ pause: [workflowId], resume: [] });
    const given = requests({ ended: true, sentSignals: [{ workflowId, signal: 'pause' }] });
    const { ended } = started(() => activities.rollOut(window, given, stateIn(signal)));
    await written(own, { conditions: [is('Paused')] });
    expect(await ended).toMatchObject({ kind: 'Over' });
    const next = await rolledOut(window, {}, ({ kind }) => kind === 'Signal');
    expect(next).toMatchObject({ pause: [], resume: [workflowId] });
    await written(own, { conditions: [] });
    await recorded(window, { ended: true });
    const atItsEnd = await performed(() =>
      activities.rollOut(
        window,
        requests({ ended: true, sentSignals: [{ workflowId, signal: 'resume' }] }),
        undefined,
      ),
    );
    expect(atItsEnd).toMatchObject({ kind: 'Signal', pause: [workflowId], resume: [] });
  });

  const schedulingGates = [{ name: 'example.com/not-yet' }];
  const template = { spec: { schedulingGates, containers: [{ name: 'patch', image: 'none' }] } };
  const work = { type: 'Job', job: { template } };

  async function jobsOf({ name }: WindowRef): Promise<Job[]> {
    const { items } = await c.admin.list(resources.jobs, { namespace: WORK_NAMESPACE });
    return items.filter(({ metadata }) => metadata.labels?.[WINDOW_LABEL] === name);
  }

  test('cancels a NodeMaintenance that claims to belong to a node that it does not select', async () => {
    const window = await windowOf(1, { work });
    const maintenance = await manualMaintenance(window);
    const { nodeSelector } = c.maintenance({ nodes: [await c.nodeNamed('node')] }).spec;
    const forged = await c.applied({ ...maintenance, spec: { ...maintenance.spec, nodeSelector } });
    await written(forged, { conditions: [is('Drained')] });
    await eventually('the cancellation', async () => {
      await rolledOut(window, { paused: true }, () => true);
      const { status } = await c.maintenanceNow(forged.metadata.name);
      expect(status?.conditions).toContainEqual(expect.objectContaining({ reason: 'Cancelled' }));
    });
    expect(await jobsOf(window)).toEqual([]);
  });

  test('deletes the running Job of a node that a user completes, and reports a failure', async () => {
    const window = await windowOf(1, { work });
    await rolledOut(window, {}, inProgress(...window.nodes));
    const maintenance = await onlyMaintenanceOf(window);
    await written(maintenance, { conditions: [is('Drained')] });
    const rolling = started(() => activities.rollOut(window, requests(), undefined));
    await rolling.ended;
    await eventually('the Job', async () => expect(await jobsOf(window)).toHaveLength(1));
    await completed(maintenance);
    await eventuallyHolds(
      'the Job to be deleted',
      async () => {
        await rolledOut(window, {}, () => true);
        return jobsOf(window);
      },
      (found) => found.every(({ metadata }) => metadata.deletionTimestamp !== undefined),
    );
    const ended = await reconciledUntil(
      window,
      maintenance,
      (current) => nodeResultOf(current) !== undefined,
    );
    expect(nodeResultOf(ended)).toMatchObject({ status: 'False', reason: 'CompletedEarly' });
  });

  test('keeps a node cordoned whose Job the apiserver rejects, and reports why', async () => {
    const misnamed = { spec: { containers: [{ name: 'Patch It', image: 'none' }] } };
    const window = await windowOf(1, { work: { type: 'Job', job: { template: misnamed } } });
    await rolledOut(window, {}, inProgress(...window.nodes));
    const maintenance = await onlyMaintenanceOf(window);
    await written(maintenance, { conditions: [is('Drained')] });
    const rejected = await reconciledUntil(
      window,
      maintenance,
      (current) => nodeResultOf(current) !== undefined,
    );
    expect(rejected.spec.stage).toBe('Drain');
    expect(nodeResultOf(rejected)).toMatchObject({
      status: 'False',
      reason: 'JobRejected',
      message: expect.stringContaining('spec.template.spec.containers[0].name'),
    });
  });

  test('reports a Job of another owner that has the name of its own', async () => {
    const containers = [{ name: 'patch', image: 'none' }];
    const window = await windowOf(1, { work: { type: 'Job', job: { template: { spec: { containers } } } } });
    await rolledOut(window, {}, inProgress(...window.nodes));
    const maintenance = await onlyMaintenanceOf(window);
    const key = { namespace: WORK_NAMESPACE, name: jobName(maintenance.metadata.name) };
    const spec = { suspend: true, template: { spec: { containers, restartPolicy: 'Never' } } };
    const job = await c.admin.create(resources.jobs, { metadata: key, spec } as Job);
    await written(maintenance, { conditions: [is('Drained')] });
    const about = { kind: 'MaintenanceWindow', metadata: { name: window.name, uid: window.uid } };
    const events = async () => {
      await performed(() => activities.rollOut(window, requests({}), undefined));
      await flushEvents();
      return (await c.eventsAbout(about)).join('\n');
    };
    const remedy = `kubectl delete job -n ${key.namespace} ${key.name}`;
    await eventuallyHolds('the Event', events, (all) => all.includes(remedy));
    expect(nodeResultOf(await onlyMaintenanceOf(window))).toBeUndefined();
    await c.admin.delete(resources.jobs, key, {
      uid: job.metadata.uid ?? '',
      propagationPolicy: 'Background',
    });
  });

  test('starts no more nodes after maxFailures failures, until a failure is resolved', async () => {
    const window = await windowOf(2, { rollout: { maxUnavailable: 2, maxFailures: 1 } });
    const [first = '', second = ''] = window.nodes;
    await c.cordoned(second);
    await rolledOut(window, {}, inProgress(first));
    await written(await onlyMaintenanceOf(window), { conditions: [is('Succeeded', 'False')] });
    await c.patched(resources.nodes, { name: second }, { spec: { unschedulable: false } });
    const stopped = await rolledOut(window, {}, waitsFor('TooManyFailures'));
    expect(stateIn(stopped)).toMatchObject({ failed: [{ node: first }], inProgress: [], remaining: 1 });
    await performed(() => activities.advanceNode(window, first));
    await rolledOut(window, {}, inProgress(first, second));
  });

  test('with CancelCurrent deletes a running Job at its end, then uncordons the node, and deletes its NodeMaintenance', async () => {
    const { window, maintenance } = await working({ onWindowEnd: 'CancelCurrent' });
    const afterEnd = { ended: true };
    const given = await reconciledUntil(
      window,
      maintenance,
      ({ spec }) => spec.stage === 'Complete',
      afterEnd,
    );
    expect(nodeResultOf(given)).toMatchObject({ status: 'False', reason: 'Cancelled' });
    expect(await jobsOf(window)).toEqual([]);
    await completed(maintenance, given.status?.conditions ?? []);
    const step = await rolledOut(window, afterEnd, ({ kind }) => kind === 'Over');
    expect(stateIn(step)).toMatchObject({ done: 0, failed: [], inProgress: [], remaining: 1 });
    expect(await maintenancesOf(window)).toEqual([]);
  });

  test('with CancelCurrent does not cancel a node that a user advances at that moment', async () => {
    const window = await windowOf(1, { onWindowEnd: 'CancelCurrent' });
    const [node = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(node));
    const maintenance = await onlyMaintenanceOf(window);
    await written(maintenance, { conditions: [is('Drained')] });
    const advanced = { ...advanceRequested, lastTransitionTime: new Date().toISOString() };
    let advancing: Promise<unknown> | undefined;
    let hasAdvanced = false;
    const { kube } = c.cluster;
    const get: typeof kube.get = async (resource, key, ...options) => {
      if (key.name === maintenance.metadata.name) {
        advancing ??= written(maintenance, { conditions: [is('Drained'), advanced] });
        await advancing;
        hasAdvanced = true;
      }
      return kube.get(resource, key, ...options);
    };
    const ofWorker = activitiesOn({ cluster: { ...c.cluster, kube: withMembers(kube, { get }) } }).activities;
    await recorded(window, { ended: true });
    const rollout = started(() => ofWorker.rollOut(window, requests({ ended: true }), undefined));
    await eventually('the node to be advanced', () => expect(hasAdvanced).toBe(true));
    await throughout('the result stays', 500, async () =>
      expect(nodeResultOf(await onlyMaintenanceOf(window))).toMatchObject({ reason: 'Advanced' }),
    );
    await rollout.cancelled();
  });

  test('waits for a node that is not ready, counting from its first observation', async () => {
    const node = await c.unreadyNodeNamed('node');
    const window = await windowOver([node], { work, rollout: { readyTimeoutSeconds: 1 } });
    const maintenance = await c.applied(await manualMaintenance(window));
    const lastTransitionTime = new Date(Date.now() - 7 * 24 * 3_600_000).toISOString();
    await written(maintenance, {
      conditions: [is('Drained'), { ...is('WorkSucceeded'), lastTransitionTime }],
    });
    await recorded(window);
    const first = await performed(() => activities.rollOut(window, requests(), undefined));
    expect(stateIn(first)).toMatchObject({ failed: [], inProgress: [{ node }] });
    const next = await performed(() => activities.rollOut(window, requests(), stateIn(first)));
    expect(stateIn(next)).toMatchObject({ failed: [{ node }], inProgress: [] });
    expect(nodeResultOf(await c.maintenanceNow(maintenance.metadata.name))).toMatchObject({
      reason: 'NodeNotReady',
    });
  });

  test('does not wait for the condition of readiness gates that are disabled, which nobody updates', async () => {
    const window = await windowOf(1);
    const [node = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(node));
    await completed(await onlyMaintenanceOf(window));
    const lastTransitionTime = new Date().toISOString();
    const since = { reason: 'Test', message: 'agent is not ready', lastTransitionTime };
    const conditions = [
      { type: 'Ready', status: 'True', ...since },
      { type: READINESS_CONDITION, status: 'False', ...since },
    ];
    const options = { subresource: 'status' };
    await c.admin.mergePatch(resources.nodes, { name: node }, { status: { conditions } }, options);
    await eventually('the informer to have the condition', () =>
      expect(c.cluster.nodes.get(node)?.status?.conditions).toContainEqual(
        expect.objectContaining({ type: READINESS_CONDITION, status: 'False' }),
      ),
    );
    const { activities: disabled } = activitiesOn(c, { readinessGatesEnabled: false });
    const observed = async ({ rollOut }: typeof activities) =>
      stateIn(await performed(() => rollOut(window, requests(), undefined)));
    expect(await observed(activities)).toMatchObject({ done: 0, inProgress: [{ node }] });
    await eventually('the node to be done', async () =>
      expect(await observed(disabled)).toMatchObject({ done: 1, inProgress: [] }),
    );
  });

  /** A window whose Job is running on its only node. */
  async function working(
    differs: object = {},
  ): Promise<{ window: Opened; maintenance: NodeMaintenance; job: Job }> {
    const window = await windowOf(1, { work, ...differs });
    await rolledOut(window, {}, inProgress(...window.nodes));
    const maintenance = await onlyMaintenanceOf(window);
    await written(maintenance, { conditions: [is('Drained')] });
    const noted = ({ status }: NodeMaintenance) =>
      status?.conditions.some(({ type }) => type === 'WorkSucceeded') ?? false;
    await reconciledUntil(window, maintenance, noted);
    const [job] = await jobsOf(window);
    return { window, maintenance, job: job as Job };
  }

  async function reconciledUntil(
    window: Opened,
    { metadata: { name } }: NodeMaintenance,
    holds: (maintenance: NodeMaintenance) => boolean,
    given: Partial<WindowRequests> = {},
  ): Promise<NodeMaintenance> {
    const pass = async () => {
      await recorded(window, given);
      await performed(() => activities.rollOut(window, requests(given), undefined));
      return c.maintenanceNow(name);
    };
    const stop = sendHeartbeats(c.admin, () => window.nodes);
    return eventuallyHolds('the expected state', pass, holds).finally(stop);
  }

  async function succeeded({ metadata: { name } }: Job): Promise<void> {
    const key = { namespace: WORK_NAMESPACE, name };
    // The Job controller sets the time of the start, which then is immutable.
    await eventuallyHolds(
      'the Job to have started',
      () => c.admin.get(resources.jobs, key),
      (job) => job?.status?.startTime !== undefined,
    );
    const conditions = [is('SuccessCriteriaMet'), is('Complete')];
    const status = { completionTime: new Date().toISOString(), succeeded: 1, active: null, conditions };
    await c.admin.mergePatch(resources.jobs, key, { status }, { subresource: 'status' });
  }

  async function removed({ metadata: { name, uid = '' } }: Job): Promise<void> {
    const key = { namespace: WORK_NAMESPACE, name };
    await c.admin.delete(resources.jobs, key, { uid, propagationPolicy: 'Background' });
    await eventuallyHolds(
      'the Job to be gone',
      async () => [await c.admin.get(resources.jobs, key), c.cluster.jobs.get(`${WORK_NAMESPACE}/${name}`)],
      (found) => found.every((one) => one === undefined),
    );
  }

  const nodeResultOf = ({ status }: NodeMaintenance) =>
    status?.conditions.find(({ type }) => type === 'Succeeded');

  test('does not create a running Job again that a user deletes, and reports it', async () => {
    const { window, maintenance, job } = await working();
    await removed(job);
    const failed = await reconciledUntil(
      window,
      maintenance,
      (current) => nodeResultOf(current) !== undefined,
    );
    expect(nodeResultOf(failed)).toMatchObject({ status: 'False', reason: 'JobDeleted' });
    expect(failed.spec.stage).toBe('Drain');
    expect(await jobsOf(window)).toEqual([]);
  });

  test('uncordons a node whose Job is deleted after it succeeded', async () => {
    const { window, maintenance, job } = await working();
    await succeeded(job);
    const isRecorded = (current: NodeMaintenance) => isTrue(current.status?.conditions, 'WorkSucceeded');
    await reconciledUntil(window, maintenance, isRecorded);
    await removed(job);
    await reconciledUntil(window, maintenance, ({ spec }) => spec.stage === 'Complete');
    expect(await jobsOf(window)).toEqual([]);
  });

  test('uncordons an advanced node after the next kubelet heartbeat', async () => {
    const window = await windowOf(1);
    const [node = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(node));
    const maintenance = await onlyMaintenanceOf(window);
    await written(maintenance, { conditions: [is('Drained')] });
    await performed(() => activities.advanceNode(window, node));
    const advanced = await c.maintenanceNow(maintenance.metadata.name);
    expect(advanced.spec.stage).toBe('Drain');
    expect(nodeResultOf(advanced)).toMatchObject({ status: 'Unknown', reason: 'Advanced' });
    await reconciledUntil(window, maintenance, ({ spec }) => spec.stage === 'Complete');
    const since = Date.parse(nodeResultOf(advanced)?.lastTransitionTime ?? '');
    expect(heartbeatMs(await kubeletLease(c.admin, node))).toBeGreaterThan(since);
    await completed(maintenance, [nodeResultOf(advanced) ?? {}]);
    await reconciledUntil(window, maintenance, (current) => isTrue(current.status?.conditions, 'Succeeded'));
    await expect(performed(() => activities.advanceNode(window, node))).rejects.toMatchObject({
      type: 'InvalidInput',
      message: `node: MaintenanceWindow "${window.name}" does not maintain node "${node}" now`,
    });
  });

  test('uncordons an advanced node at once if it had failed', async () => {
    const window = await windowOf(1);
    const [node = ''] = window.nodes;
    await rolledOut(window, {}, inProgress(node));
    const maintenance = await onlyMaintenanceOf(window);
    await written(maintenance, { conditions: [is('Succeeded', 'False')] });
    await performed(() => activities.advanceNode(window, node));
    await reconciledUntil(window, maintenance, ({ spec }) => spec.stage === 'Complete');
  });

  test('without permission to read kubelet Leases keeps the node and reports it, and continues with the permission', async () => {
    const { window, maintenance, job } = await working();
    await c.workerMayReadKubeletLeases(false);
    try {
      await succeeded(job);
      const step = await eventuallyHolds(
        'the rejection to be reported',
        () => performed(() => activities.rollOut(window, requests(), undefined)),
        waitsFor('MaintenanceRejected'),
      );
      expect(stateIn(step).waiting?.message).toMatch(/cannot get resource "leases"/);
    } finally {
      await c.workerMayReadKubeletLeases();
    }
    await reconciledUntil(window, maintenance, ({ spec }) => spec.stage === 'Complete');
  });

  const { Required, Requested, Started } = RebootAnnotation;

  const annotated = (name: string, annotations: Record<string, string | null>) =>
    c.patched(resources.nodes, { name }, { metadata: { annotations } });

  /** The maintenance controller, which does not run here, has reported on the Node that all its maintenances have drained it. */
  async function booted(name: string, bootID: string): Promise<void> {
    const { status } = await c.node(name);
    const others = (status?.conditions ?? []).filter(({ type }) => type !== 'Drained');
    const body = { status: { nodeInfo: { bootID }, conditions: [...others, is('Drained')] } };
    await c.caughtUpWith({
      ...(await c.admin.mergePatch(resources.nodes, { name }, body, { subresource: 'status' })),
      kind: 'Node',
    });
  }

  /** The agent of the node has renewed its Lease this many seconds ago. */
  async function agentOn(name: string, secondsAgo = 0, capabilities = 'reboot'): Promise<void> {
    const renewTime = microTime(new Date(c.admin.now().getTime() - secondsAgo * 1_000));
    const spec = { holderIdentity: name, leaseDurationSeconds: 120, renewTime };
    const annotations = { [IdentityAnnotation.Capabilities]: capabilities };
    const lease: Lease = { metadata: { namespace: AGENT_LEASE_NAMESPACE, name, annotations }, spec };
    await c.admin.apply(resources.leases, lease, { fieldManager: 'test', force: true });
  }

  const rebootWork = { type: 'Reboot', reboot: { policy: 'IfRequired' } };

  test('that reboots nodes records the request, writes it once, and removes what the reboot has fulfilled', async () => {
    const window = await windowOf(2, { work: rebootWork });
    const [node = ''] = window.nodes;
    for (const name of window.nodes) await booted(name, 'boot-1');
    await annotated(node, { [Required]: 'new BIOS', [Started]: 'boot-0' });
    await agentOn(node);
    await rolledOut(window, {}, inProgress(node));
    const maintenance = await onlyMaintenanceOf(window);
    expect(maintenance.metadata.annotations).toMatchObject({ [WindowAnnotation.BootId]: 'boot-1' });
    await written(maintenance, { conditions: [is('Drained')] });
    await eventually('the request', async () => {
      await recorded(window);
      await performed(() => activities.rollOut(window, requests(), undefined));
      expect((await c.node(node)).metadata.annotations).toMatchObject({ [Requested]: 'boot-1' });
    });
    expect(workResultOf(await c.maintenanceNow(maintenance.metadata.name))).toMatchObject({
      status: 'Unknown',
      reason: 'RebootRequested',
    });
    const before = await c.node(node);
    expect(before.metadata.annotations).not.toHaveProperty([Started]);
    await performed(() => activities.rollOut(window, requests(), undefined));
    expect((await c.node(node)).metadata.annotations).toEqual(before.metadata.annotations);
    await booted(node, 'boot-2');
    const finished = await reconciledUntil(window, maintenance, ({ spec }) => spec.stage === 'Complete');
    expect(workResultOf(finished)).toMatchObject({ status: 'True', reason: 'Rebooted' });
    const { annotations = {} } = (await c.node(node)).metadata;
    expect([Required, Requested, Started].filter((key) => annotations[key] !== undefined)).toEqual([]);
    await completed(maintenance, finished.status?.conditions ?? []);
    await reconciledUntil(window, maintenance, (current) => isTrue(current.status?.conditions, 'Succeeded'));
    await rolledOut(window, {}, (step) => stateIn(step).done === 1);
    const { status } = (await c.admin.get(resources.maintenanceWindows, { name: window.name })) ?? {};
    expect(status?.progress).toMatchObject({ summary: '1/1', notRequired: 1, remaining: 0 });
    await flushEvents();
    expect((await c.eventsAbout(maintenance)).join('\n')).toContain('RebootRequested');
  });

  test('that reboots nodes does not ask for one that another client holds, until it is released', async () => {
    const window = await windowOf(1, { work: { type: 'Reboot', reboot: { policy: 'Always' } } });
    const [node = ''] = window.nodes;
    await booted(node, 'boot-1');
    await agentOn(node);
    await rolledOut(window, {}, inProgress(node));
    const maintenance = await onlyMaintenanceOf(window);
    await c.caughtUpWith({
      ...(await c.leaseWritten(node, { holderIdentity: 'kubeadm: jane' })),
      kind: 'Lease',
    });
    await written(maintenance, { conditions: [is('Drained')] });
    await recorded(window);
    const rollOut = async () => {
      await recorded(window);
      await performed(() => activities.rollOut(window, requests(), undefined));
      return (await c.node(node)).metadata.annotations ?? {};
    };
    await throughout('the request', 2_000, async () =>
      expect(await rollOut()).not.toHaveProperty([Requested]),
    );
    await c.leaseWritten(node, {});
    await eventually('the request', async () =>
      expect(await rollOut()).toMatchObject({ [Requested]: 'boot-1' }),
    );
  });

  test('that reboots nodes starts none whose agent does not run or has no reboot command, or whose boot ID is unknown', async () => {
    const window = await windowOf(3, { work: rebootWork, rollout: { maxUnavailable: 3 } });
    const [silent = '', unknown = '', unable = ''] = window.nodes;
    for (const name of window.nodes) await annotated(name, { [Required]: '' });
    await booted(silent, 'boot-1');
    await agentOn(silent, 600);
    await agentOn(unknown);
    await booted(unable, 'boot-1');
    await agentOn(unable, 0, 'static-pods');
    const step = await rolledOut(window, {}, waitsFor('AgentNotRunning'));
    expect(stateIn(step)).toMatchObject({ inProgress: [], remaining: 3 });
    expect(await reserved(window)).toEqual([]);
    const { status } = (await c.admin.get(resources.maintenanceWindows, { name: window.name })) ?? {};
    expect(status?.active?.waiting?.message).toContain(
      `The node agent of node ${unable} has no reboot command`,
    );
    expect(status?.progress?.rebootRequired?.names).toEqual(window.nodes.toSorted());
  });

  test('that reboots nodes forgets that it did when it runs a Job instead', async () => {
    const window = await windowOf(1, { work: rebootWork });
    await recorded(window);
    await performed(() => activities.rollOut(window, requests(), undefined));
    const progressOf = async () =>
      (await c.admin.get(resources.maintenanceWindows, { name: window.name }))?.status?.progress;
    expect(await progressOf()).toMatchObject({ notRequired: 1, rebootRequired: { nodes: 0 } });
    await c.patched(
      resources.maintenanceWindows,
      { name: window.name },
      { spec: { work: { type: 'None', reboot: null } } },
    );
    await rolledOut(window, {}, inProgress(...window.nodes));
    expect(await progressOf()).not.toHaveProperty('notRequired');
    expect(await progressOf()).not.toHaveProperty('rebootRequired');
  });
});
