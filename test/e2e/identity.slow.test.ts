import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { KubeObject, Lease } from '../../api/core.ts';
import { INSTIGATOR_FINALIZER } from '../../api/names.ts';
import { TASK_QUEUE } from '../kit/temporalNames.ts';
import { processOf, startIdOf } from '../../domain/leases/identityLease.ts';
import { evacuationName } from '../../domain/evacuation/evacuation.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import { readManifests } from '../../manifests/read.ts';
import { renderManifests } from '../../manifests/render.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// The sentences of KEP-1965 > Test Plan, with "process" in place of "kube-apiserver", and who leads among processes.

const namespace = 'node-maintenance';
const worker = 'node-maintenance-worker';
const rbac = (plural: string, kind: string): Resource => ({
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural,
  kind,
  namespaced: true,
});

let world: World;
const processes: WorkerProcess[] = [];
/** The workers of the tests, in order of their start. */
let first: WorkerProcess;
let second: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 1, install: false, ownServers: true });
});

afterAll(async () => {
  // A process that is suspended can be killed, but does not react to SIGTERM.
  for (const one of processes) await one.kill();
  await world?.close();
});

function start(...args: string[]): WorkerProcess {
  const started = startWorker(world.sandbox, { args });
  processes.push(started);
  return started;
}

function startAsAdministrator(...args: string[]): WorkerProcess {
  const { kubeconfig } = world.sandbox;
  const env = { KUBECONFIG: kubeconfig, ADMISSION_KUBECONFIG: kubeconfig };
  const started = startWorker(world.sandbox, { args, env });
  processes.push(started);
  return started;
}

const nameOf = (component: string, text: string) =>
  `${component}-${createHash('sha256').update(text).digest('hex')}`;
const leaseNamed = (name: string, where = namespace) =>
  world.kube.get(resources.leases, { namespace: where, name });
const ofHost = () => leaseNamed(nameOf(worker, hostname()));
const temporalIdentityOf = ({ pid }: WorkerProcess) => `${pid}@${hostname()}`;

/** Returns the processes that have an identity Lease: their component, and their Temporal identity if they have one. */
async function listed(): Promise<string[]> {
  const { items } = await world.kube.list(resources.leases, { namespace, labelSelector: 'k8s.io/component' });
  return items
    .map(({ metadata: { labels, annotations } }) =>
      [
        labels?.['k8s.io/component'],
        processOf(annotations?.['nodemaintenance.k8s.io/temporal-identity'] ?? ''),
      ]
        .join(' ')
        .trim(),
    )
    .toSorted((a, b) => a.localeCompare(b));
}

/** Returns the Temporal identity of the leader, from its identity Lease. */
async function leader(): Promise<string | undefined> {
  const { items } = await world.kube.list(resources.leases, { namespace });
  const election = items.find(({ metadata }) => metadata.name === 'node-maintenance-controllers');
  const isTheirs = ({ metadata, spec }: Lease) =>
    metadata.labels?.['k8s.io/component'] === worker && spec.holderIdentity === election?.spec.holderIdentity;
  const { annotations } = items.find(isTheirs)?.metadata ?? {};
  return processOf(annotations?.['nodemaintenance.k8s.io/temporal-identity'] ?? '');
}

const leads = (one: WorkerProcess) =>
  eventually('this worker to lead', async () => expect(await leader()).toBe(temporalIdentityOf(one)));

const logs = (one: WorkerProcess, text: string, times = 1) =>
  eventually(`the log to contain ${times} x "${text}"`, () =>
    expect(one.log().split(text).length - 1).toBeGreaterThanOrEqual(times),
  );

/** Returns the identities of the workers that polled for tasks. */
async function pollers(): Promise<string[]> {
  const { pollers: observed } = await world.temporal.workflowService.describeTaskQueue({
    namespace: 'default',
    taskQueue: { name: TASK_QUEUE },
    taskQueueType: 1,
  });
  return (observed ?? []).map(({ identity }) => processOf(identity ?? ''));
}

