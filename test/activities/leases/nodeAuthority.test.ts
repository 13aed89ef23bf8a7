import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import { NodeAuthority } from '../../../activities/leases/nodeAuthority.ts';
import {
  agentUser,
  NODE_NAME_EXTRA,
  REQUESTER_ANNOTATION,
  SYSTEM_NAMESPACE,
  TEMPORAL_USER,
  WINDOW_LABEL,
} from '../../../api/names.ts';
import type { NodeMaintenance, NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { recordOfUser, recordOfWindow } from '../../../domain/common/requester.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { mayDeleteNode } from '../../../kube/authorization.ts';
import { EventRecorder } from '../../../kube/events.ts';
import { NodePermissions } from '../../../kube/nodePermissions.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../../api/kubectl.ts';
import { activitiesOn, type InProgress, performed, refOf, started } from '../../kit/activity.ts';
import { mayDelete, operatorOf, operatorsDropped } from '../../kit/admission.ts';
import { pods } from '../../kit/builders.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { removeRegistration, resetRegistration } from '../../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;
/** May create maintenances, and delete no node. */
let mallory: string;
const running: InProgress<unknown>[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'auth' });
  // What holds without an admission server, which would reject the requests of these users.
  await removeRegistration(c.admin);
  // Answers expire at once, so that the tests need not wait.
  const timing = { validMs: 100, startedValidMs: 100 };
  ({ activities: acts, flushEvents } = activitiesOn(c, { timing }));
  mallory = await operatorOf(c, ['no-node-of-hers']);
});

afterEach(async () => {
  for (const one of running.splice(0)) await one.cancelled();
  await c.maintenancesDropped();
});

