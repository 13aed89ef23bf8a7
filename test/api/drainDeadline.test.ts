import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { type DryRuns, dryRunsIn, type DryRunResult } from '../kit/dryRuns.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { usersDropped, userWith } from '../kit/users.ts';
import { maintenance, selecting } from './objects.ts';

let sandbox: Sandbox;
let c: TestCluster;
let dryRuns: DryRuns;
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
  dryRuns = await dryRunsIn(sandbox);
  c = await testCluster(sandbox, { prefix: 'deadline' });
  [maintainer, tenant, administrator] = await Promise.all([
    userWith(c, everyNode),
    userWith(c, everyNode, { ...deletePods, namespace: 'default' }),
    userWith(c, everyNode, deletePods),
  ]);
  await eventually('the permissions to take effect', async () => {
    for (const user of [maintainer, tenant]) expect(await created(report, user)).toMatchObject(accepted);
    expect(await created(deletes, administrator)).toMatchObject(accepted);
  });
});

afterAll(async () => {
  dryRuns?.close();
  if (c !== undefined) await usersDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const report = { after: '2h' };
const deletes = { after: '2h', onDeadline: 'Delete' };

const accepted = { rejection: '' };

/** Asks the apiserver without storing anything. */
const created = (drainDeadline: object, user?: string): Promise<DryRunResult> =>
  dryRuns.create(resources.nodeMaintenances, maintenance('deadline', { drainDeadline }), user);

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

const createdWindow = (drainDeadline: object, user?: string): Promise<DryRunResult> =>
  dryRuns.create(resources.maintenanceWindows, windowOf(drainDeadline), user);

/** Creates a maintenance as the administrator of the cluster, and patches it without storing that. */
async function patched(spec: object, patch: object, user?: string): Promise<DryRunResult> {
  const key = { name: c.named('patched') };
  const object = maintenance(key.name, spec) as NodeMaintenance;
  const { uid = '' } = (await c.admin.create(resources.nodeMaintenances, object)).metadata;
  try {
    return await dryRuns.patch(resources.nodeMaintenances, key, { spec: patch }, user);
  } finally {
    await c.admin.mergePatch(resources.nodeMaintenances, key, { spec: { stage: 'Complete' } });
    await c.admin.delete(resources.nodeMaintenances, key, { uid });
  }
}

test('A deadline reports by default, and notifies an hour and a quarter of an hour before', async () => {
  const { spec } = (await created(report)).object as NodeMaintenance;
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
    expect((await created(deadline)).rejection).toContain(message);
  });

  test('when the template of a window has one time for all openings', async () => {
    expect(await createdWindow(report)).toMatchObject(accepted);
    const { rejection } = await createdWindow({ at: '2026-01-01T00:00:00Z' });
    expect(rejection).toContain('the window opens many times: use drainDeadline.after');
  });

  test('when it is removed after Idle', async () => {
    const removed = { drainDeadline: null };
    expect(await patched({ drainDeadline: report }, removed)).toMatchObject(accepted);
    const { rejection } = await patched({ stage: 'Drain', drainDeadline: report }, removed);
    expect(rejection).toContain('drainDeadline cannot be removed after Idle: set onDeadline to Report');
  });
});

describe('Delete', () => {
  const denied = {
    rejection: expect.stringContaining(
      'may not delete pods in all namespaces, which Delete requires: request the verb delete on pods in a ClusterRole, or set onDeadline to Report',
    ),
  };

  test('requires the permission to delete pods in all namespaces', async () => {
    for (const user of [maintainer, tenant]) {
      expect(await created(deletes, user)).toMatchObject(denied);
      expect(await createdWindow(deletes, user)).toMatchObject(denied);
    }
    expect(await created(deletes, administrator)).toMatchObject(accepted);
    expect(await createdWindow(deletes, administrator)).toMatchObject(accepted);
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
    expect(await patched(spec, patch, administrator)).toMatchObject(accepted);
  });

  test.each([
    { what: 'turn it off', patch: { drainDeadline: { onDeadline: 'Report' } } },
    { what: 'complete the maintenance', patch: { stage: 'Complete' } },
  ])('is for any maintainer to $what', async ({ patch }) => {
    const result = await patched({ stage: 'Drain', drainDeadline: deletes }, patch, maintainer);
    expect(result).toMatchObject(accepted);
  });
});
