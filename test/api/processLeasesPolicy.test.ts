import { createHash } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SYSTEM_NAMESPACE as namespace } from '../../api/names.ts';
import { connectKube, type Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

// The policy process-leases.nodemaintenance.k8s.io: which Leases the tokens of worker and admission server may write.

let sandbox: Sandbox;
let admin: Kube;
let worker: Kube;
let admission: Kube;

const identityOf = (component: string) =>
  `${component}-${createHash('sha256').update('a host of this test').digest('hex')}`;
const [ofWorker, ofAdmission] = [
  identityOf('node-maintenance-worker'),
  identityOf('node-maintenance-admission'),
];
const foreign = 'another-lease';

beforeAll(async () => {
  sandbox = await testSandbox();
  const connect = (kubeconfig: string) => connectKube({ kubeconfig, userAgent: 'attacker', log: silentLog });
  [admin, worker, admission] = [
    sandbox.kubeconfig,
    sandbox.workerKubeconfig,
    sandbox.admissionKubeconfig,
  ].map(connect) as [Kube, Kube, Kube];
  await eventually('the policy to be known', () =>
    expect(created(worker, foreign)).rejects.toThrow(/may only/),
  );
});

afterAll(async () => {
  for (const name of [ofWorker, ofAdmission, foreign]) await removed(admin, name);
  await Promise.all([admin, worker, admission].map((kube) => kube?.close()));
  await releaseSandbox(sandbox);
});

const created = (kube: Kube, name: string) =>
  kube.create(resources.leases, { metadata: { namespace, name }, spec: {} });
const stolen = (kube: Kube, name: string) =>
  kube.mergePatch(resources.leases, { namespace, name }, { spec: { holderIdentity: 'attacker' } });

async function removed(kube: Kube, name: string): Promise<void> {
  const uid = (await admin.get(resources.leases, { namespace, name }))?.metadata.uid;
  if (uid !== undefined) await kube.delete(resources.leases, { namespace, name }, { uid });
}

/** Creates a Lease as the administrator unless a process of another test has it, for the duration of `act`. */
async function withLease(name: string, act: () => Promise<void>): Promise<void> {
  const exists = (await admin.get(resources.leases, { namespace, name })) !== undefined;
  if (!exists) await created(admin, name);
  await act();
  if (!exists) await removed(admin, name);
}

const denied = (component: string, lease: string) => ({
  kind: 'Forbidden',
  message: expect.stringMatching(new RegExp(`${component} may only write Lease .*, not ${lease}`)),
});

test.each([
  { component: 'node-maintenance-admission', theirs: 'node-maintenance-controllers' },
  { component: 'node-maintenance-admission', theirs: ofWorker },
  { component: 'node-maintenance-admission', theirs: foreign },
  { component: 'node-maintenance-worker', theirs: 'node-maintenance-admission' },
  { component: 'node-maintenance-worker', theirs: ofAdmission },
  { component: 'node-maintenance-worker', theirs: foreign },
])('$component may not take Lease $theirs', async ({ component, theirs }) => {
  const attacker = component === 'node-maintenance-worker' ? worker : admission;
  await withLease(theirs, async () => {
    await expect(stolen(attacker, theirs)).rejects.toMatchObject(denied(component, theirs));
  });
});

test.each(['node-maintenance-controllers', foreign])('admission may not delete Lease %s', async (name) => {
  await withLease(name, async () => {
    await expect(removed(admission, name)).rejects.toMatchObject({ kind: 'Forbidden' });
  });
});

test('each writes its own, and deletes the identity Leases of the other', async () => {
  await created(worker, ofWorker);
  await stolen(worker, ofWorker);
  await removed(admission, ofWorker);
  await created(admission, ofAdmission);
  await stolen(admission, ofAdmission);
  await removed(worker, ofAdmission);
});
