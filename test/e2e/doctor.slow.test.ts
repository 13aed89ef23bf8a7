import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import type { KubeObject } from '../../api/core.ts';
import {
  INSTIGATOR_FINALIZER,
  KUBELET_LEASE_NAMESPACE,
  NODE_LEASE_NAMESPACE,
  READINESS_TAINT,
  SYSTEM_NAMESPACE,
  temporalNames,
  WEBHOOK_CONFIGURATION,
} from '../../api/names.ts';
import { cloudEventOf } from '../../api/notification.ts';
import type { DoctorReport } from '../../cli/doctor/doctor.ts';
import { evacuationName } from '../../domain/evacuation/evacuation.ts';
import type { ReportedFinding } from '../../domain/doctor/finding.ts';
import { blocked } from '../../domain/notifications/events.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import { addAttributes } from '../../temporal-config/namespace.ts';
import { kubeconfigOf } from '../kit/account.ts';
import { eventually } from '../kit/eventually.ts';
import {
  clusterRoleBindings,
  clusterRoles,
  policies,
  serviceAccounts,
  validatingWebhooks,
} from '../kit/resources.ts';
import { servingCertificate } from '../kit/servingCertificate.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// Everything is broken really, one after the other, and repaired again.

const dayMs = 86_400_000;
const program = fileURLToPath(new URL('../../cli/main.ts', import.meta.url));

let world: World;
let controllers: WorkerProcess;
let admission: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 2, ownServers: true });
  // As in a cluster, where each has a Deployment.
  [controllers, admission] = ['controllers', 'admission'].map((name) =>
    startWorker(world.sandbox, { args: ['--components', name] }),
  ) as [WorkerProcess, WorkerProcess];
  await Promise.all([controllers.ready(), admission.ready()]);
  // A development server keeps histories for a day.
  await world.temporal.workflowService.updateNamespace({
    namespace: 'default',
    config: { workflowExecutionRetentionTtl: msToTs(30 * dayMs) },
  });
});

afterAll(async () => {
  await Promise.all([controllers?.kill(), admission?.kill()]);
  await world?.close();
});

interface Answer {
  code: number;
  stdout: string;
  stderr: string;
}

function doctor(args: string[] = [], env: Record<string, string> = {}): Promise<Answer> {
  const options = { env: { ...world.sandbox.env, HOME: world.sandbox.dir, NODE_OPTIONS: '', ...env } };
  return new Promise((resolve) =>
    execFile(process.execPath, [program, 'doctor', ...args], options, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    ),
  );
}

interface Examined extends DoctorReport {
  code: number;
  problems: ReportedFinding[];
}

async function examined(args: string[] = [], env: Record<string, string> = {}): Promise<Examined> {
  const { code, stdout, stderr } = await doctor(['-o', 'json', ...args], env);
  if (!stdout.startsWith('{')) throw new Error(`exit code ${code}: ${stderr}`);
  const report = JSON.parse(stdout) as DoctorReport;
  return { ...report, code, problems: report.findings.filter(({ result }) => result !== 'ok') };
}

/** Waits until the command finds this problem, and returns all that it finds then. */
function eventuallyFinds(
  wanted: Partial<Record<keyof ReportedFinding, unknown>>,
  args: string[] = [],
  env: Record<string, string> = {},
): Promise<Examined> {
  return eventually(`the finding ${JSON.stringify(wanted)}`, async () => {
    const report = await examined(args, env);
    expect(report.problems).toContainEqual(expect.objectContaining(wanted));
    return report;
  });
}

const eventuallyHealthy = () =>
  eventually('a healthy installation', async () => {
    const { problems, code } = await examined();
    expect({ problems, code }).toEqual({ problems: [], code: 0 });
  });

