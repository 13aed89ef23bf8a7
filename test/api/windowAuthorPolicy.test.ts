import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type MaintenanceWindow,
  MaintenanceWindowSpec,
  WindowSchedule,
} from '../../api/maintenanceWindow.ts';
import {
  WINDOW_FINALIZER,
  WindowOverrideAnnotation,
  WindowRequestAnnotation,
  WORK_NAMESPACE,
} from '../../api/names.ts';
import { comparedFields, comparedScheduleFields, maxNamedNodes } from '../../admission/windowAuthorPolicy.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { allowed, type DryRuns, dryRunsIn, type DryRunResult } from '../kit/dryRuns.ts';
import { eventually } from '../kit/eventually.ts';
import { selectNodes } from '../kit/resources.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type Grant, permit, usersDropped, userWith } from '../kit/users.ts';
import { type Kubectl, kubectlOf, succeeds } from './kubectl.ts';
import { selecting } from './objects.ts';

let sandbox: Sandbox;
let c: TestCluster;
let kubectl: Kubectl;
let dryRuns: DryRuns;
/** Users, by what they may do in addition to the ClusterRole node-maintenance-scheduler. */
let scheduler: string;
let nodeOwner: string;
let ownerOfThree: string;
let ownerOfMany: string;
let jobAuthor: string;

const namesOf = (count: number) => Array.from({ length: count }, (_, i) => `rack-${i}`);
const nodes = (resourceNames?: string[]): Grant => ({
  rules: [
    { apiGroups: [''], resources: ['nodes'], verbs: ['delete'], ...(resourceNames && { resourceNames }) },
  ],
});
const jobs: Grant = {
  namespace: WORK_NAMESPACE,
  rules: [{ apiGroups: ['batch'], resources: ['jobs'], verbs: ['create'] }],
};

beforeAll(async () => {
  sandbox = await testSandbox();
  kubectl = kubectlOf(sandbox);
  dryRuns = await dryRunsIn(sandbox);
  c = await testCluster(sandbox, { prefix: 'author' });
  const role = { clusterRoles: ['node-maintenance-scheduler'] };
  [scheduler, nodeOwner, ownerOfThree, ownerOfMany, jobAuthor] = await Promise.all([
    userWith(c, role),
    userWith(c, role, nodes()),
    userWith(c, role, nodes(namesOf(3))),
    userWith(c, role, nodes(namesOf(maxNamedNodes + 1))),
    userWith(c, role, nodes(), jobs),
  ]);
  await eventually('the permissions and the policy to take effect', async () => {
    expect(await created(scheduler, {})).toMatchObject(denied(everyNode));
    expect(await created(ownerOfThree, byName(3))).toMatchObject(allowed);
    expect(await created(ownerOfMany, byName(maxNamedNodes))).toMatchObject(allowed);
    expect(await created(jobAuthor, job)).toMatchObject(allowed);
    expect(await created(nodeOwner, {})).toMatchObject(allowed);
  });
});

afterAll(async () => {
  dryRuns?.close();
  if (c !== undefined) await usersDropped(c);
  await c?.close();
  await releaseSandbox(sandbox);
});

const denied = (message: string) => ({ status: 403, rejection: expect.stringContaining(message) });
const everyNode = 'may not delete every node, which a window that drains them requires: request the verb';
const schedule = { cron: '0 2 * * 6', timeZone: 'Europe/Berlin', duration: '4h' };
const rootPod = {
  spec: {
    hostPID: true,
    containers: [{ name: 'root', image: 'root', securityContext: { privileged: true } }],
  },
};
const job = { work: { type: 'Job', job: { template: rootPod } } };
const { Approve, Resume, Cancel } = WindowRequestAnnotation;
const asking = (key: string) => ({ metadata: { annotations: { [key]: 'run-id' } } });
const { Paused, SkippedDates } = WindowOverrideAnnotation;
const overriding = (annotations: Record<string, string | null>) => ({ metadata: { annotations } });
const byName = (count: number) => ({ nodeSelector: selectNodes(namesOf(count)) });

const windowOf = (spec: object, name = c.named('window')) => ({
  apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
  kind: 'MaintenanceWindow',
  metadata: { name },
  spec: { schedule, nodeSelector: selecting({ key: 'rack', operator: 'Exists' }), ...spec },
});

/** Asks the apiserver without storing anything. */
const created = (user: string, spec: object): Promise<DryRunResult> =>
  dryRuns.create(resources.maintenanceWindows, windowOf(spec), user);