async function readiness(one: WorkerProcess): Promise<string> {
  const port = /"health":(\d+)/.exec(one.log())?.[1];
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`);
  return `${answer.status} ${await answer.text()}`.trim();
}

describe('identity Leases', () => {
  test('no work is done before "creating the Lease": a missing namespace is waited for', async () => {
    const manifests = renderManifests(await readManifests(), {
      namespace: 'later',
      webhookHosts: ['127.0.0.1'],
    });
    const isOfNamespace = ({ kind, metadata }: KubeObject) =>
      metadata.namespace !== undefined || kind === 'Namespace';
    const items = manifests.filter((manifest) => !isOfNamespace(manifest));
    const list = { apiVersion: 'v1', kind: 'List', items };
    await succeeds(kubectlOf(world.sandbox)(['apply', '--server-side', '-f', '-'], list));
    const early = startAsAdministrator('--namespace', 'later', '--components', 'admission');
    await logs(early, 'Waiting for the identity Lease');
    expect(await readiness(early)).toContain('503 waiting for the identity Lease: ');
    expect(await readiness(early)).toContain('namespaces "later" not found: namespace later must exist');
    expect(early.log()).not.toContain('Admission server started');
    await world.kube.create(resources.namespaces, { metadata: { name: 'later' } });
    await logs(early, 'Admission server started');
    const name = nameOf('node-maintenance-admission', hostname());
    expect((await leaseNamed(name, 'later'))?.spec.holderIdentity).toMatch(new RegExp(`^${name}_`));
    await early.kill();
  });

  test('"creating the Namespace and the Lease on" start-up', async () => {
    first = startAsAdministrator('--install');
    await first.ready();
    expect(await world.kube.get(resources.namespaces, { name: namespace })).toBeDefined();
    const lease = await ofHost();
    expect(lease?.metadata.labels?.['kubernetes.io/hostname']).toBe(hostname());
    expect(lease?.metadata.annotations).toMatchObject({
      'nodemaintenance.k8s.io/version': expect.stringMatching(/^\d+\.\d+\.\d+/),
      'nodemaintenance.k8s.io/temporal-identity': `${temporalIdentityOf(first)}_${startIdOf(lease?.spec.holderIdentity ?? '')}`,
      'nodemaintenance.k8s.io/temporal-namespace': 'default',
      'nodemaintenance.k8s.io/task-queue': 'node-maintenance',
    });
    await eventually('it to poll', async () => expect(await pollers()).toContain(temporalIdentityOf(first)));
  });

  test('no work is done before "creating the Lease": a namespace that RBAC forbids is waited for', async () => {
    const roleBindings = rbac('rolebindings', 'RoleBinding');
    const { metadata, ...binding } = (await world.kube.get(roleBindings, {
      namespace,
      name: worker,
    })) as KubeObject;
    await world.kube.delete(roleBindings, { namespace, name: worker }, { uid: metadata.uid ?? '' });
    const forbidden = start();
    await logs(forbidden, 'Waiting for CRDs, policies and RBAC');
    const problem = `this process may not get, list, create, patch, delete leases in namespace ${namespace}`;
    expect(await readiness(forbidden)).toContain(`503 waiting for CRDs, policies and RBAC: ${problem}`);
    expect(forbidden.log()).not.toContain('Informers synced');
    expect(await pollers()).not.toContain(temporalIdentityOf(forbidden));
    expect(await listed()).not.toContain(`${worker} ${temporalIdentityOf(forbidden)}`);
    const { labels } = metadata;
    await world.kube.create(roleBindings, {
      ...binding,
      metadata: { namespace, name: worker, labels },
    } as KubeObject);
    await forbidden.ready();
    expect(await listed()).toContain(`${worker} ${temporalIdentityOf(forbidden)}`);
    expect(forbidden.log().split(problem)).toHaveLength(2);
    expect(await forbidden.stop()).toBe(0);
  });

  test('"the existence of the Lease objects per" process', async () => {
    second = start();
    const admission = start('--components', 'admission');
    await Promise.all([second.ready(), admission.ready()]);
    const expected = [
      'node-maintenance-admission',
      ...[first, second].map((one) => `${worker} ${temporalIdentityOf(one)}`),
    ];
    await eventually('each process to be listed', async () =>
      expect(await listed()).toEqual(expected.toSorted((a, b) => a.localeCompare(b))),
    );
    expect((await ofHost())?.metadata.annotations).toMatchObject({
      'nodemaintenance.k8s.io/temporal-identity': expect.stringContaining(`${temporalIdentityOf(second)}_`),
    });
    const metrics = await Promise.all([first, admission].map((one) => one.metrics()));
    for (const text of metrics)
      expect(text).toMatch(/^node_maintenance_identity_lease_renewed_timestamp_seconds \d/m);
    expect(await admission.stop()).toBe(0);
  });

  test('a process that is restarted has "a newly generated ID", and the Lease of a host that is gone "is garbage collected"', async () => {
    const before = await ofHost();
    const gone: Lease = {
      metadata: { name: nameOf(worker, 'gone'), namespace, labels: { 'k8s.io/component': worker } },
      spec: {
        ...before?.spec,
        renewTime: new Date(Date.now() - 3_700_000).toISOString().replace('Z', '000Z'),
      },
    };
    await world.kube.create(resources.leases, gone);
    expect(await second.stop()).toBe(0);
    expect((await ofHost())?.spec.holderIdentity).toBe(before?.spec.holderIdentity);
    second = start();
    await second.ready();
    const after = await ofHost();
    expect(after?.metadata.uid).toBe(before?.metadata.uid);
    expect(after?.spec.holderIdentity).not.toBe(before?.spec.holderIdentity);
    expect(after?.spec.leaseTransitions).toBe((before?.spec.leaseTransitions ?? 0) + 1);
    await eventually('the Lease of the host that is gone to be collected', async () =>
      expect(await leaseNamed(gone.metadata.name)).toBeUndefined(),
    );
    expect(await listed()).toContain(`${worker} ${temporalIdentityOf(first)}`);
  });
});

describe('a process whose identity Lease is shorter than its life', () => {
  const durationSeconds = 10;
  const short = [`--identity-lease-duration=${durationSeconds}`, '--identity-lease-renew-interval=1'];
  /** The process that the tests are about, and one that deletes the expired Leases of others. */
  let outliving: WorkerProcess;
  let collector: WorkerProcess;
  let name: string;
  const lease = () => leaseNamed(name);

  beforeAll(async () => {
    collector = start('--components', 'admission', ...short);
    await collector.ready();
    outliving = start('--components', 'admission', ...short);
    await outliving.ready();
    name = nameOf('node-maintenance-admission', hostname());
  });
  afterAll(async () => {
    await Promise.all([outliving.kill(), collector.kill()]);
  });

  test('keeps it: "not garbage collecting a Lease that is refreshed"', async () => {
    const born = await lease();
    expect(born?.spec.leaseDurationSeconds).toBe(durationSeconds);
    const secondsOf = (time = '') => Date.parse(time) / 1_000;
    await eventually('it to have lived three times as long', async () => {
      const spec = (await lease())?.spec;
      const lived = secondsOf(spec?.renewTime) - secondsOf(spec?.acquireTime);
      expect(lived).toBeGreaterThan(3 * durationSeconds);
    });
    const last = await lease();
    expect(last?.metadata.uid).toBe(born?.metadata.uid);
    expect(last?.spec.holderIdentity).toBe(born?.spec.holderIdentity);
    expect(last?.spec.leaseTransitions).toBe(born?.spec.leaseTransitions);
    expect(await listed()).toContain('node-maintenance-admission');
  });

  test('loses it while it is stopped: "garbage collecting a Lease that isn\'t refreshed"; it has one again when it is resumed', async () => {
    const before = await lease();
    process.kill(outliving.pid, 'SIGSTOP');
    await eventually('its Lease to be collected', async () => expect(await lease()).toBeUndefined());
    await logs(collector, `"lease":"${namespace}/${name}"`);
    process.kill(outliving.pid, 'SIGCONT');
    const after = await eventually('another Lease', async () => {
      const found = await lease();
      expect(found?.spec.holderIdentity).toBe(before?.spec.holderIdentity);
      return found;
    });
    expect(after?.metadata.uid).not.toBe(before?.metadata.uid);
    expect(await readiness(outliving)).toBe('200 ok');
  });
});

test('a process without an identity Lease works, is not listed, and has no metrics of one', async () => {
  const before = await listed();
  const silent = start('--identity-leases', 'false');
  await silent.ready();
  await eventually('it to poll', async () => expect(await pollers()).toContain(temporalIdentityOf(silent)));
  expect(await listed()).toEqual(before);
  expect(await silent.metrics()).not.toContain('node_maintenance_identity_lease');
  await silent.kill();
});

describe('a leading worker that is stopped for longer than its Lease lasts', () => {
  test('is replaced by another one, which does the work', async () => {
    await leads(first);
    process.kill(first.pid, 'SIGSTOP');
    await leads(second);
    await logs(second, 'Control loops started');
    await world.placePods('node-1', 1);
    const [pod] = await world.podsOn('node-1');
    const { name = '', namespace: where = '', uid = '' } = pod?.metadata ?? {};
    const metadata = {
      namespace: where,
      name: evacuationName({ name, uid }),
      finalizers: [INSTIGATOR_FINALIZER],
    };
    await eventually('the Evacuation to be created', () =>
      world.kube.create(resources.evacuations, {
        metadata,
        spec: { podRef: { name, uid }, progressDeadlineSeconds: 1800 },
      }),
    );
    await eventually('the pod to be evacuated', async () => expect(await world.podsOn('node-1')).toEqual([]));
    expect(await leader()).toBe(temporalIdentityOf(second));
  });

  test('logs the loss of leadership when it is resumed, and stops its control loops: one leads', async () => {
    process.kill(first.pid, 'SIGCONT');
    await logs(first, 'Control loops stopped');
    expect(first.log()).toMatch(
      /"lease":"node-maintenance\/node-maintenance-controllers".*"Leadership was lost"/,
    );
    expect(await leader()).toBe(temporalIdentityOf(second));
    await eventually('it to be ready again', async () => expect(await readiness(first)).toBe('200 ok'));
  });

  test('leads again at once when the other one is stopped', async () => {
    const stopped = second.stop();
    await leads(first);
    await logs(first, 'Control loops started', 2);
    expect(await stopped).toBe(0);
    expect(second.log()).toContain('Leadership was released');
  });
});
