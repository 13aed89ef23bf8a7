import type { NodeMaintenanceActivities } from '../../../activities/contract.ts';
import type { Pod } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import { INSTIGATOR_FINALIZER } from '../../../api/names.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { type Kubectl, kubectlOf, succeeds } from '../../api/kubectl.ts';
import { activitiesOn, refOf, started } from '../../kit/activity.ts';
import { pods } from '../../kit/builders.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { evacuationControllerOn } from '../../kit/evacuationController.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';
import { usersDropped, userWith } from '../../kit/users.ts';

// What a tenant with the built-in role `edit` of a namespace can do against the drain of a node on which the tenant's pods run.

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let acts: NodeMaintenanceActivities;
let stop: () => Promise<void>;
let tenant: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'veto' });
  ({ activities: acts } = activitiesOn(c));
  stop = evacuationControllerOn(c, { evacuators: { responseSeconds: 0.2, knownClasses: [] } });
  tenant = await userWith(c, { namespace: c.namespace, clusterRoles: ['edit'] });
});

afterAll(async () => {
  await stop?.();
  if (c !== undefined) await usersDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const theirs = 'tenant.example.com/keep';

/** Creates the Evacuation of a pod as the tenant. */
async function tenantsEvacuation(pod: Pod, differs: { spec?: object; finalizers?: string[] } = {}) {
  const { metadata, spec, ...rest } = c.evacuation(pod, differs.finalizers ?? []);
  const evacuation = { ...rest, metadata, spec: { ...spec, ...differs.spec } };
  const create = () => kubectl(['create', '-f', '-', '--as', tenant], evacuation);
  return { name: metadata.name, create };
}

const evacuationsOf = async ({ metadata }: Pod): Promise<Evacuation[]> => {
  const { items } = await c.admin.list(resources.evacuations, { namespace: c.namespace });
  return items.filter(({ spec }) => spec.podRef.uid === metadata.uid);
};

/** Drains the node, and expects that to end. */
async function drained(node: string): Promise<void> {
  const drainPlan = [pods(1000)];
  const applied = await c.applied(
    c.maintenance({ name: c.named('nm'), nodes: [node], stage: 'Drain', drainPlan }),
  );
  const drain = started(() => acts.drain(refOf(applied), 0));
  expect(await drain.ended).toMatchObject({ kind: 'Drained', nodes: [node] });
}

const allowed = (create: () => ReturnType<Kubectl>) =>
  eventually('the permission to take effect', () => succeeds(create()));

describe('no tenant vetoes a drain for ever', () => {
  test('by an Evacuation that is deleted, and kept by a finalizer', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    // Withdrawn before an evacuator is asked: nothing evicts the pod.
    await stop();
    const { name, create } = await tenantsEvacuation(pod, { finalizers: [theirs] });
    await allowed(create);
    await succeeds(kubectl(['delete', 'evac', name, '-n', c.namespace, '--wait=false', '--as', tenant]));
    stop = evacuationControllerOn(c, { evacuators: { responseSeconds: 0.2, knownClasses: [] } });
    await drained(node);
    const kept = (await evacuationsOf(pod)).find(({ metadata }) => metadata.name === name);
    expect(kept?.metadata.finalizers).toEqual([theirs]);
    await eventually('only theirs to be left', async () =>
      expect((await evacuationsOf(pod)).map(({ metadata }) => metadata.name)).toEqual([name]),
    );
  });

  test('by the deletion of the Evacuation of a drain, after a finalizer was added to it', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    await stop();
    const made = await c.applied(c.evacuation(pod, [INSTIGATOR_FINALIZER, theirs]));
    const { name } = made.metadata;
    await allowed(() => kubectl(['delete', 'evac', name, '-n', c.namespace, '--wait=false', '--as', tenant]));
    stop = evacuationControllerOn(c, { evacuators: { responseSeconds: 0.2, knownClasses: [] } });
    await drained(node);
    // The controller may evict the pod before the drain has removed its finalizer: it does so afterwards.
    await eventually('only their finalizer to be left', async () => {
      const kept = (await evacuationsOf(pod)).find(({ metadata }) => metadata.name === name);
      expect(kept?.metadata.finalizers).toEqual([theirs]);
    });
  });

  test('by an Evacuation with a finalizer: the pod is evicted, and the Evacuation may remain', async () => {
    const node = await c.nodeNamed('n');
    const pod = await c.podOn(node);
    const { create } = await tenantsEvacuation(pod, { finalizers: [theirs] });
    await allowed(create);
    await drained(node);
    expect((await evacuationsOf(pod)).map(({ metadata }) => metadata.finalizers)).toContainEqual(
      expect.arrayContaining([theirs]),
    );
  });

  test('by the name of the Evacuation of a pod for another pod', async () => {
    const node = await c.nodeNamed('n');
    const [pod, other] = [await c.podOn(node), await c.podOn(await c.nodeNamed('other'))];
    await stop();
    const { metadata } = c.evacuation(pod, [theirs]);
    const { create } = await tenantsEvacuation(other);
    await allowed(create);
    const squatting = { ...c.evacuation(other), metadata };
    await succeeds(kubectl(['create', '-f', '-', '--as', tenant], squatting));
    stop = evacuationControllerOn(c, { evacuators: { responseSeconds: 0.2, knownClasses: [] } });
    await drained(node);
  });

  test('by a deadline of 68 years', async () => {
    const pod = await c.podOn(await c.nodeNamed('n'));
    const { create } = await tenantsEvacuation(pod, { spec: { progressDeadlineSeconds: 2_147_483_647 } });
    await eventually('the rejection', async () =>
      expect((await create()).stderr).toContain(
        'spec.progressDeadlineSeconds: Invalid value: 2147483647: spec.progressDeadlineSeconds in body should be less than or equal to 86400',
      ),
    );
  });

  test('by a longer deadline of an Evacuation that exists', async () => {
    const made = await c.applied(c.evacuation(await c.podOn(await c.nodeNamed('n')), [theirs]));
    const patch = JSON.stringify({ spec: { progressDeadlineSeconds: 2_147_483_647 } });
    const key = ['evac', made.metadata.name, '-n', c.namespace, '--as', tenant];
    await eventually('the rejection', async () =>
      expect((await kubectl(['patch', ...key, '--type=merge', '-p', patch])).stderr).toContain(
        'should be less than or equal to 86400',
      ),
    );
  });

  test('by 100 evacuators', async () => {
    const pod = await c.podOn(await c.nodeNamed('n'));
    const evacuators = Array.from({ length: 100 }, (_, i) => ({
      evacuatorClass: `c${i}.example.com`,
      priority: i,
      role: 'x',
    }));
    const { create } = await tenantsEvacuation(pod, { spec: { evacuators } });
    await eventually('the rejection', async () =>
      expect((await create()).stderr).toContain('spec.evacuators: Too many: 100: must have at most 10 items'),
    );
  });

  test('by annotations with 100 classes that no evacuator serves', async () => {
    const node = await c.nodeNamed('n');
    const annotations = Object.fromEntries(
      Array.from({ length: 100 }, (_, i) => [
        `evacuation.coordination.k8s.io/priority_c${i}.example.com`,
        `${i}/x`,
      ]),
    );
    const pod = await c.podOn(node, { annotations });
    await drained(node);
    await eventually('the Events', async () => {
      const events = await c.eventsAbout(pod);
      const skipped = events.filter((one) => one.startsWith('EvacuatorNotResponding: '));
      expect(skipped).toHaveLength(10);
      expect(skipped).toContain(
        'EvacuatorNotResponding: c99.example.com has not responded for 0.2 s: check that an evacuator of this class is running.',
      );
      expect(events).toContainEqual(expect.stringContaining('expected at most 10 evacuators (got 100)'));
    });
  });
});
