import type {
  Activities,
  WindowOrders,
  WindowRef,
  WindowState,
  WindowStep,
} from '../../activities/contract.ts';
import { readBudget } from '../../activities/nodeClaims.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { Job } from '../../api/core.ts';
import {
  NODE_BUDGET_NAME,
  TurnAnnotation,
  WINDOW_LABEL,
  WORK_NAMESPACE,
  workflowIdOf,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { newTurn } from '../../api/windowTurn.ts';
import { isTrue } from '../../domain/conditions.ts';
import { revisionOf } from '../../domain/revision.ts';
import { emptyStatus } from '../../domain/status.ts';
import { lastHeard } from '../../kube/kubeletLease.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { activitiesOn, performed, started } from '../kit/activity.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { eventuallyHolds } from '../kit/holds.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

/** No workflow runs the maintenances: what becomes of a turn is the test's doing. */
let sandbox: Sandbox;
let c: TestCluster;
let activities: Activities;
let told: () => Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'rollout' });
  ({ activities, told } = activitiesOn(c));
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
  await c.admin.delete(resources.nodeBudgets, { name: NODE_BUDGET_NAME }, { uid: metadata.uid ?? '' });
  await c.close();
  await releaseSandbox(sandbox);
});

async function setBudget(maxUnavailable: number | string): Promise<void> {
  await readBudget(c);
  await c.admin.mergePatch(resources.nodeBudgets, { name: NODE_BUDGET_NAME }, { spec: { maxUnavailable } });
}

const named = (node: string) => ({ key: 'metadata.name', operator: 'In' as const, values: [node] });

interface Opened extends WindowRef {
  nodes: string[];
}

