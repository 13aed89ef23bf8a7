import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { Pod } from '../../../api/core.ts';
import { EVACUATION, INSTIGATOR_FINALIZER } from '../../../api/names.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { activitiesOn, performed, performedTwice, refOf } from '../../kit/activity.ts';
import { pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { denyByPolicy } from '../../kit/rejection.ts';
import { withMembers } from '../../kit/withMembers.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let acts: NodeMaintenanceActivities;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'withdraw' });
  acts = activitiesOn(c).activities;
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

const theirs = 'example.com/instigator';

/** A maintenance that has come to Complete, and a pod on its node. */
async function completing() {
  const node = await c.nodeNamed('n');
  const pod = await c.podOn(node, { priority: 1000 });
  const applied = await c.applied(c.maintenance({ nodes: [node], stage: 'Complete' }));
  return { node, pod, applied, withdraw: () => acts.removeEvacuations(refOf(applied)) };
}

async function finalizersOn(pod: Pod): Promise<string[] | undefined> {
  const evacuation = await c.evacuationOf(pod);
  return evacuation && (evacuation.metadata.finalizers ?? []);
}

test('an Evacuation with only our finalizer is removed', async () => {
  const { pod, withdraw } = await completing();
  await c.applied(c.evacuation(pod));
  await performedTwice(c, withdraw);
  expect(await c.evacuationOf(pod)).toBeUndefined();
});

test('an Evacuation of a pod that the informer does not show, or not on its node, is removed', async () => {
  const { pod, node, applied } = await completing();
  await c.applied(c.evacuation(pod));
  const { spec, ...rest } = pod;
  const { nodeName: _, ...unbound } = spec;
  for (const shown of [undefined, { ...rest, spec: unbound } as Pod]) {
    await c.applied(c.evacuation(pod));
    const behind = withMembers(c.cluster.pods, { get: () => shown });
    const { activities } = activitiesOn({ cluster: { ...c.cluster, pods: behind } });
    await performed(() => activities.removeEvacuations(refOf(applied)));
    expect(await c.evacuationOf(pod)).toBeUndefined();
  }
  expect(c.podsOf(node)).toHaveLength(1);
});

test('a call that has used its time says so, and the next one continues', async () => {
  const { pod, applied, withdraw } = await completing();
  await c.applied(c.evacuation(pod));
  const { activities } = activitiesOn(c, { removalMs: 0 });
  const short = await performed(() => activities.removeEvacuations(refOf(applied)));
  expect(short).toEqual({ kind: 'Unfinished' });
  expect((await c.evacuationOf(pod))?.metadata.deletionTimestamp).toBeUndefined();
  expect(await performed(withdraw)).toBeUndefined();
  expect(await c.evacuationOf(pod)).toBeUndefined();
});

test('an Evacuation that is being deleted loses our finalizer, and is removed', async () => {
  const { pod, withdraw } = await completing();
  await c.deleted(await c.applied(c.evacuation(pod)));
  await performedTwice(c, withdraw);
  expect(await c.evacuationOf(pod)).toBeUndefined();
});

test('an Evacuation of several instigators loses our finalizer, and stays', async () => {
  const { pod, withdraw } = await completing();
  await c.applied(c.evacuation(pod, [INSTIGATOR_FINALIZER, theirs]));
  await performedTwice(c, withdraw);
  expect(await finalizersOn(pod)).toEqual([theirs]);
  expect((await c.evacuationOf(pod))?.metadata.deletionTimestamp).toBeUndefined();
});

test('an Evacuation of other instigators stays unchanged', async () => {
  const { pod, withdraw } = await completing();
  const { metadata } = await c.applied(c.evacuation(pod, [theirs]));
  await performedTwice(c, withdraw);
  expect((await c.evacuationOf(pod))?.metadata.resourceVersion).toBe(metadata.resourceVersion);
});

test('an Evacuation whose evacuator forbids cancellation stays unchanged', async () => {
  const { pod, withdraw } = await completing();
  const made = await c.applied(c.evacuation(pod));
  const { metadata } = await c.withStatus(made, { evacuationCancellationPolicy: 'Forbid' });
  await performedTwice(c, withdraw);
  expect((await c.evacuationOf(pod))?.metadata.resourceVersion).toBe(metadata.resourceVersion);
});

test('an Evacuation of a pod on another node stays unchanged', async () => {
  const { withdraw } = await completing();
  const elsewhere = await c.podOn(await c.nodeNamed('other'));
  await c.applied(c.evacuation(elsewhere));
  await performedTwice(c, withdraw);
  expect(await finalizersOn(elsewhere)).toEqual([INSTIGATOR_FINALIZER]);
});

test('an Evacuation of a pod on a node that is no longer selected is removed', async () => {
  const node = await c.nodeNamed('n');
  const pod = await c.podOn(node);
  const rack = c.named('rack');
  const applied = await c.withStatus(await c.applied(c.maintenance({ nodes: { rack }, stage: 'Complete' })), {
    nodeStatuses: [{ nodeRef: { name: node } }],
  });
  await c.applied(c.evacuation(pod));
  await performedTwice(c, () => acts.removeEvacuations(refOf(applied)));
  expect(await c.evacuationOf(pod)).toBeUndefined();
});

test.each([
  { stage: 'Drain', plan: [pods(1000)], then: 'stays', finalizers: [INSTIGATOR_FINALIZER] },
  { stage: 'Drain', plan: [pods(999)], then: 'goes', finalizers: undefined },
  { stage: 'Cordon', plan: [pods(1000)], then: 'goes', finalizers: undefined },
  { stage: 'Complete', plan: [pods(1000)], then: 'goes', finalizers: undefined },
] as const)(
  'One of a pod of priority 1000 $then when another maintenance in $stage has come to $plan.0.podPriority',
  async ({ stage, plan, finalizers }) => {
    const { node, pod, withdraw } = await completing();
    await c.applied(c.maintenance({ nodes: [node], stage, drainPlan: [...plan] }));
    await c.applied(c.evacuation(pod));
    await performedTwice(c, withdraw);
    expect(await finalizersOn(pod)).toEqual(finalizers);
  },
);

test('nothing is removed without the object', async () => {
  const { pod } = await completing();
  await c.applied(c.evacuation(pod));
  await performedTwice(c, () => acts.removeEvacuations({ name: 'missing', uid: 'missing', generation: 1 }));
  expect(await finalizersOn(pod)).toEqual([INSTIGATOR_FINALIZER]);
});

test('an Evacuation that may not be removed keeps the others neither from that nor, after some attempts, from being over', async () => {
  const { pod, node, applied } = await completing();
  const other = await c.podOn(node, { priority: 1000 });
  for (const one of [pod, other]) await c.applied(c.evacuation(one));
  const name = `evacuations-stay-${crypto.randomUUID().slice(0, 8)}`;
  const allow = await denyByPolicy(c.admin, name, {
    failurePolicy: 'Fail',
    matchConstraints: {
      resourceRules: [
        {
          apiGroups: [EVACUATION.group],
          apiVersions: ['*'],
          operations: ['DELETE'],
          resources: ['evacuations'],
        },
      ],
    },
    matchConditions: [{ name: 'one', expression: `oldObject.spec.podRef.uid == '${pod.metadata.uid}'` }],
    validations: [{ expression: 'false', message: 'this namespace is frozen' }],
  });
  const { activities, flushEvents } = activitiesOn(c);
  const attempted = (attempt: number) =>
    performed(() => activities.removeEvacuations(refOf(applied)), { attempt });
  await eventually('the policy is in effect', async () => {
    await c.applied(c.evacuation(pod));
    await expect(attempted(1)).rejects.toThrow('this namespace is frozen');
  });
  expect(await c.evacuationOf(other)).toBeUndefined();
  expect(await attempted(7)).toBeUndefined();
  expect((await c.evacuationOf(pod))?.metadata.deletionTimestamp).toBeUndefined();
  await flushEvents();
  expect((await c.eventsAbout(applied)).join('\n')).toContain('WithdrawalRejected');
  await allow();
  await eventually('it is removed', async () => {
    await attempted(7);
    expect(await c.evacuationOf(pod)).toBeUndefined();
  });
});
