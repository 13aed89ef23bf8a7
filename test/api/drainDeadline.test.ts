import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { usersDropped, userWith } from '../kit/users.ts';
import { type Answer, type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { maintenance, selecting } from './objects.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
/** May maintain every node; may also delete pods in one namespace; in all of them. */
let maintainer: string;
let tenant: string;
let administrator: string;

const everyNode = {
  rules: [
    { apiGroups: [''], resources: ['nodes'], verbs: ['delete'] },
    { apiGroups: ['nodemaintenance.k8s.io'], resources: ['*'], verbs: ['create', 'update', 'patch', 'get'] },
  ],
};
const deletePods = { rules: [{ apiGroups: [''], resources: ['pods'], verbs: ['delete'] }] };

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  c = await testCluster(sandbox, { prefix: 'deadline' });
  [maintainer, tenant, administrator] = await Promise.all([
    userWith(c, everyNode),
    userWith(c, everyNode, { ...deletePods, namespace: 'default' }),
    userWith(c, everyNode, deletePods),
  ]);
  await eventually('the permissions to take effect', async () => {
    for (const user of [maintainer, tenant]) await succeeds(created(report, user));
    await succeeds(created(deletes, administrator));
  });
});

afterAll(async () => {
  if (c !== undefined) await usersDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const report = { after: '2h' };
const deletes = { after: '2h', onDeadline: 'Delete' };

const as = (user: string | undefined) => (user === undefined ? [] : ['--as', user]);

/** Asks the apiserver without storing anything. */
const created = (drainDeadline: object, user?: string): Promise<Answer> =>
  kubectl(
    ['create', '--dry-run=server', '-o', 'json', '-f', '-', ...as(user)],
    maintenance('deadline', { drainDeadline }),
  );

const windowOf = (drainDeadline: object) => ({
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'MaintenanceWindow',
  metadata: { name: 'deadline' },
  spec: {
    schedule: { cron: '0 2 * * 6', timeZone: 'Europe/Berlin', duration: '4h' },
    nodeSelector: selecting({ key: 'rack', operator: 'Exists' }),
    template: { drainDeadline },
  },
});

const createdWindow = (drainDeadline: object, user?: string): Promise<Answer> =>
  kubectl(['create', '--dry-run=server', '-f', '-', ...as(user)], windowOf(drainDeadline));

/** Creates a maintenance as the administrator of the cluster, and patches it without storing that. */
async function patched(spec: object, patch: object, user?: string): Promise<Answer> {
  const name = c.named('patched');
  await succeeds(kubectl(['create', '-f', '-'], maintenance(name, spec)));
  try {
    const options = ['--dry-run=server', '--type=merge', '-p', JSON.stringify({ spec: patch })];
    return await kubectl(['patch', 'nm', name, ...options, ...as(user)]);
  } finally {
    await kubectl(['patch', 'nm', name, '--type=merge', '-p', '{"spec":{"stage":"Complete"}}']);
    await kubectl(['delete', 'nm', name, '--wait=false']);
  }
}

test('A deadline reports by default, and notifies an hour and a quarter of an hour before', async () => {
  const { spec } = JSON.parse(await succeeds(created(report))) as NodeMaintenance;
  expect(spec.drainDeadline).toEqual({
    after: '2h',
    onDeadline: 'Report',
    steps: [
      { before: '60m', action: 'Notify' },
      { before: '15m', action: 'Notify' },
    ],
  });
});

describe('a deadline is rejected', () => {
  test.each([
    { when: 'it has neither after nor at', with: {}, message: 'exactly one of after and at: remove one' },
    {
      when: 'it has both',
      with: { after: '2h', at: '2026-01-01T00:00:00Z' },
      message: 'exactly one of after and at: remove one of the two, or add one',
    },
    { when: 'it has no unit', with: { after: '90' }, message: 'spec.drainDeadline.after' },
    { when: 'it is no duration', with: { after: 'soon' }, message: 'spec.drainDeadline.after' },
    { when: 'it is nothing', with: { after: '0s' }, message: 'must be between 1s and 720h' },
    { when: 'it is years', with: { after: '9000h' }, message: 'must be between 1s and 720h' },
    { when: 'its time is no time', with: { at: 'tomorrow' }, message: 'spec.drainDeadline.at' },
    {
      when: 'it asks for something else',
      with: { after: '2h', onDeadline: 'Force' },
      message: 'Unsupported value: "Force": supported values: "Report", "Delete"',
    },
    {
      when: 'its steps are out of order',
      with: { after: '2h', steps: [{ before: '15m' }, { before: '1h' }] },
      message: 'write the longest before first',
    },
    {
      when: 'a step is repeated in another unit',
      with: { after: '2h', steps: [{ before: '60m' }, { before: '1h' }] },
      message: 'each time once',
    },
    {
      when: 'a step does something else',
      with: { after: '2h', steps: [{ before: '60m', action: 'Delete' }] },
      message: 'supported values: "Notify"',
    },
    {
      when: 'it has more than 16 steps',
      with: { after: '2h', steps: Array.from({ length: 17 }, (_, i) => ({ before: `${60 - i}m` })) },
      message: 'must have at most 16 items',
    },
  ])('when $when', async ({ with: deadline, message }) => {
    const { code, stderr } = await created(deadline);
    expect(code).toBe(1);
    expect(stderr).toContain(message);
  });

  test('when the template of a window has one time for all openings', async () => {
    await succeeds(createdWindow(report));
    expect(await createdWindow({ at: '2026-01-01T00:00:00Z' })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('the window opens many times: use after'),
    });
  });

  test('when it is removed after Idle', async () => {
    const removed = { drainDeadline: null };
    await succeeds(patched({ drainDeadline: report }, removed));
    const answer = await patched({ stage: 'Drain', drainDeadline: report }, removed);
    expect(answer.stderr).toContain('drainDeadline cannot be removed after Idle: set onDeadline to Report');
  });
});

describe('Delete', () => {
  const denied = {
    code: 1,
    stderr: expect.stringContaining(
      'may not delete pods in all namespaces, which Delete requires: request the verb delete on pods in a ClusterRole, or set onDeadline to Report',
    ),
  };

  test('requires the permission to delete pods in all namespaces', async () => {
    for (const user of [maintainer, tenant]) {
      expect(await created(deletes, user)).toMatchObject(denied);
      expect(await createdWindow(deletes, user)).toMatchObject(denied);
    }
    await succeeds(created(deletes, administrator));
    await succeeds(createdWindow(deletes, administrator));
  });

  test.each([
    { what: 'set it', spec: { drainDeadline: report }, patch: { drainDeadline: { onDeadline: 'Delete' } } },
    {
      what: 'have it delete earlier',
      spec: { drainDeadline: deletes },
      patch: { drainDeadline: { after: '1m' } },
    },
    {
      what: 'have it delete on other nodes',
      spec: { drainDeadline: deletes },
      patch: { nodeSelector: selecting({ key: 'rack', operator: 'Exists' }) },
    },
    { what: 'start the drain', spec: { drainDeadline: deletes }, patch: { stage: 'Drain' } },
  ])('is not for others to $what', async ({ spec, patch }) => {
    expect(await patched(spec, patch, maintainer)).toMatchObject(denied);
    await succeeds(patched(spec, patch, administrator));
  });

  test.each([
    { what: 'turn it off', patch: { drainDeadline: { onDeadline: 'Report' } } },
    { what: 'complete the maintenance', patch: { stage: 'Complete' } },
  ])('is for any maintainer to $what', async ({ patch }) => {
    await succeeds(patched({ stage: 'Drain', drainDeadline: deletes }, patch, maintainer));
  });
});