/** Returns the environment of a user: a ServiceAccount with these ClusterRoles. */
async function userWith(...granted: string[]): Promise<{ KUBECONFIG: string }> {
  const name = `user-${granted.length}-${crypto.randomUUID().slice(0, 5)}`;
  const namespace = 'default';
  await world.kube.create(serviceAccounts, { metadata: { name, namespace } });
  for (const role of granted)
    await world.kube.create(clusterRoleBindings, {
      metadata: { name: `${name}-${role}` },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    } as KubeObject);
  return { KUBECONFIG: await kubeconfigOf(world.sandbox, { namespace, name }, world.sandbox.dir) };
}

test('a healthy installation has no problem: every check says so, and nothing is stored', async () => {
  await eventuallyHealthy();
  const { findings, result, version } = await examined();
  expect({ result, version }).toEqual({ result: 'ok', version: '0.1.0' });
  expect([...new Set(findings.map(({ check }) => check))]).toEqual([
    'kubernetes',
    'installation',
    'permissions',
    'webhooks',
    'certificates',
    'processes',
    'clocks',
    'temporal',
    'maintenances',
    'windows',
    'evacuations',
    'evacuators',
    'budgets',
    'leases',
    'nodes',
  ]);
  const { code, stdout, stderr } = await doctor();
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/^ok {8}kubernetes {5}Kubernetes v1\.\d+/);
  expect(stdout).toMatch(/\n0 errors, 0 warnings \(kubectl maintenance 0\.1\.0\)\n$/);
  expect((await world.kube.list(resources.nodeMaintenances)).items).toEqual([]);
});

describe('what is stuck is found with its remedy:', () => {
  test('a PodDisruptionBudget that never allows a disruption', async () => {
    await world.deployment('db', 1);
    await world.budget('db', { app: 'db' }, { minAvailable: 1 });
    const { code } = await eventuallyFinds({
      check: 'budgets',
      result: 'warning',
      object: 'poddisruptionbudget/default/db',
      message: expect.stringContaining('add a replica or relax the budget'),
    });
    // Nothing is broken yet.
    expect(code).toBe(0);
    const key = { namespace: 'default', name: 'db' };
    const uid = (await world.kube.get(resources.podDisruptionBudgets, key))?.metadata.uid ?? '';
    await world.kube.delete(resources.podDisruptionBudgets, key, { uid });
  });

  test('an evacuator that pods name and that no program serves', async () => {
    const annotations = { 'evacuation.coordination.k8s.io/priority_move.example.com': '5/app' };
    const [name = ''] = await world.placePods('node-1', 1, { annotations });
    await eventuallyFinds({
      check: 'evacuators',
      result: 'warning',
      object: 'evacuator/move.example.com',
      message: expect.stringContaining(`default/${name}`),
      remedy: expect.stringContaining('start a program that serves the class'),
    });
    const uid = (await world.kube.get(resources.pods, { namespace: 'default', name }))?.metadata.uid ?? '';
    const key = { namespace: 'default', name: evacuationName({ name, uid }) };
    await world.kube.create(resources.evacuations, {
      metadata: { ...key, finalizers: [INSTIGATOR_FINALIZER] },
      spec: { podRef: { name, uid }, progressDeadlineSeconds: 1800 },
    });
    const { code } = await eventuallyFinds(
      { check: 'evacuators', result: 'error', message: expect.stringContaining('does not respond') },
      ['--stuck-after', '1s'],
    );
    expect(code).toBe(1);
    // The worker removes the Evacuation then.
    await world.kube.delete(resources.pods, { namespace: 'default', name }, { uid, gracePeriodSeconds: 0 });
    await eventually('the Evacuation to be gone', async () =>
      expect(await world.kube.get(resources.evacuations, key)).toBeUndefined(),
    );
  });

  test('a maintenance that is deleted, and that a finalizer of others keeps', async () => {
    await world.apply('kept', { nodes: ['node-2'] });
    await world.kube.mergePatch(
      resources.nodeMaintenances,
      { name: 'kept' },
      {
        metadata: { finalizers: ['example.com/cmdb'] },
      },
    );
    const uid = (await world.maintenance('kept'))?.metadata.uid ?? '';
    await world.kube.delete(resources.nodeMaintenances, { name: 'kept' }, { uid });
    const wanted = {
      check: 'maintenances',
      result: 'error',
      object: 'nodemaintenance/kept',
      message: expect.stringContaining('still has finalizers example.com/cmdb'),
      remedy: expect.stringContaining('kubectl maintenance status kept'),
    };
    await eventuallyFinds(wanted, ['--stuck-after', '1s']);
    // It was deleted a moment ago.
    expect((await examined()).problems).not.toContainEqual(
      expect.objectContaining({ check: 'maintenances' }),
    );
    const { code, stdout } = await doctor(['--stuck-after', '1s']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/\nerror +maintenances +nodemaintenance\/kept: it was deleted \d+ s ago/);
    expect(stdout).toMatch(/\n +Remedy: check that a worker is the leader/);
    await world.kube.mergePatch(
      resources.nodeMaintenances,
      { name: 'kept' },
      { metadata: { finalizers: null } },
    );
  });

  test('a node whose clock is wrong', async () => {
    const key = { namespace: KUBELET_LEASE_NAMESPACE, name: 'node-9' };
    const renewTime = microTime(new Date(world.kube.now().getTime() + 3_600_000));
    const { metadata } = await world.kube.create(resources.leases, {
      metadata: key,
      spec: { holderIdentity: 'node-9', renewTime },
    });
    await eventuallyFinds({
      check: 'clocks',
      result: 'warning',
      message: 'the clock of node node-9 is 60 min ahead of that of the apiserver',
    });
    await world.kube.delete(resources.leases, key, { uid: metadata.uid ?? '' });
  });

  test('histories that Temporal deletes too early', async () => {
    const retainedFor = (days: number) =>
      world.temporal.workflowService.updateNamespace({
        namespace: 'default',
        config: { workflowExecutionRetentionTtl: msToTs(days * dayMs) },
      });
    await retainedFor(3);
    await eventuallyFinds({
      check: 'temporal',
      result: 'warning',
      message: expect.stringContaining('for 3 days only, and 30 days are expected'),
    });
    await retainedFor(30);
  });

  test('a search attribute that is missing, with the command that creates it', async () => {
    const { operatorService } = world.temporal.connection;
    const name = 'MaintenanceNodes';
    await operatorService.removeSearchAttributes({ namespace: 'default', searchAttributes: [name] });
    await eventuallyFinds({
      check: 'temporal',
      result: 'error',
      object: 'temporal-namespace/default',
      message: expect.stringContaining(`no search attribute ${name}`),
      remedy: expect.stringContaining(
        `temporal operator search-attribute create --namespace default --name ${name} --type KeywordList`,
      ),
    });
    await addAttributes(world.temporal.connection, 'default', { [name]: 'KeywordList' });
    await eventuallyHealthy();
  });
});