/** Stores a window as the administrator while `use` runs. */
async function stored<T>(
  spec: object,
  annotations: Record<string, string>,
  use: (name: string) => Promise<T>,
): Promise<T> {
  const { metadata, ...rest } = windowOf({ suspend: true, ...spec });
  const object = { ...rest, metadata: { ...metadata, annotations } } as unknown as MaintenanceWindow;
  const { name, uid = '' } = (await c.admin.create(resources.maintenanceWindows, object)).metadata;
  try {
    return await use(name);
  } finally {
    await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
  }
}

/** Creates a window as the administrator, and patches it as the user without storing that. */
const patched = (
  user: string,
  spec: object,
  patch: object,
  annotations: Record<string, string> = {},
): Promise<DryRunResult> =>
  stored(spec, annotations, (name) => dryRuns.patch(resources.maintenanceWindows, { name }, patch, user));

describe('a user who may write windows, and delete no node,', () => {
  test.each([
    { what: 'a window', spec: {} },
    { what: 'a window that runs privileged pods on every node', spec: job },
    { what: 'a suspended window', spec: { suspend: true } },
    { what: 'a window of no node yet', spec: { nodeSelector: { nodeSelectorTerms: [{}] } } },
    {
      what: 'a window of all nodes but one',
      spec: {
        nodeSelector: {
          nodeSelectorTerms: [
            { matchFields: [{ key: 'metadata.name', operator: 'NotIn', values: ['rack-0'] }] },
          ],
        },
      },
    },
  ])('may not create $what', async ({ spec }) => {
    const result = await created(scheduler, spec);
    expect(result).toMatchObject(denied(everyNode));
    expect(result.rejection).toContain(`spec.nodeSelector: user "${scheduler}"`);
  });

  test.each([
    { what: 'its work', patch: { spec: { work: { type: 'Job', job: { template: rootPod } } } } },
    { what: 'its nodes', patch: { spec: byName(1) } },
    { what: 'its schedule', patch: { spec: { schedule: { cron: '* * * * *' } } } },
    { what: 'its limits', patch: { spec: { rollout: { maxUnavailable: '100%' } } } },
    { what: 'its approval', patch: { spec: { approval: 'None' } } },
    { what: 'its drain plan', patch: { spec: { template: { reason: 'other' } } } },
    { what: 'what happens at its end', patch: { spec: { onWindowEnd: 'HoldCurrent' } } },
    { what: 'that it is suspended', patch: { spec: { suspend: false } } },
    { what: 'the openings that it skips', patch: { spec: { schedule: { exceptions: ['2027-01-02'] } } } },
    {
      what: 'its schedule while it suspends it',
      patch: { spec: { suspend: true, schedule: { duration: '5h' } } },
    },
  ])('may not change $what', async ({ patch }) => {
    const spec = { approval: 'PerNode', schedule: { ...schedule, exceptions: ['2027-01-01'] } };
    expect(await patched(scheduler, spec, patch)).toMatchObject(denied('may not delete'));
  });

  test.each([
    { what: 'suspend it', spec: { suspend: false }, patch: { spec: { suspend: true } } },
    {
      what: 'let it skip openings',
      spec: { schedule: { ...schedule, exceptions: ['2027-01-01'] } },
      patch: { spec: { schedule: { exceptions: ['2026-12-31', '2027-01-01'] } } },
    },
    { what: 'label it', spec: {}, patch: { metadata: { labels: { team: 'sre' } } } },
    { what: 'apply what it is already', spec: job, patch: { spec: job } },
  ])('may $what', async ({ spec, patch }) => {
    expect(await patched(scheduler, spec, patch)).toMatchObject(allowed);
  });

  test.each(Object.entries(WindowRequestAnnotation))(
    'may not ask it to %s while it is open, whatever else the change does',
    async (_name, key) => {
      for (const patch of [asking(key), { ...asking(key), spec: { suspend: true } }]) {
        const result = await patched(scheduler, { suspend: false }, patch);
        expect(result).toMatchObject(denied(everyNode));
        expect(result.rejection).toContain(`metadata.annotations[${key}]: user "${scheduler}"`);
      }
    },
  );

  test('may not change the request of another user to one of their own, but withdraw it', async () => {
    const asScheduler = (value: string | null) =>
      patched(scheduler, {}, { metadata: { annotations: { [Approve]: value } } }, { [Approve]: 'run-id' });
    expect(await asScheduler('run-id:rack-1')).toMatchObject(denied(everyNode));
    expect(await asScheduler(null)).toMatchObject(allowed);
  });

  test.each([
    { what: 'pause it', before: {}, after: { [Paused]: 'kernel bug' } },
    {
      what: 'pause it for another reason',
      before: { [Paused]: 'kernel bug' },
      after: { [Paused]: 'outage' },
    },
    { what: 'skip an opening', before: {}, after: { [SkippedDates]: '2027-01-02' } },
    {
      what: 'skip another opening',
      before: { [SkippedDates]: '2027-01-02' },
      after: { [SkippedDates]: '2026-12-24,2027-01-02' },
    },
  ])('may $what by annotation', async ({ before, after }) => {
    expect(await patched(scheduler, {}, overriding(after), before)).toMatchObject(allowed);
  });

  test.each([
    { what: 'resume it', key: Paused, before: { [Paused]: 'kernel bug' }, after: { [Paused]: null } },
    {
      what: 'skip an opening no longer',
      key: SkippedDates,
      before: { [SkippedDates]: '2026-12-24,2027-01-02' },
      after: { [SkippedDates]: '2027-01-02' },
    },
    {
      what: 'skip nothing any more',
      key: SkippedDates,
      before: { [SkippedDates]: '2027-01-02' },
      after: { [SkippedDates]: null },
    },
  ])('may not $what by annotation', async ({ key, before, after }) => {
    const result = await patched(scheduler, {}, overriding(after), before);
    expect(result).toMatchObject(denied(everyNode));
    expect(result.rejection).toContain(`metadata.annotations[${key}]: user "${scheduler}"`);
    expect(await patched(nodeOwner, {}, overriding(after), before)).toMatchObject(allowed);
    expect(await patched(nodeOwner, job, overriding(after), before)).toMatchObject(
      denied('may not create Jobs'),
    );
  });

  test('may not remove its finalizer, with which its nodes would stay cordoned', async () => {
    const { metadata, ...rest } = windowOf({ suspend: true });
    const object = { ...rest, metadata: { ...metadata, finalizers: [WINDOW_FINALIZER] } };
    const { name, uid = '' } = (
      await c.admin.create(resources.maintenanceWindows, object as unknown as MaintenanceWindow)
    ).metadata;
    const released = { metadata: { finalizers: null } };
    const asked = (user: string) => dryRuns.patch(resources.maintenanceWindows, { name }, released, user);
    const refused = await asked(scheduler);
    expect(refused).toMatchObject(denied(everyNode));
    expect(refused.rejection).toContain(`metadata.finalizers: user "${scheduler}"`);
    expect(await asked(nodeOwner)).toMatchObject(allowed);
    await c.admin.mergePatch(resources.maintenanceWindows, { name }, released);
    await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
  });

  test('may delete it', async () => {
    const name = c.named('window');
    await succeeds(kubectl(['create', '-f', '-'], windowOf({ suspend: true }, name)));
    const deleted = await kubectl(['delete', 'mw', name, '--wait=false', '--as', scheduler]);
    expect(deleted).toMatchObject({ code: 0, stderr: '' });
  });
});