afterAll(async () => {
  await operatorsDropped(c);
  await resetRegistration(c.admin);
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Creates the maintenance by kubectl as the user. */
async function requested(user: string, maintenance: NodeMaintenance): Promise<NodeMaintenance> {
  await succeeds(kubectl(['create', '--as', user, '-f', '-'], maintenance));
  const stored = await c.maintenanceNow(maintenance.metadata.name);
  await c.caughtUpWith({ ...stored, kind: 'NodeMaintenance' });
  return stored;
}

async function edited(user: string, name: string, spec: object): Promise<NodeMaintenance> {
  const args = ['patch', 'nm', name, '--as', user, '--type=merge', '-p', JSON.stringify({ spec })];
  await succeeds(kubectl(args));
  const stored = await c.maintenanceNow(name);
  await c.caughtUpWith({ ...stored, kind: 'NodeMaintenance' });
  return stored;
}

const ofRack = (rack: string, stage: NodeMaintenanceStage = 'Cordon') =>
  c.maintenance({ nodes: { rack }, stage, drainPlan: [pods(1000)] });

function cordoning(maintenance: NodeMaintenance): void {
  running.push(started(() => acts.keepCordoned(refOf(maintenance), 'Cordon')));
}

function draining(maintenance: NodeMaintenance): void {
  running.push(started(() => acts.drain(refOf(maintenance), 0)));
}

async function complete({ metadata: { name } }: NodeMaintenance, user?: string): Promise<void> {
  for (const one of running.splice(0)) await one.cancelled();
  const completed =
    user === undefined ? await c.staged(name, 'Complete') : await edited(user, name, { stage: 'Complete' });
  await performed(() => acts.removeEvacuations(refOf(completed)));
  await performed(() => acts.uncordonNodes(refOf(completed)));
}

const isUnschedulable = async (node: string) => (await c.node(node)).spec.unschedulable ?? false;

const notPermitted = (user: string) =>
  `user "${user}", who requested this, may not delete it: grant the verb delete on the node, or select other nodes.`;

const skipped = ({ metadata }: NodeMaintenance, node: string, user: string) =>
  c.eventuallyStatus(metadata.name, `names ${node}`, ({ nodeStatuses, conditions }) => {
    expect(nodeStatuses).toContainEqual(
      expect.objectContaining({
        nodeRef: { name: node },
        authorized: false,
        drainMessage: `Skipped: ${notPermitted(user)}`,
      }),
    );
    expect(conditions).toContainEqual(
      expect.objectContaining({ type: 'NodesAuthorized', status: 'False', reason: 'NotAuthorized' }),
    );
  });

async function expectUntouched(node: string): Promise<void> {
  expect(await isUnschedulable(node)).toBe(false);
  expect(await c.nodeLeaseOf(node)).toBeUndefined();
}

describe('a user who may delete no node', () => {
  test('cordons no node that joins after a maintenance of all nodes but the present ones was created', async () => {
    const present = (await c.admin.list(resources.nodes)).items.map(({ metadata }) => metadata.name);
    const everythingElse = c.maintenance({ nodes: [], stage: 'Cordon' });
    everythingElse.spec.nodeSelector = {
      nodeSelectorTerms: [
        {
          matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'NotIn', values: ['x', ...present] }],
        },
      ],
    };
    const attack = await requested(mallory, everythingElse);
    cordoning(attack);
    const [first, second] = [await c.nodeNamed('joins'), await c.nodeNamed('joins')];
    for (const node of [first, second]) await skipped(attack, node, mallory);
    for (const node of [first, second]) await expectUntouched(node);
    await flushEvents();
    const events = await c.eventsAbout(attack);
    expect(events.filter((one) => one.includes(first))).toEqual([
      expect.stringMatching(/^NodeNotAuthorized: Nodes? .* (is|are) skipped: user "/),
    ]);
  });

  test('neither cordons nor drains a node that is labelled to match later', async () => {
    const rack = c.named('rack');
    const attack = await requested(mallory, ofRack(rack, 'Drain'));
    draining(attack);
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    await c.labelled(node, { rack });
    await skipped(attack, node, mallory);
    await expectUntouched(node);
    expect(await c.evacuationOf(pod)).toBeUndefined();
    const drained = (await c.statusOf(attack.metadata.name)).conditions.find(
      ({ type }) => type === 'Drained',
    );
    expect(drained).toMatchObject({ status: 'False', reason: 'NotAuthorized' });
  });

  test('does not uncordon a node that someone else cordoned and that matches later', async () => {
    const rack = c.named('rack');
    const attack = await requested(mallory, ofRack(rack, 'Idle'));
    const node = await c.nodeNamed('n', { rack });
    await c.cordoned(node);
    await complete(attack, mallory);
    expect(await isUnschedulable(node)).toBe(true);
  });

  test('holds back neither the drain of others nor their uncordon, nor keeps their Evacuations', async () => {
    const rack = c.named('rack');
    const attack = await requested(mallory, ofRack(rack, 'Drain'));
    const node = await c.nodeNamed('n', { rack });
    const pod = await c.podOn(node, { priority: 1_500, grace: 600 });
    const low = await c.podOn(node, { priority: 500, grace: 600 });
    const plan = [pods(1000), pods(2000)];
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain', drainPlan: plan }));
    const ours = await c.withStatus(applied, { ...emptyStatus, drainPosition: 1 });
    // At position 0 the attack would limit the targets of the node to pods below 1000.
    const drain = started(() => acts.drain(refOf(ours), 1));
    running.push(drain);
    for (const one of [pod, low]) await c.eventuallyEvacuating(one);
    expect((await c.maintenanceNow(attack.metadata.name)).status).toBeUndefined();
    await complete(ours);
    expect(await isUnschedulable(node)).toBe(false);
    for (const one of [pod, low]) expect((await c.evacuationOf(one))?.metadata.finalizers ?? []).toEqual([]);
  });
});

describe('a user who may delete some nodes', () => {
  test('maintains them when they match later, and no other', async () => {
    const rack = c.named('rack');
    const [mine, other] = [await c.nodeNamed('mine'), await c.nodeNamed('other')];
    const operator = await operatorOf(c, [mine]);
    const applied = await requested(operator, ofRack(rack));
    cordoning(applied);
    await c.labelled(mine, { rack });
    await c.labelled(other, { rack });
    await c.eventuallyCordoned(mine);
    await skipped(applied, other, operator);
    await expectUntouched(other);
  });

  test('maintains a node as soon as the permission is granted', async () => {
    const rack = c.named('rack');
    const node = await c.nodeNamed('n', { rack });
    const operator = await operatorOf(c, ['none']);
    const applied = await requested(operator, ofRack(rack));
    cordoning(applied);
    await skipped(applied, node, operator);
    await mayDelete(c, operator, [node]);
    await c.eventuallyCordoned(node);
    await c.eventuallyStatus(applied.metadata.name, 'all are authorized', ({ conditions, nodeStatuses }) => {
      expect(conditions).toContainEqual(
        expect.objectContaining({ type: 'NodesAuthorized', status: 'True', reason: 'Authorized' }),
      );
      expect(nodeStatuses.map(({ authorized }) => authorized)).toEqual([undefined]);
    });
  });

  test('starts nothing more once the permission is withdrawn; what was started stays until Complete', async () => {
    const rack = c.named('rack');
    const [node, next] = [await c.nodeNamed('n', { rack }), await c.nodeNamed('next')];
    const operator = await operatorOf(c, [node, next]);
    const first = await c.podOn(node, { grace: 600 });
    const applied = await requested(operator, ofRack(rack, 'Drain'));
    draining(applied);
    await c.eventuallyEvacuating(first);
    await mayDelete(c, operator, ['none']);
    await c.eventuallyStatus(applied.metadata.name, 'the permission is withdrawn', ({ nodeStatuses }) =>
      expect(nodeStatuses).toMatchObject([
        {
          authorized: false,
          drainMessage: `Stays cordoned, and nothing more is started: ${notPermitted(operator)}`,
        },
      ]),
    );
    const second = await c.podOn(node);
    await c.labelled(next, { rack });
    await skipped(applied, next, operator);
    await expectUntouched(next);
    expect(await c.evacuationOf(second)).toBeUndefined();
    expect(await c.evacuationOf(first)).toBeDefined();
    expect(await isUnschedulable(node)).toBe(true);
    expect((await c.nodeLeaseOf(node))?.spec.holderIdentity).not.toBe('');
    await complete(applied, operator);
    expect(await isUnschedulable(node)).toBe(false);
    expect((await c.evacuationOf(first))?.metadata.finalizers ?? []).toEqual([]);
  });
});

test('the permissions of the user who changed the spec last count', async () => {
  const rack = c.named('rack');
  const applied = await c.applied(ofRack(rack));
  cordoning(applied);
  const [before, after] = [await c.nodeNamed('before', { rack }), await c.nodeNamed('after')];
  await c.eventuallyCordoned(before);
  const matchExpressions = [{ key: 'rack', operator: 'In', values: [rack, 'another'] }];
  await edited(mallory, applied.metadata.name, {
    nodeSelector: { nodeSelectorTerms: [{ matchExpressions }] },
  });
  await c.labelled(after, { rack });
  await skipped(applied, after, mallory);
  await expectUntouched(after);
  await c.patched(resources.nodeMaintenances, { name: applied.metadata.name }, { spec: { reason: 'ours' } });
  await c.eventuallyCordoned(after);
});

describe('the worker', () => {
  /** Creates a maintenance as the worker does. */
  async function createdByWorker(
    rack: string,
    record: string,
    labels: Record<string, string> = {},
  ): Promise<NodeMaintenance> {
    const maintenance = ofRack(rack);
    Object.assign(maintenance.metadata, { annotations: { [REQUESTER_ANNOTATION]: record }, labels });
    const stored = await c.cluster.kube.create(resources.nodeMaintenances, maintenance);
    await c.caughtUpWith({ ...stored, kind: 'NodeMaintenance' });
    return stored;
  }

  test('maintains the nodes of a window without a permission of its own', async () => {
    const rack = c.named('rack');
    const node = await c.nodeNamed('n', { rack });
    cordoning(await createdByWorker(rack, recordOfWindow('patches'), { [WINDOW_LABEL]: 'patches' }));
    await c.eventuallyCordoned(node);
  });

  test('maintains for users of Temporal only nodes that they may maintain', async () => {
    const rack = c.named('rack');
    const [mine, other] = [await c.nodeNamed('mine', { rack }), await c.nodeNamed('other', { rack })];
    await c.temporalMayDelete([mine]);
    try {
      const applied = await createdByWorker(rack, recordOfUser(TEMPORAL_USER));
      cordoning(applied);
      await c.eventuallyCordoned(mine);
      await skipped(applied, other, TEMPORAL_USER);
      await expectUntouched(other);
    } finally {
      await c.temporalMayDelete();
    }
  });
});

describe('without any record, as of an object from before the upgrade', () => {
  const unrecorded = (maintenance: NodeMaintenance): NodeMaintenance => ({
    ...maintenance,
    metadata: { ...maintenance.metadata, annotations: {} },
  });
  const authorityOf = () => {
    const { kube } = c.cluster;
    const events = new EventRecorder({ kube, component: 'test', log: silentLog });
    const permissions = new NodePermissions(kube, { may: mayDeleteNode, validMs: 0, isDue: () => [] });
    return new NodeAuthority({ events, namespace: SYSTEM_NAMESPACE, permissions });
  };

  test('a node that was cordoned is held, and no other is started', async () => {
    const rack = c.named('rack');
    const nodes = [await c.nodeNamed('started', { rack }), await c.nodeNamed('new', { rack })];
    const applied = await c.applied(ofRack(rack));
    const status = { nodeStatuses: [{ nodeRef: { name: nodes[0] }, unschedulableBefore: false }] };
    const inProgress = await c.withStatus({ ...applied, kind: 'NodeMaintenance' }, status);
    const existing = await Promise.all(nodes.map((node) => c.node(node)));
    const { decisions, denied } = await authorityOf().decide(unrecorded(inProgress), existing);
    expect([...decisions.values()]).toEqual(['Hold', 'Skip']);
    expect(denied[1]).toMatchObject({
      name: nodes[1],
      permission: 'Denied',
      because: expect.stringContaining('who requested this is not recorded: change the spec'),
    });
  });
});

describe('the agent of a node', () => {
  test.each([
    {
      when: 'with a token of its node',
      username: agentUser(SYSTEM_NAMESPACE),
      isBound: true,
      own: 'Proceed',
    },
    { when: 'with a token of no node', username: agentUser(SYSTEM_NAMESPACE), isBound: false, own: 'Skip' },
    { when: 'of another installation', username: agentUser('other'), isBound: true, own: 'Skip' },
  ])('$when: $own its node, and skips every other one', async ({ username, isBound, own }) => {
    const rack = c.named('rack');
    const [node, other] = [await c.nodeNamed('agent', { rack }), await c.nodeNamed('other', { rack })];
    const { kube } = c.cluster;
    const events = new EventRecorder({ kube, component: 'test', log: silentLog });
    const permissions = new NodePermissions(kube, {
      may: mayDeleteNode,
      validMs: 0,
      isDue: (nodes) => nodes.map(({ name }) => name),
    });
    const authority = new NodeAuthority({ events, namespace: SYSTEM_NAMESPACE, permissions });
    const extra = isBound ? { [NODE_NAME_EXTRA]: [node] } : {};
    const { metadata, ...rest } = ofRack(rack);
    const annotations = { [REQUESTER_ANNOTATION]: JSON.stringify({ username, extra }) };
    const maintenance = { ...rest, kind: 'NodeMaintenance', metadata: { ...metadata, annotations } };
    const existing = await Promise.all([node, other].map((name) => c.node(name)));
    const { decisions } = await authority.decide(maintenance, existing);
    expect([...decisions]).toEqual([
      [node, own],
      [other, 'Skip'],
    ]);
  });
});

test('an answer of a clock that was ahead is not valid for longer', async () => {
  let asked = 0;
  const permissions = new NodePermissions(c.cluster.kube, {
    may: () => Promise.resolve(++asked > 0),
    validMs: 60_000,
    isDue: () => [],
  });
  const ask = () =>
    permissions.permitted({ username: 'jane', groups: [] }, [{ name: 'node-1', isStarted: false }]);
  const clock = jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 3_600_000);
  await ask();
  await ask();
  clock.mockRestore();
  expect(asked).toBe(1);
  await ask();
  expect(asked).toBe(2);
});