test('notifications that no worker delivers are found, and nothing is found when they are gone', async () => {
  const maintenance = { name: 'rack-7', uid: crypto.randomUUID() };
  const blocker = { reason: 'EvictionRejected', message: 'Rejected.' };
  const pod = { pod: 'shop/db-0', node: 'node-1', blocker };
  const event = cloudEventOf(blocked(maintenance, pod, new Date().toISOString()), 'lab');
  const { taskQueue, notificationTaskQueue } = temporalNames(undefined);
  const request = { event, taskQueue: notificationTaskQueue, timeoutSeconds: 10, retryUntilSeconds: 3_600 };
  // As a worker with an endpoint enqueues one; those of this test have none.
  const run = await world.temporal.workflow.start('notify', {
    workflowId: 'notify-doctor',
    taskQueue,
    args: [request],
  });
  await eventuallyFinds({
    check: 'temporal',
    result: 'warning',
    message: `1 notification waits on task queue ${notificationTaskQueue}, which no worker polls`,
    remedy: expect.stringContaining('--notify-url'),
  });
  await run.terminate('the test ends');
  await eventuallyHealthy();
});

describe('a user who', () => {
  test('may do nothing learns what was not checked, and which role checks it', async () => {
    const { code, findings, problems } = await examined([], await userWith());
    expect(code).toBe(0);
    expect(findings).toContainEqual(expect.objectContaining({ check: 'kubernetes', result: 'ok' }));
    const forbidden = problems.filter(({ message }) => message.startsWith('not checked: '));
    expect(forbidden.map(({ check }) => check)).toEqual(
      expect.arrayContaining(['installation', 'certificates', 'processes', 'maintenances', 'nodes']),
    );
    for (const { message, remedy } of forbidden.filter(({ check }) => check !== 'temporal')) {
      expect(message).toMatch(/is forbidden: User "system:serviceaccount:default:user-/);
      expect(remedy).toMatch(/^bind the ClusterRole (node-maintenance-(view|doctor)|cluster-admin)$/);
    }
    expect(problems).toContainEqual(
      expect.objectContaining({
        check: 'permissions',
        message: expect.stringContaining('may not see maintenances'),
      }),
    );
  });

  test('has the roles view and doctor gets every check but those that need more', async () => {
    const env = await userWith('node-maintenance-view', 'node-maintenance-doctor');
    // On a busy machine Temporal may not answer in time.
    await eventually('the problems of these roles only', async () => {
      const { code, problems } = await examined([], env);
      expect(code).toBe(0);
      expect(problems.map(({ check, message }) => `${check}: ${message}`)).toEqual([
        expect.stringMatching(/^permissions: user system:\S+ may not create and change maintenances/),
        expect.stringMatching(/^permissions: not checked: .*subjectaccessreviews/),
        expect.stringMatching(/^webhooks: not checked whether the apiserver reaches the webhooks/),
      ]);
    });
  });

  test('cannot reach Temporal gets a warning, and what the worker reports', async () => {
    const { code, findings } = await examined([], { TEMPORAL_ADDRESS: '127.0.0.1:1' });
    expect(code).toBe(0);
    expect(findings.filter(({ check }) => check === 'temporal')).toEqual([
      expect.objectContaining({
        result: 'warning',
        message: expect.stringContaining('no response from 127.0.0.1:1'),
      }),
      expect.objectContaining({
        result: 'ok',
        message: 'no maintenance reports that the worker cannot use Temporal',
      }),
    ]);
  });
});

describe('the admission server', () => {
  test('whose authority another client replaces is reported as the apiserver sees it', async () => {
    const operator = await userWith(
      'node-maintenance-view',
      'node-maintenance-operator',
      'node-maintenance-doctor',
    );
    // Otherwise the server registers itself again at once.
    const key = { name: 'node-maintenance-admission' };
    const role = (await world.kube.get(clusterRoles, key)) as KubeObject & {
      rules: { resources: string[]; verbs: string[] }[];
    };
    const crippled = role.rules.map((rule) =>
      rule.resources.includes('validatingwebhookconfigurations')
        ? { ...rule, verbs: rule.verbs.filter((verb) => verb !== 'patch') }
        : rule,
    );
    await world.kube.mergePatch(clusterRoles, key, { rules: crippled });
    await eventuallyFinds({
      check: 'permissions',
      result: 'error',
      object: `serviceaccount/${SYSTEM_NAMESPACE}/node-maintenance-admission`,
      message: expect.stringContaining('may not patch validatingwebhookconfigurations'),
    });
    const { authority } = await servingCertificate();
    const foreign = Buffer.from(authority.certificate).toString('base64');
    const { webhooks = [] } = (await world.kube.get(validatingWebhooks, {
      name: WEBHOOK_CONFIGURATION,
    })) as KubeObject & { webhooks?: object[] };
    await world.kube.jsonPatch(
      validatingWebhooks,
      { name: WEBHOOK_CONFIGURATION },
      webhooks.map((_, index) => ({
        op: 'replace' as const,
        path: `/webhooks/${index}/clientConfig/caBundle`,
        value: foreign,
      })),
    );
    // A webhook that fails closed is called for this user.
    const { problems, code } = await eventuallyFinds(
      {
        check: 'webhooks',
        result: 'error',
        message: expect.stringMatching(/cannot call webhook authorization\.nodemaintenance\.k8s\.io.*x509/),
        remedy: expect.stringContaining(
          'the caBundle of the webhook configurations is not that of the server',
        ),
      },
      [],
      operator,
    );
    expect(code).toBe(1);
    expect(problems).toContainEqual(
      expect.objectContaining({
        check: 'webhooks',
        message: expect.stringContaining('another address or certificate authority'),
      }),
    );
    // For an administrator all webhooks fail open.
    await eventuallyFinds({ check: 'webhooks', message: expect.stringContaining('gets no answer') });
    // As the remedies say: the permission, and a restart.
    await world.kube.mergePatch(clusterRoles, key, { rules: role.rules });
    await admission.kill();
    admission = startWorker(world.sandbox, { args: ['--components', 'admission'] });
    await admission.ready();
    await eventuallyHealthy();
  });

  test('that is gone is reported', async () => {
    await admission.kill();
    const { problems, code } = await eventuallyFinds({
      check: 'webhooks',
      result: 'error',
      message: expect.stringMatching(
        /gets no answer from the admission server: webhooks with failurePolicy Fail \(authorization\) reject /,
      ),
      remedy: expect.stringContaining('start the admission server'),
    });
    expect(code).toBe(1);
    expect(problems.every(({ check }) => ['webhooks', 'processes'].includes(check))).toBe(true);
    admission = startWorker(world.sandbox, { args: ['--components', 'admission'] });
    await admission.ready();
    await eventuallyHealthy();
  });
});

describe('without a worker', () => {
  beforeAll(() => controllers.kill());

  test('no process leads, and none polls', async () => {
    const { code } = await eventuallyFinds({
      check: 'processes',
      result: 'error',
      object: `lease/${SYSTEM_NAMESPACE}/node-maintenance-controllers`,
      message: expect.stringMatching(/^no process is the leader of the control loops for \d+ s/),
      remedy: expect.stringContaining('start a worker'),
    });
    expect(code).toBe(1);
    await eventuallyFinds({
      check: 'processes',
      result: 'warning',
      message: expect.stringMatching(/^worker on \S+ no longer renews its identity Lease/),
    });
  });

  test('a Lease that nobody renews, and a taint that nobody removes, are named', async () => {
    const key = { namespace: NODE_LEASE_NAMESPACE, name: 'node-2' };
    const renewTime = microTime(new Date(world.kube.now().getTime() - 3_600_000));
    const spec = { holderIdentity: 'backup', leaseDurationSeconds: 60, renewTime, acquireTime: renewTime };
    await world.kube.mergePatch(resources.leases, key, { spec });
    await eventuallyFinds({
      check: 'leases',
      result: 'warning',
      object: `lease/${NODE_LEASE_NAMESPACE}/node-2`,
      message: expect.stringContaining('"backup" stopped renewing the maintenance Lease'),
    });
    await world.kube.mergePatch(resources.nodes, { name: 'node-2' }, { spec: { taints: [READINESS_TAINT] } });
    await eventuallyFinds(
      {
        check: 'nodes',
        result: 'error',
        object: 'node/node-2',
        message: expect.stringContaining('no readiness gate'),
      },
      ['--stuck-after', '1s'],
    );
  });

  test('a Temporal namespace that does not exist is named', async () => {
    await eventuallyFinds(
      {
        check: 'temporal',
        result: 'error',
        message: 'namespace nowhere of Temporal does not exist',
        remedy: expect.stringContaining('npm run temporal-config -- apply'),
      },
      [],
      { TEMPORAL_NAMESPACE: 'nowhere' },
    );
  });

  test('a CRD or policy that is missing is named', async () => {
    const name = 'evacuation-requester.nodemaintenance.k8s.io';
    const uid = (await world.kube.get(policies, { name }))?.metadata.uid ?? '';
    await world.kube.delete(policies, { name }, { uid });
    await eventuallyFinds({
      check: 'installation',
      result: 'error',
      message: expect.stringContaining(`ValidatingAdmissionPolicy ${name} is missing`),
      remedy: expect.stringContaining('kubectl apply --server-side -k deploy'),
    });
  });
});