describe('the annotations of a window', () => {
  const skips = (dates: string) => ({ [SkippedDates]: dates });
  const days = (count: number) =>
    Array.from({ length: count }, (_, day) => new Date(day * 86_400_000).toISOString().slice(0, 10));

  test.each([
    { what: 'a pause without a reason', annotations: { [Paused]: ' ' }, key: Paused },
    { what: 'a pause that is "false"', annotations: { [Paused]: 'false' }, key: Paused },
    { what: 'a reason of two lines', annotations: { [Paused]: 'a\nb' }, key: Paused },
    { what: 'a long reason', annotations: { [Paused]: 'a'.repeat(257) }, key: Paused },
    { what: 'a time instead of a date', annotations: skips('2027-01-02T03:00'), key: SkippedDates },
    { what: 'dates with spaces', annotations: skips('2027-01-02, 2027-01-03'), key: SkippedDates },
    { what: 'no date', annotations: skips(''), key: SkippedDates },
    { what: 'too many dates', annotations: skips(days(101).join(',')), key: SkippedDates },
  ])('must not be $what', async ({ annotations, key }) => {
    const { rejection } = await patched(nodeOwner, {}, overriding(annotations));
    expect(rejection).toContain(`metadata.annotations[${key}]: expected `);
  });

  test('may be a reason, and as many dates as the policies can compare', async () => {
    const [all, others] = [skips(days(100).join(',')), skips(days(200).slice(100).join(','))];
    for (const annotations of [{ [Paused]: 'Störung: disk 1/2, see "runbook"' }, all])
      expect(await patched(nodeOwner, {}, overriding(annotations))).toMatchObject(allowed);
    expect(await patched(nodeOwner, {}, overriding(others), all)).toMatchObject(allowed);
    expect(await patched(scheduler, {}, overriding({ label: 'x' }), all)).toMatchObject(allowed);
  });
});