/** A window and as many nodes of its own, which no other selects; it waits for people where it has no work. */
async function windowOf(count: number, differs: object = {}): Promise<Opened> {
  const nodes: string[] = [];
  for (let made = 0; made < count; made++) nodes.push(await c.nodeNamed('node'));
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

const orders = (differs: Partial<WindowOrders> = {}): WindowOrders => ({
  end: '2099-01-01T00:00:00.000Z',
  ended: false,
  cancelled: false,
  paused: false,
  approved: false,
  approvedNodes: [],
  ...differs,
});

/** Runs the activity as the workflow does, again and again, until a step is as it is expected to be. */
async function rolledOut(
  { name, uid }: WindowRef,
  given: Partial<WindowOrders>,
  holds: (step: WindowStep) => boolean,
): Promise<WindowStep> {
  let seen: WindowState | undefined;
  for (;;) {
    const step = await performed(() => activities.rollOut({ name, uid }, orders(given), seen));
    if (holds(step)) return step;
    seen = 'state' in step ? step.state : undefined;
  }
}

const stateIn = (step: WindowStep): WindowState => {
  if (!('state' in step)) throw new Error(`${step.kind} has no state`);
  return step.state;
};
const underWay =
  (...nodes: string[]) =>
  (step: WindowStep) =>
    stateIn(step)
      .underWay.map(({ node }) => node)
      .join() === nodes.join();
const waitsFor = (reason: string) => (step: WindowStep) => stateIn(step).waiting?.reason === reason;

const claimed = async ({ name }: WindowRef) =>
  ((await readBudget(c)).status?.claims ?? [])
    .filter(({ window }) => window === name)
    .map(({ node }) => node);

async function turnsOf({ name }: WindowRef): Promise<NodeMaintenance[]> {
  return (await c.admin.list(resources.nodeMaintenances, { labelSelector: `${WINDOW_LABEL}=${name}` })).items;
}

async function onlyTurnOf(window: WindowRef): Promise<NodeMaintenance> {
  const [turn, ...others] = await turnsOf(window);
  expect(others).toEqual([]);
  return turn as NodeMaintenance;
}

/** One that the window has not begun itself. */
async function turnByHand({ name, nodes: [node = ''] }: Opened): Promise<NodeMaintenance> {
  const window = (await c.admin.get(resources.maintenanceWindows, { name })) as MaintenanceWindow;
  return newTurn(window, {
    name: c.named('by-hand'),
    revision: revisionOf(window.spec),
    drainPlan: [],
    node: { name: node, uid: (await c.node(node)).metadata.uid ?? '' },
  });
}

const is = (type: string, status: 'True' | 'False' = 'True') => ({
  type,
  status,
  reason: type,
  message: '',
  lastTransitionTime: new Date().toISOString(),
});

/** What its workflow would write. */
async function written(turn: NodeMaintenance, status: object): Promise<void> {
  const key = { name: turn.metadata.name };
  const body = { status: { ...emptyStatus, ...status } };
  await c.caughtUpWith({
    ...(await c.admin.mergePatch(resources.nodeMaintenances, key, body, { subresource: 'status' })),
    kind: 'NodeMaintenance',
  });
}

/** Somebody completes it, and its workflow gives the node back. */
async function completed(turn: NodeMaintenance, conditions: object[] = [is('Drained')]): Promise<void> {
  const key = { name: turn.metadata.name };
  await c.admin.mergePatch(resources.nodeMaintenances, key, { spec: { stage: 'Complete' } });
  const stageStatuses = [{ name: 'Complete', startTimestamp: new Date().toISOString() }];
  await written(turn, { conditions, stageStatuses });
}

describe('a window', () => {
  test('that waits for the budget goes on when there is room again, without being told', async () => {
    await setBudget(0);
    const window = await windowOf(1);
    const waiting = await rolledOut(window, {}, waitsFor('NodeBudget'));
    const { ended } = started(() => activities.rollOut(window, orders(), stateIn(waiting)));
    await setBudget('100%');
    expect(underWay(...window.nodes)(await ended)).toBe(true);
    expect(await claimed(window)).toEqual(window.nodes);
  });

  test('whose turn, which has the labels and annotations of the template, a person completes gives up its claim, and begins the next one', async () => {
    const metadata = { labels: { team: 'sre' }, annotations: { ticket: 'OPS-4711' } };
    const window = await windowOf(2, { template: { metadata } });
    const [first = '', second = ''] = window.nodes;
    await rolledOut(window, {}, underWay(first));
    expect((await onlyTurnOf(window)).metadata).toMatchObject({
      labels: { ...metadata.labels, [WINDOW_LABEL]: window.name },
      annotations: { ...metadata.annotations, [TurnAnnotation.Node]: first },
    });
    await completed(await onlyTurnOf(window));
    const step = await rolledOut(window, {}, underWay(second));
    expect(stateIn(step)).toMatchObject({ done: 1, remaining: 0 });
    expect(await claimed(window)).toEqual([second]);
  });

  test('whose nodes soak begins no turn while another is being judged, though its node is back already', async () => {
    const window = await windowOf(2, { rollout: { soakSeconds: 3_600 } });
    const [first = ''] = window.nodes;
    await rolledOut(window, {}, underWay(first));
    await completed(await onlyTurnOf(window));
    const step = await rolledOut(window, {}, waitsFor('Soaking'));
    expect(stateIn(step)).toMatchObject({ done: 1, remaining: 1 });
    await onlyTurnOf(window);
  });

  test('whose turn is deleted begins it anew by the rules: not while it is paused', async () => {
    const window = await windowOf(1);
    await rolledOut(window, {}, underWay(...window.nodes));
    const turn = await onlyTurnOf(window);
    await c.deleted(turn);
    await rolledOut(window, { paused: true }, waitsFor('Paused'));
    expect(await turnsOf(window)).toEqual([]);
    expect(await claimed(window)).toEqual([]);
    await rolledOut(window, {}, underWay(...window.nodes));
    expect((await onlyTurnOf(window)).metadata.uid).not.toBe(turn.metadata.uid);
  });

  test('whose turns the apiserver refuses says so, takes no node, and goes on', async () => {
    const drainPlan = Array.from({ length: 260 }, (_, podPriority) => ({ podType: 'Default', podPriority }));
    const window = await windowOf(2, { template: { drainPlan } });
    const step = await rolledOut(window, {}, waitsFor('TurnRefused'));
    expect(stateIn(step)).toMatchObject({ underWay: [], remaining: 2 });
    expect(await claimed(window)).toEqual([]);
    await told();
    const found = await c.admin.get(resources.maintenanceWindows, { name: window.name });
    expect(found?.status?.progress).toMatchObject({ remaining: 2, inProgress: 0 });
    const about = { kind: 'MaintenanceWindow', metadata: { name: window.name, uid: window.uid } };
    expect((await c.eventsAbout(about)).join('\n')).toContain(
      'TurnRefused: The apiserver refuses the turn of',
    );
  });

  test('whose turn cannot have its name, because somebody took the label from it, says so', async () => {
    const window = await windowOf(1);
    await rolledOut(window, {}, underWay(...window.nodes));
    const turn = await onlyTurnOf(window);
    await completed(turn);
    const labels = { [WINDOW_LABEL]: null };
    await c.patched(resources.nodeMaintenances, { name: turn.metadata.name }, { metadata: { labels } });
    const step = await rolledOut(window, {}, waitsFor('TurnRefused'));
    expect(stateIn(step)).toMatchObject({ underWay: [], remaining: 1 });
    expect(await claimed(window)).toEqual([]);
  });

  test('that holds its nodes is over when their drains rest, and the next one has only these go on', async () => {
    const window = await windowOf(2, { onWindowEnd: 'HoldCurrent', rollout: { maxUnavailable: 2 } });
    const [first = '', second = ''] = window.nodes;
    await rolledOut(window, {}, underWay(first, second));
    const turns = await turnsOf(window);
    const own = turns.find(({ metadata }) => metadata.name.endsWith(first)) as NodeMaintenance;
    const persons = turns.find(({ metadata }) => metadata.name.endsWith(second)) as NodeMaintenance;
    await written(persons, { conditions: [is('Paused')] });
    const run = workflowIdOf(own.metadata.name);
    const tell = await rolledOut(window, { ended: true }, ({ kind }) => kind === 'Tell');
    expect(tell).toMatchObject({ pause: [run], resume: [] });
    const given = orders({ ended: true, told: [{ run, word: 'pause' }] });
    const { ended } = started(() => activities.rollOut(window, given, stateIn(tell)));
    await written(own, { conditions: [is('Paused')] });
    expect(await ended).toMatchObject({ kind: 'Over' });
    const next = await rolledOut(window, {}, ({ kind }) => kind === 'Tell');
    expect(next).toMatchObject({ pause: [], resume: [run] });
    await written(own, { conditions: [] });
    const atItsEnd = await performed(() =>
      activities.rollOut(window, orders({ ended: true, told: [{ run, word: 'resume' }] }), undefined),
    );
    expect(atItsEnd).toMatchObject({ kind: 'Tell', pause: [run], resume: [] });
  });

  const schedulingGates = [{ name: 'example.com/not-yet' }];
  const template = { spec: { schedulingGates, containers: [{ name: 'patch', image: 'none' }] } };
  const work = { type: 'Job', job: { template } };

  async function jobsOf({ name }: WindowRef): Promise<Job[]> {
    const { items } = await c.admin.list(resources.jobs, { namespace: WORK_NAMESPACE });
    return items.filter(({ metadata }) => metadata.labels?.[WINDOW_LABEL] === name);
  }

  test('works on no node for a NodeMaintenance that says it is its turn, and does not select it', async () => {
    const window = await windowOf(1, { work });
    const turn = await turnByHand(window);
    const { nodeSelector } = c.maintenance({ nodes: [await c.nodeNamed('node')] }).spec;
    const forged = await c.applied({ ...turn, spec: { ...turn.spec, nodeSelector } });
    await written(forged, { conditions: [is('Drained')] });
    await eventually('it to be called off', async () => {
      await rolledOut(window, { paused: true }, () => true);
      const { status } = await c.maintenanceNow(forged.metadata.name);
      expect(status?.conditions).toContainEqual(expect.objectContaining({ reason: 'Cancelled' }));
    });
    expect(await jobsOf(window)).toEqual([]);
  });

  test('whose node is given back by a person while its Job works ends the Job, and counts it as a failure', async () => {
    const window = await windowOf(1, { work });
    await rolledOut(window, {}, underWay(...window.nodes));
    const turn = await onlyTurnOf(window);
    await written(turn, { conditions: [is('Drained')] });
    const rolling = started(() => activities.rollOut(window, orders(), undefined));
    await rolling.ended;
    await eventually('the Job', async () => expect(await jobsOf(window)).toHaveLength(1));
    await completed(turn);
    await eventuallyHolds(
      'the Job to end',
      async () => {
        await rolledOut(window, {}, () => true);
        return jobsOf(window);
      },
      (found) => found.every(({ metadata }) => metadata.deletionTimestamp !== undefined),
    );
    const ended = await looksUntil(window, turn, (seen) => verdictOn(seen) !== undefined);
    expect(verdictOn(ended)).toMatchObject({ status: 'False', reason: 'EndedEarly' });
  });

  test('whose Job the apiserver does not take keeps the node, and says why', async () => {
    const misnamed = { spec: { containers: [{ name: 'Patch It', image: 'none' }] } };
    const window = await windowOf(1, { work: { type: 'Job', job: { template: misnamed } } });
    await rolledOut(window, {}, underWay(...window.nodes));
    const turn = await onlyTurnOf(window);
    await written(turn, { conditions: [is('Drained')] });
    const refused = await looksUntil(window, turn, (seen) => verdictOn(seen) !== undefined);
    expect(refused.spec.stage).toBe('Drain');
    expect(verdictOn(refused)).toMatchObject({
      status: 'False',
      reason: 'JobRefused',
      message: expect.stringContaining('spec.template.spec.containers[0].name'),
    });
  });

  test('begins no further turn when as many have failed as may, until somebody has dealt with one', async () => {
    const window = await windowOf(2, { rollout: { maxUnavailable: 2, maxFailures: 1 } });
    const [first = '', second = ''] = window.nodes;
    await c.cordoned(second);
    await rolledOut(window, {}, underWay(first));
    await written(await onlyTurnOf(window), { conditions: [is('TurnSucceeded', 'False')] });
    await c.patched(resources.nodes, { name: second }, { spec: { unschedulable: false } });
    const stopped = await rolledOut(window, {}, waitsFor('TooManyFailures'));
    expect(stateIn(stopped)).toMatchObject({ failed: [{ node: first }], underWay: [], remaining: 1 });
    await performed(() => activities.advanceTurn(window, first));
    await rolledOut(window, {}, underWay(first, second));
  });

  test('whose time is over ends its Job first with CancelCurrent, then gives the node back, and forgets its turn', async () => {
    const { window, turn } = await working({ onWindowEnd: 'CancelCurrent' });
    const isOver = { ended: true };
    const given = await looksUntil(window, turn, ({ spec }) => spec.stage === 'Complete', isOver);
    expect(verdictOn(given)).toMatchObject({ status: 'False', reason: 'Cancelled' });
    expect(await jobsOf(window)).toEqual([]);
    await completed(turn, given.status?.conditions ?? []);
    const step = await rolledOut(window, isOver, ({ kind }) => kind === 'Over');
    expect(stateIn(step)).toMatchObject({ done: 0, failed: [], underWay: [], remaining: 1 });
    expect(await turnsOf(window)).toEqual([]);
  });

  test('whose node is not ready long after its work waits for it from when somebody looks', async () => {
    const node = await c.unreadyNodeNamed('node');
    const window = await windowOver([node], { work, rollout: { readyTimeoutSeconds: 1 } });
    const turn = await c.applied(await turnByHand(window));
    const lastTransitionTime = new Date(Date.now() - 7 * 24 * 3_600_000).toISOString();
    await written(turn, { conditions: [is('Drained'), { ...is('WorkSucceeded'), lastTransitionTime }] });
    const first = await performed(() => activities.rollOut(window, orders(), undefined));
    expect(stateIn(first)).toMatchObject({ failed: [], underWay: [{ node }] });
    const next = await performed(() => activities.rollOut(window, orders(), stateIn(first)));
    expect(stateIn(next)).toMatchObject({ failed: [{ node }], underWay: [] });
    expect(verdictOn(await c.maintenanceNow(turn.metadata.name))).toMatchObject({ reason: 'NodeNotReady' });
  });

  /** Its Job works on its only node. */
  async function working(differs: object = {}): Promise<{ window: Opened; turn: NodeMaintenance; job: Job }> {
    const window = await windowOf(1, { work, ...differs });
    await rolledOut(window, {}, underWay(...window.nodes));
    const turn = await onlyTurnOf(window);
    await written(turn, { conditions: [is('Drained')] });
    const noted = ({ status }: NodeMaintenance) =>
      status?.conditions.some(({ type }) => type === 'WorkSucceeded') ?? false;
    await looksUntil(window, turn, noted);
    const [job] = await jobsOf(window);
    return { window, turn, job: job as Job };
  }

  async function looksUntil(
    window: Opened,
    { metadata: { name } }: NodeMaintenance,
    holds: (turn: NodeMaintenance) => boolean,
    given: Partial<WindowOrders> = {},
  ): Promise<NodeMaintenance> {
    const look = async () => {
      await performed(() => activities.rollOut(window, orders(given), undefined));
      return c.maintenanceNow(name);
    };
    return eventuallyHolds('the turn to be so', look, holds);
  }

  async function succeeded({ metadata: { name, creationTimestamp } }: Job): Promise<void> {
    const conditions = [is('SuccessCriteriaMet'), is('Complete')];
    const times = { startTime: creationTimestamp, completionTime: new Date().toISOString() };
    const status = { ...times, succeeded: 1, active: null, conditions };
    const key = { namespace: WORK_NAMESPACE, name };
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

  const verdictOn = ({ status }: NodeMaintenance) =>
    status?.conditions.find(({ type }) => type === 'TurnSucceeded');

  test('whose Job somebody deletes while it works does not begin it anew, and says so', async () => {
    const { window, turn, job } = await working();
    await removed(job);
    const failed = await looksUntil(window, turn, (seen) => verdictOn(seen) !== undefined);
    expect(verdictOn(failed)).toMatchObject({ status: 'False', reason: 'JobDeleted' });
    expect(failed.spec.stage).toBe('Drain');
    expect(await jobsOf(window)).toEqual([]);
  });

  test('whose Job somebody deletes when it has succeeded gives the node back', async () => {
    const { window, turn, job } = await working();
    await succeeded(job);
    const isNoted = (seen: NodeMaintenance) => isTrue(seen.status?.conditions, 'WorkSucceeded');
    await looksUntil(window, turn, isNoted);
    await removed(job);
    await looksUntil(window, turn, ({ spec }) => spec.stage === 'Complete');
    expect(await jobsOf(window)).toEqual([]);
  });

  test('whose turn somebody advances keeps the node until its kubelet has been heard since, then gives it back', async () => {
    const window = await windowOf(1);
    const [node = ''] = window.nodes;
    await rolledOut(window, {}, underWay(node));
    const turn = await onlyTurnOf(window);
    await written(turn, { conditions: [is('Drained')] });
    await performed(() => activities.advanceTurn(window, node));
    const ordered = await c.maintenanceNow(turn.metadata.name);
    expect(ordered.spec.stage).toBe('Drain');
    expect(verdictOn(ordered)).toMatchObject({ status: 'Unknown', reason: 'Advanced' });
    await looksUntil(window, turn, ({ spec }) => spec.stage === 'Complete');
    const since = Date.parse(verdictOn(ordered)?.lastTransitionTime ?? '');
    expect(await lastHeard(c.admin, node)).toBeGreaterThan(since);
    await completed(turn, [verdictOn(ordered) ?? {}]);
    await looksUntil(window, turn, (seen) => isTrue(seen.status?.conditions, 'TurnSucceeded'));
    await expect(performed(() => activities.advanceTurn(window, node))).rejects.toMatchObject({
      type: 'InvalidInput',
      message: `node: "${node}" has no turn in window "${window.name}" that could be ended`,
    });
  });

  test('whose failed turn somebody advances gives the node back at once', async () => {
    const window = await windowOf(1);
    const [node = ''] = window.nodes;
    await rolledOut(window, {}, underWay(node));
    const turn = await onlyTurnOf(window);
    await written(turn, { conditions: [is('TurnSucceeded', 'False')] });
    await performed(() => activities.advanceTurn(window, node));
    await looksUntil(window, turn, ({ spec }) => spec.stage === 'Complete');
  });

  test('that may not read the Leases of kubelets says so, keeps the node, and goes on when it may', async () => {
    const { window, turn, job } = await working();
    await c.workerMayReadKubeletLeases(false);
    try {
      await succeeded(job);
      const step = await eventuallyHolds(
        'the refusal to be told',
        () => performed(() => activities.rollOut(window, orders(), undefined)),
        waitsFor('TurnRefused'),
      );
      expect(stateIn(step).waiting?.message).toMatch(/cannot get resource "leases"/);
    } finally {
      await c.workerMayReadKubeletLeases();
    }
    await looksUntil(window, turn, ({ spec }) => spec.stage === 'Complete');
  });
});
