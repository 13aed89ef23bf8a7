import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { Pod } from '../../../api/core.ts';
import type { DrainDeadline } from '../../../api/drainDeadline.ts';
import { OWNER_ANNOTATION } from '../../../api/names.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { Notification } from '../../../api/notification.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, refOf, started } from '../../kit/activity.ts';
import { pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { remove } from '../../kit/reset.ts';
import { createDeployment } from '../../kit/deployment.ts';
import { deployments } from '../../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;
let flushEvents: () => Promise<void>;
/** Notifications by id, as the outbox takes each once. */
const sent = new Map<string, Notification>();

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'deadline' });
  const enqueue = async (one: Notification) => void sent.set(one.id, one);
  const notifications = { enqueue, dropped: () => undefined };
  ({ activities: acts, flushEvents } = activitiesOn(c, { notifications }));
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

/** A time that many seconds from now, by the apiserver's clock. */
const inSeconds = (seconds: number) =>
  new Date(c.cluster.kube.now().getTime() + seconds * 1_000).toISOString().replace(/\.\d+Z$/, 'Z');

/** Starts the Drain stage of a maintenance with this deadline. */
async function draining(node: string, drainDeadline: Partial<DrainDeadline>): Promise<NodeMaintenance> {
  const desired = c.maintenance({ nodes: [node], stage: 'Drain', drainPlan: [pods(1000), pods(5000)] });
  const applied = await c.applied({
    ...desired,
    spec: { ...desired.spec, drainDeadline: drainDeadline as DrainDeadline },
  });
  await performed(() => acts.startStage(refOf(applied), 'Drain'));
  const stored = await c.maintenanceNow(applied.metadata.name);
  await c.caughtUpWith({ ...stored, kind: 'NodeMaintenance' });
  return stored;
}

const stored = ({ metadata: { namespace = '', name } }: Pod) =>
  c.admin.get(resources.pods, { namespace, name });

const graceOf = async (pod: Pod) => (await stored(pod))?.metadata.deletionGracePeriodSeconds;

const eventuallyDeleted = (pod: Pod) =>
  eventually(`${pod.metadata.name} to be deleted`, async () => {
    const { metadata } = (await stored(pod)) ?? {};
    expect(metadata?.deletionTimestamp).toBeDefined();
    return metadata;
  });

const sentFor = ({ metadata }: NodeMaintenance) =>
  [...sent.values()].filter(
    ({ subject, type }) => subject === metadata.name && type.startsWith('maintenance.deadline'),
  );

