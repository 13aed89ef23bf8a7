import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject } from '../../api/core.ts';
import { REQUESTER_ANNOTATION, TEMPORAL_USER, WINDOW_LABEL } from '../../api/names.ts';
import { authorityOf, recordOfUser, recordOfWindow } from '../../domain/common/requester.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { operatorOf, operatorsDropped } from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { gate, ofPool, readinessPolicy } from '../kit/readiness.ts';
import { removeRegistration, resetRegistration } from '../kit/registration.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Answer, type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { entry } from './objects.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let mallory: string;
let bob: string;

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'req' });
  // What holds without an admission server, which would reject the requests of these users.
  await removeRegistration(c.admin);
  [mallory, bob] = [await operatorOf(c, ['no-node-of-hers']), await operatorOf(c, ['no-node-of-his'])];
});

afterAll(async () => {
  await operatorsDropped(c);
  await resetRegistration(c.admin);
  await c?.close();
  await releaseSandbox(sandbox);
});

const as = (user: string, args: string[], object?: object): Promise<Answer> =>
  kubectl([...args, '--as', user, ...(object ? ['-f', '-'] : [])], object);

const patched = (user: string, name: string, patch: object, ...args: string[]) =>
  as(user, ['patch', 'nm', name, '--type=merge', '-p', JSON.stringify(patch), ...args]);

const recordIn = ({ metadata }: KubeObject) => metadata.annotations?.[REQUESTER_ANNOTATION];

const recorded = async (name: string) => recordIn(await c.maintenanceNow(name));

const userIn = (record: string | undefined) => {
  const authority = authorityOf(record);
  return authority.kind === 'User' ? authority.requester.username : authority.kind;
};

const forged = JSON.stringify({ username: 'jane', groups: ['system:masters'] });

/** Creates an Idle maintenance as the user, and returns its name. */
async function created(user: string, ...args: string[]): Promise<string> {
  const maintenance = c.maintenance({ nodes: { rack: c.namespace } });
  await succeeds(as(user, ['create', ...args], maintenance));
  return maintenance.metadata.name;
}

describe('the requester of a maintenance is recorded', () => {
  test('with name, uid, groups and extra, exactly as the apiserver authenticated them', async () => {
    // An older kubectl does not know the flag.
    const hasExtra = (await succeeds(kubectl(['options']))).includes('--as-user-extra');
    const name = await created(
      mallory,
      '--as-uid=1"2',
      '--as-group=team \\"a\\"',
      '--as-group=b,c',
      ...(hasExtra ? ['--as-user-extra=z=1', '--as-user-extra=scopes=x"]}', '--as-user-extra=scopes=y'] : []),
    );
    const authority = authorityOf(await recorded(name));
    expect(authority).toEqual({
      kind: 'User',
      requester: {
        username: mallory,
        uid: '1"2',
        groups: ['team \\"a\\"', 'b,c', 'system:authenticated'],
        extra: hasExtra ? { scopes: ['x"]}', 'y'], z: ['1'] } : {},
      },
    });
  });

  test('again when another user changes the spec, and not when they change anything else', async () => {
    const name = await created(mallory);
    expect(userIn(await recorded(name))).toBe(mallory);
    await succeeds(patched(bob, name, { metadata: { labels: { team: 'x' }, annotations: { note: 'x' } } }));
    expect(userIn(await recorded(name))).toBe(mallory);
    await succeeds(patched(bob, name, { spec: { stage: 'Cordon' } }));
    expect(userIn(await recorded(name))).toBe(bob);
    await succeeds(patched(mallory, name, { spec: { reason: 'mine' } }));
    expect(userIn(await recorded(name))).toBe(mallory);
  });

  test('not when another policy makes the spec what it was, as for a drain plan that is applied again', async () => {
    const drainPlan = [entry('Default', 1_000)];
    const maintenance = c.maintenance({ nodes: { rack: c.namespace }, drainPlan });
    await succeeds(as(mallory, ['create'], maintenance));
    const { name } = maintenance.metadata;
    // The apiserver applies its policies in any order.
    for (let time = 1; time <= 5; time++) {
      await succeeds(patched(bob, name, { spec: { drainPlan } }));
      expect(userIn(await recorded(name))).toBe(mallory);
    }
  });

  test('also when they create a readiness policy', async () => {
    const policy = readinessPolicy(c.named('p'), ofPool(c.namespace), [
      gate({ name: 'cni', namespace: c.namespace }),
    ]);
    policy.metadata.annotations = { [REQUESTER_ANNOTATION]: forged };
    const json = await succeeds(as(mallory, ['create', '--dry-run=server', '-o', 'json'], policy));
    expect(userIn(recordIn(JSON.parse(json) as KubeObject))).toBe(mallory);
  });
});