describe('the number of requests', () => {
  const reviews = () => c.requests.count('create subjectaccessreviews.authorization.k8s.io');

  test('is one for all nodes of a user who may delete every node', async () => {
    const rack = c.named('rack');
    const nodes = [await c.nodeNamed('n', { rack }), await c.nodeNamed('n', { rack })];
    const { activities } = activitiesOn(c);
    const applied = await c.applied(ofRack(rack));
    c.requests.clear();
    running.push(started(() => activities.keepCordoned(refOf(applied), 'Cordon')));
    for (const node of nodes) await c.eventuallyCordoned(node);
    running.push(started(() => activities.keepCordoned(refOf(applied), 'Cordon')));
    await c.labelled(nodes[0] ?? '', { rack, some: 'change' });
    expect(reviews()).toBe(1);
  });

  test('is one per node otherwise, and none for the same nodes again', async () => {
    const rack = c.named('rack');
    const [mine, other] = [await c.nodeNamed('mine', { rack }), await c.nodeNamed('other', { rack })];
    const operator = await operatorOf(c, [mine]);
    const { activities } = activitiesOn(c);
    const applied = await requested(operator, ofRack(rack));
    c.requests.clear();
    running.push(started(() => activities.keepCordoned(refOf(applied), 'Cordon')));
    await skipped(applied, other, operator);
    await c.labelled(mine, { some: 'change' });
    running.push(started(() => activities.keepCordoned(refOf(applied), 'Cordon')));
    await c.labelled(mine, { some: 'other-change' });
    expect(reviews()).toBe(3);
  });
});

test('an Event is recorded once for each node, also by another process', async () => {
  const rack = c.named('rack');
  const node = await c.nodeNamed('n', { rack });
  const attack = await requested(mallory, ofRack(rack));
  for (let process = 1; process <= 2; process++) {
    const other = activitiesOn(c);
    const cordon = started(() => other.activities.keepCordoned(refOf(attack), 'Cordon'));
    await skipped(attack, node, mallory);
    await cordon.cancelled();
    await other.flushEvents();
    await c.caughtUpWith({ ...(await c.maintenanceNow(attack.metadata.name)), kind: 'NodeMaintenance' });
  }
  const events = (await c.eventsAbout(attack)).filter((one) => one.startsWith('NodeNotAuthorized'));
  expect(events).toEqual([`NodeNotAuthorized: Node ${node} is skipped: ${notPermitted(mallory)}`]);
  await eventually('nothing to be cordoned', () => expectUntouched(node));
});