describe('a drain whose deadline deletes what is left', () => {
  test('deletes the pods of all tiers so that they end at the deadline, and nothing else', async () => {
    const [node, other] = [await c.silentNodeNamed('n'), await c.silentNodeNamed('other')];
    const patient = await c.podOn(node, { grace: 3_600 });
    const later = await c.podOn(node, { priority: 5000, grace: 3_600 });
    const terminating = await c.podOn(node, { grace: 3_600 });
    await c.deleted(terminating);
    const forbids = await c.podOn(node, { grace: 3_600 });
    const mirror = await c.podOn(node, { annotations: { 'kubernetes.io/config.mirror': 'hash' } });
    const elsewhere = await c.podOn(other, { grace: 3_600 });
    const evacuation = await c.applied(c.evacuation(forbids));
    await c.withStatus(evacuation, { evacuationCancellationPolicy: 'Forbid' });
    const applied = await draining(node, { at: inSeconds(120), onDeadline: 'Delete' });
    const deadline = Date.parse((await c.statusOf(applied.metadata.name)).drainDeadline?.time ?? '');
    const drain = started(() => acts.drain(refOf(applied), 0));
    for (const pod of [patient, later]) {
      const { deletionTimestamp = '', deletionGracePeriodSeconds } = (await eventuallyDeleted(pod)) ?? {};
      expect(deletionGracePeriodSeconds).toBeGreaterThanOrEqual(1);
      expect(Date.parse(deletionTimestamp)).toBeLessThanOrEqual(deadline);
    }
    await eventually('a shorter grace period of the pod that was terminating', async () =>
      expect(await graceOf(terminating)).toBeLessThanOrEqual(120),
    );
    // The targets of the later tier were published before one of its pods was deleted.
    const { drainPosition, nodeStatuses } = await c.statusOf(applied.metadata.name);
    expect(drainPosition).toBe(0);
    expect(nodeStatuses[0]?.drainTargets).toContainEqual(pods(5000));
    await drain.cancelled();
    for (const pod of [forbids, mirror, elsewhere]) expect(await graceOf(pod)).toBeUndefined();
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContainEqual(
      expect.stringMatching(/^DeletedAtDeadline: \d pods? deleted/),
    );
    expect(await c.eventsAbout({ kind: 'Pod', metadata: patient.metadata })).toContainEqual(
      expect.stringMatching(
        /^DeletedAtDeadline: Deleted with a grace period of \d+ seconds: the drain deadline/,
      ),
    );
  });

  test('requests no deletion twice after a crash', async () => {
    const node = await c.silentNodeNamed('n');
    const pod = await c.podOn(node, { grace: 3_600 });
    const applied = await draining(node, { at: inSeconds(600), onDeadline: 'Delete' });
    const crashed = started(() => acts.drain(refOf(applied), 0));
    await eventuallyDeleted(pod);
    await crashed.cancelled();
    const grace = await graceOf(pod);
    const again = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyEvacuating(pod);
    await c.staged(applied.metadata.name, 'Complete');
    await again.ended;
    expect(await graceOf(pod)).toBe(grace);
  });

  test('does not delete in a loop a pod that its controller recreates on the node at once', async () => {
    const [node, name] = [await c.nodeNamed('n'), c.named('app')];
    // The scheduler would not bring it back to a cordoned node.
    await createDeployment(c, name, { nodeName: node, terminationGracePeriodSeconds: 1 });
    await eventually('the pod', () => expect(c.podsOf(node)).toHaveLength(1));
    const applied = await draining(node, { at: inSeconds(-60), onDeadline: 'Delete' });
    c.requests.clear();
    const drain = started(() => acts.drain(refOf(applied), 0));
    await c.eventuallyStatus(applied.metadata.name, 'the recreated pod to be named', ({ blockedPods }) =>
      expect(blockedPods).toEqual([
        expect.objectContaining({
          reason: 'PodRecreated',
          message: expect.stringMatching(
            `^ReplicaSet ${name}-.* recreated this pod on node ${node} right after the previous one was deleted`,
          ),
        }),
      ]),
    );
    expect(c.requests.count('delete pods')).toBe(1);
    await drain.cancelled();
    await remove(c.admin, deployments, { name, namespace: c.namespace });
  });

  test('deletes nothing on a node whose Lease someone else holds, nor while it is paused', async () => {
    const [held, paused] = [await c.silentNodeNamed('held'), await c.silentNodeNamed('paused')];
    const [onHeld, onPaused] = [await c.podOn(held), await c.podOn(paused)];
    await c.leaseWritten(held, { holderIdentity: 'technician', leaseDurationSeconds: 3_600, renewed: 0 });
    const past = { at: inSeconds(-60), onDeadline: 'Delete' } as const;
    const [first, second] = [await draining(held, past), await draining(paused, past)];
    await performed(() => acts.recordPause(refOf(second), true));
    const drains = [
      started(() => acts.drain(refOf(first), 0)),
      started(() => acts.keepCordoned(refOf(second), 'Drain')),
    ];
    for (const { metadata } of [first, second])
      await c.eventuallyStatus(metadata.name, 'the deadline to be exceeded', ({ conditions }) =>
        expect(conditions).toContainEqual(
          expect.objectContaining({ type: 'DrainDeadlineExceeded', status: 'True', reason: 'PodsRemain' }),
        ),
      );
    for (const drain of drains) await drain.cancelled();
    for (const pod of [onHeld, onPaused]) expect(await graceOf(pod)).toBeUndefined();
  });
});