describe('a user cannot be recorded as another one', () => {
  test.each([
    { what: 'a user', record: forged },
    { what: 'the user of Temporal', record: recordOfUser(TEMPORAL_USER) },
    { what: 'a window', record: recordOfWindow('patches') },
  ])('by an object that is created with the record of $what', async ({ record }) => {
    const maintenance = c.maintenance({ nodes: { rack: c.namespace } });
    maintenance.metadata.annotations = { [REQUESTER_ANNOTATION]: record };
    const json = await succeeds(as(mallory, ['create', '--dry-run=server', '-o', 'json'], maintenance));
    expect(userIn(recordIn(JSON.parse(json) as KubeObject))).toBe(mallory);
  });

  test('by a change of the annotation alone, which is rejected with the field and the remedy', async () => {
    const name = await created(mallory);
    const annotations = { [REQUESTER_ANNOTATION]: forged };
    const { code, stderr } = await patched(mallory, name, { metadata: { annotations } });
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringContaining(
        'metadata.annotations[nodemaintenance.k8s.io/requester]: only the apiserver may write this annotation',
      ),
    });
    expect(userIn(await recorded(name))).toBe(mallory);
  });

  test('by server-side apply with force, also as the administrator', async () => {
    const maintenance = c.maintenance({ nodes: { rack: c.namespace } });
    await succeeds(as(mallory, ['apply', '--server-side'], maintenance));
    maintenance.metadata.annotations = { [REQUESTER_ANNOTATION]: forged };
    const again = ['apply', '--server-side', '--force-conflicts', '--field-manager=other'];
    for (const answer of [
      await as(mallory, again, maintenance),
      await kubectl([...again, '-f', '-'], maintenance),
    ])
      expect(answer).toMatchObject({ code: 1, stderr: expect.stringContaining('only the apiserver may') });
  });

  test('by a change of the spec with a forged annotation', async () => {
    const name = await created(bob);
    const annotations = { [REQUESTER_ANNOTATION]: forged };
    await succeeds(patched(mallory, name, { metadata: { annotations }, spec: { reason: 'x' } }));
    expect(userIn(await recorded(name))).toBe(mallory);
  });

  test('by the status, or by removing the annotation, which keeps it', async () => {
    const name = await created(mallory);
    await succeeds(patched(mallory, name, { metadata: { annotations: { [REQUESTER_ANNOTATION]: null } } }));
    expect(userIn(await recorded(name))).toBe(mallory);
    const patch = { metadata: { annotations: { [REQUESTER_ANNOTATION]: forged } }, status: { nodes: 1 } };
    const args = ['--type=merge', '--subresource=status', '-p', JSON.stringify(patch)];
    await succeeds(kubectl(['patch', 'nm', name, ...args]));
    expect(userIn(await recorded(name))).toBe(mallory);
  });

  test('by a name that looks like the end of the record', async () => {
    const user = `${mallory}","groups":["system:masters"],"x":"\\`;
    const maintenance = c.maintenance({ nodes: { rack: c.namespace } });
    const args = ['create', '--dry-run=server', '-o', 'json', '--as-group=system:masters'];
    const object = JSON.parse(await succeeds(as(user, args, maintenance))) as KubeObject;
    expect(userIn(recordIn(object))).toBe(user);
  });
});

describe('the worker', () => {
  const create = (annotations: Record<string, string>, labels: Record<string, string> = {}) => {
    const maintenance = c.maintenance({ nodes: { rack: c.namespace } });
    Object.assign(maintenance.metadata, { annotations, labels });
    return c.cluster.kube.create(resources.nodeMaintenances, maintenance);
  };
  const rejection = { kind: 'Forbidden', message: expect.stringContaining('the worker may only record') };

  test('records the user of Temporal, or the window for which it creates the maintenance', async () => {
    const temporal = recordOfUser(TEMPORAL_USER);
    expect(recordIn(await create({ [REQUESTER_ANNOTATION]: temporal }))).toBe(temporal);
    const window = recordOfWindow('patches');
    const made = await create({ [REQUESTER_ANNOTATION]: window }, { [WINDOW_LABEL]: 'patches' });
    expect(recordIn(made)).toBe(window);
  });

  test.each([
    { what: 'nobody', record: undefined },
    { what: 'another user', record: forged },
    { what: 'a window without its label', record: recordOfWindow('patches') },
  ])('cannot record $what', async ({ record }) => {
    await expect(
      create(record === undefined ? {} : { [REQUESTER_ANNOTATION]: record }),
    ).rejects.toMatchObject(rejection);
  });

  test('keeps the record when it carries out a request, and changes it only for Temporal', async () => {
    const name = await created(mallory);
    const patch = (record: string | undefined, spec?: object) =>
      c.cluster.kube.mergePatch(
        resources.nodeMaintenances,
        { name },
        { metadata: { annotations: record === undefined ? {} : { [REQUESTER_ANNOTATION]: record } }, spec },
      );
    const temporal = recordOfUser(TEMPORAL_USER);
    await expect(patch(forged, { stage: 'Cordon' })).rejects.toMatchObject(rejection);
    await expect(patch(temporal)).rejects.toMatchObject(rejection);
    await expect(patch(recordOfWindow('patches'), { stage: 'Cordon' })).rejects.toMatchObject(rejection);
    expect(userIn(recordIn(await patch(undefined, { stage: 'Cordon' })))).toBe(mallory);
    expect(userIn(recordIn(await patch(temporal, { stage: 'Complete' })))).toBe(TEMPORAL_USER);
  });
});