test('kubectl maintenance window: the scheduler role pauses and skips, and needs more to resume', async () => {
  const account = { namespace: c.namespace, name: 'default' };
  const role = { clusterRoles: ['node-maintenance-scheduler'] };
  await permit(c, `system:serviceaccount:${account.namespace}:${account.name}`, role);
  const dir = await mkdtemp(join(tmpdir(), 'scheduler-'));
  const name = c.named('window');
  try {
    const kubeconfig = await kubeconfigOf(sandbox, account, dir);
    const verb = (of: string) => kubectl(['maintenance', 'window', of, name, '--kubeconfig', kubeconfig]);
    await succeeds(kubectl(['create', '-f', '-'], windowOf({}, name)));
    await eventually('the permission to take effect', async () =>
      expect(await verb('pause')).toMatchObject({ code: 0, stderr: '' }),
    );
    expect(await verb('skip')).toMatchObject({ code: 0, stderr: '' });
    const { code, stderr } = await verb('resume');
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(everyNode) });
    expect(stderr).not.toContain('bind the ClusterRole');
  } finally {
    await kubectl(['delete', 'mw', name, '--ignore-not-found', '--wait=false']);
    await rm(dir, { recursive: true, force: true });
  }
});

describe('a user who may delete some nodes', () => {
  test('may write a window that selects them by name', async () => {
    expect(await created(ownerOfThree, byName(3))).toMatchObject(allowed);
    const [term] = selectNodes(namesOf(1)).nodeSelectorTerms;
    const labelled = { ...term, matchExpressions: [{ key: 'rack', operator: 'Exists' }] };
    const nodeSelector = { nodeSelectorTerms: [labelled] };
    expect(await created(ownerOfThree, { nodeSelector })).toMatchObject(allowed);
  });

  test('may not write a window that names another one, and learns which', async () => {
    const { rejection } = await created(ownerOfThree, byName(4));
    expect(rejection).toContain(
      `spec.nodeSelector: user "${ownerOfThree}" may not delete node rack-3, which a window that drains it requires: request the verb delete on nodes, or remove the node from the selector`,
    );
  });

  test('may not write a window of which one term selects nodes by label', async () => {
    const { nodeSelectorTerms } = selectNodes(namesOf(1));
    const byLabel = { matchExpressions: [{ key: 'rack', operator: 'Exists' }] };
    const nodeSelector = { nodeSelectorTerms: [...nodeSelectorTerms, byLabel] };
    expect((await created(ownerOfThree, { nodeSelector })).rejection).toContain(everyNode);
  });

  test('may approve, resume and cancel it, and not one of another node', async () => {
    for (const key of [Approve, Resume, Cancel]) {
      expect(await patched(ownerOfThree, byName(3), asking(key))).toMatchObject(allowed);
      expect((await patched(ownerOfThree, byName(4), asking(key))).rejection).toContain(
        `metadata.annotations[${key}]: user "${ownerOfThree}" may not delete node rack-3`,
      );
    }
    expect(await patched(ownerOfMany, byName(maxNamedNodes), asking(Approve))).toMatchObject(allowed);
  });

  test('may name as many as the policy can check, and no more', async () => {
    expect(await created(ownerOfMany, byName(maxNamedNodes))).toMatchObject(allowed);
    expect((await created(ownerOfMany, byName(maxNamedNodes + 1))).rejection).toContain(everyNode);
  });
});

describe('a window that runs a Job', () => {
  test('requires the right to create Jobs in their namespace', async () => {
    expect(await created(nodeOwner, job)).toMatchObject(
      denied(
        `spec.work: user "${nodeOwner}" may not create Jobs in namespace node-maintenance-work, which a window that runs a Job requires: request the verb create on jobs in this namespace, or set work.type to None`,
      ),
    );
    expect(await created(jobAuthor, job)).toMatchObject(allowed);
  });

  test('requires it of a user who approves or resumes it, but not of one who cancels it', async () => {
    for (const key of [Approve, Resume]) {
      expect((await patched(nodeOwner, job, asking(key))).rejection).toContain('may not create Jobs');
      expect(await patched(jobAuthor, job, asking(key))).toMatchObject(allowed);
    }
    expect(await patched(nodeOwner, job, asking(Cancel))).toMatchObject(allowed);
    expect((await patched(scheduler, job, asking(Cancel))).rejection).toContain(everyNode);
  });

  test('also requires it of a user who changes something else', async () => {
    const longer = { spec: { schedule: { duration: '5h' } } };
    expect((await patched(nodeOwner, job, longer)).rejection).toContain('may not create Jobs');
    expect(await patched(jobAuthor, job, longer)).toMatchObject(allowed);
  });
});

test('the policy compares every field of the spec: a new one must not be changed unchecked', () => {
  expect([...comparedFields, 'schedule', 'suspend'].toSorted()).toEqual(
    Object.keys(MaintenanceWindowSpec.shape).toSorted(),
  );
  expect([...comparedScheduleFields, 'exceptions'].toSorted()).toEqual(
    Object.keys(WindowSchedule.shape).toSorted(),
  );
});