describe('the deadline of a drain', () => {
  test('that reports deletes nothing, says what is left, and ends when the nodes are drained', async () => {
    const node = await c.silentNodeNamed('n');
    const pod = await c.podOn(node);
    const applied = await draining(node, { at: inSeconds(-60) });
    const drain = started(() => acts.drain(refOf(applied), 0));
    const { name } = applied.metadata;
    await c.eventuallyEvacuating(pod);
    const exceeded = (status: string) => expect.objectContaining({ type: 'DrainDeadlineExceeded', status });
    await c.eventuallyStatus(name, 'the deadline to be exceeded', ({ conditions }) =>
      expect(conditions).toContainEqual(exceeded('True')),
    );
    expect(await graceOf(pod)).toBeUndefined();
    await c.podsDeleted([pod]);
    expect(await drain.ended).toMatchObject({ kind: 'Drained' });
    const { conditions, drainDeadline } = await c.statusOf(name);
    expect(conditions).toContainEqual(exceeded('False'));
    expect(drainDeadline?.drainedAt).toBeDefined();
    expect(await performed(() => acts.escalate(refOf(applied)))).toMatchObject({ done: [] });
  });

  test('is not relaxed by a later one', async () => {
    const node = await c.silentNodeNamed('n');
    const applied = await draining(node, { after: '30m' });
    const { name } = applied.metadata;
    const before = (await c.statusOf(name)).drainDeadline;
    await c.patched(resources.nodeMaintenances, { name }, { spec: { drainDeadline: { after: '48h' } } });
    const { recorded } = await performed(() => acts.escalate(refOf(applied)));
    expect((await c.statusOf(name)).drainDeadline?.time).toBe(before?.time);
    await c.patched(resources.nodeMaintenances, { name }, { spec: { drainDeadline: { after: '20m' } } });
    expect(await performed(() => acts.escalate(refOf(applied), recorded))).toMatchObject({ done: [] });
    const time = Date.parse((await c.statusOf(name)).drainDeadline?.time ?? '');
    expect(time).toBe(Date.parse(before?.time ?? '') - 600_000);
  });
});

describe('an escalation', () => {
  test('notifies the owners of the pods that are left, each step once', async () => {
    const node = await c.silentNodeNamed('n');
    const pod = await c.podOn(node, { annotations: { [OWNER_ANNOTATION]: 'team\u202eshop' } });
    const applied = await draining(node, {
      at: inSeconds(1_800),
      steps: [{ before: '60m', action: 'Notify' }],
    });
    const first = await performed(() => acts.escalate(refOf(applied)));
    expect(first).toMatchObject({ done: [expect.stringMatching(/^Notify /)] });
    expect(first.nextInMs).toBeLessThanOrEqual(1_800_000);
    const again = await performed(() => acts.escalate(refOf(applied), first.recorded));
    expect(again.done).toEqual([]);
    const notifications = sentFor(applied);
    expect(notifications).toMatchObject([
      {
        id: `${applied.metadata.uid}.deadline-notify-3600`,
        type: 'maintenance.deadline-approaching',
        data: {
          severity: 'warning',
          message: expect.stringContaining('with 1 pod left. Nothing is deleted then.'),
          pods: { count: 1, names: [`${c.namespace}/${pod.metadata.name}`] },
          owners: [{ owner: 'team\\u202eshop', pods: { count: 1 } }],
        },
      },
    ]);
    await flushEvents();
    expect(await c.eventsAbout({ kind: 'Pod', metadata: pod.metadata })).toEqual([
      expect.stringContaining(`DrainDeadline: Node ${node} is to be drained by`),
    ]);
    const { steps } = (await c.statusOf(applied.metadata.name)).drainDeadline ?? { steps: [] };
    expect(steps.map(({ action, doneAt }) => [action, doneAt !== undefined])).toEqual([
      ['Notify', true],
      ['Report', false],
    ]);
  });

  test('announces no deletion on nodes that the maintenance may not change', async () => {
    const labels = { rack: c.named('rack') };
    const [own, held, denied] = [
      await c.nodeNamed('own', labels),
      await c.nodeNamed('held', labels),
      await c.nodeNamed('denied', labels),
    ];
    const [onOwn, onHeld, onDenied] = [await c.podOn(own), await c.podOn(held), await c.podOn(denied)];
    await c.leaseWritten(held, { holderIdentity: 'technician', leaseDurationSeconds: 3_600, renewed: 0 });
    const desired = c.maintenance({ nodes: labels, stage: 'Drain' });
    const drainDeadline = {
      at: inSeconds(1_800),
      onDeadline: 'Delete',
      steps: [{ before: '60m', action: 'Notify' }],
    } as DrainDeadline;
    const applied = await c.applied({ ...desired, spec: { ...desired.spec, drainDeadline } });
    await performed(() => acts.startStage(refOf(applied), 'Drain'));
    const inProgress = await c.maintenanceNow(applied.metadata.name);
    await c.withStatus(
      { ...inProgress, kind: 'NodeMaintenance' },
      { nodeStatuses: [{ nodeRef: { name: denied }, authorized: false }] },
    );
    await performed(() => acts.escalate(refOf(applied)));
    expect(sentFor(applied)).toMatchObject([
      {
        data: {
          message: expect.stringMatching(
            /with 2 pods left\. Pods that are left are deleted one grace period earlier\. 1 pod is not deleted while another client holds/,
          ),
          pods: { count: 2 },
        },
      },
    ]);
    await flushEvents();
    const eventsOn = (pod: Pod) => c.eventsAbout({ kind: 'Pod', metadata: pod.metadata });
    expect(await eventsOn(onOwn)).toEqual([
      expect.stringContaining('; pods that are left are deleted one grace period earlier ('),
    ]);
    expect(await eventsOn(onHeld)).toEqual([expect.not.stringContaining('deleted')]);
    expect(await eventsOn(onDenied)).toEqual([]);
  });

  test('does the steps that were missed in an outage as one', async () => {
    const node = await c.silentNodeNamed('n');
    await c.podOn(node);
    const applied = await draining(node, { at: inSeconds(-60) });
    const { done, nextInMs } = await performed(() => acts.escalate(refOf(applied)));
    expect(done).toHaveLength(3);
    expect(nextInMs).toBeUndefined();
    const notifications = sentFor(applied);
    expect(notifications).toMatchObject([{ type: 'maintenance.deadline-exceeded' }]);
    await flushEvents();
    expect(await c.eventsAbout(applied)).toContainEqual(expect.stringMatching(/^DrainDeadlineExceeded: /));
  });

  test('returns a step whose result a crash has lost, until the history has it', async () => {
    const node = await c.silentNodeNamed('n');
    const applied = await draining(node, {
      at: inSeconds(1_800),
      steps: [{ before: '60m', action: 'Notify' }],
    });
    const { done, recorded } = await performed(() => acts.escalate(refOf(applied), []));
    expect(done).toHaveLength(1);
    const written = await c.requests.writesOf(async () =>
      expect(await performed(() => acts.escalate(refOf(applied), []))).toMatchObject({ done, recorded }),
    );
    expect(written).toEqual([]);
    await c.staged(applied.metadata.name, 'Complete');
    expect(await performed(() => acts.escalate(refOf(applied), []))).toMatchObject({ done, recorded });
    expect(await performed(() => acts.escalate(refOf(applied), recorded))).toMatchObject({ done: [] });
  });

  test('of a maintenance without a deadline, or that is gone, does nothing', async () => {
    const node = await c.silentNodeNamed('n');
    const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Drain' }));
    expect(await performed(() => acts.escalate(refOf(applied)))).toMatchObject({ done: [] });
    expect(await performed(() => acts.escalate({ ...refOf(applied), uid: 'another' }))).toEqual({ done: [] });
  });
});
