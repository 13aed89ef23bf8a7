import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Node } from '../../api/core.ts';
import { READINESS_TAINT, REQUESTED_BY_ANNOTATION, UNCORDONED_BY_ANNOTATION } from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { DoctorReport } from '../../cli/doctor/doctor.ts';
import { resources } from '../../kube/resources.ts';
import { type Kubectl, kubectlOf, succeeds } from '../api/kubectl.ts';
import { TestDaemonSet } from '../kit/daemonSet.ts';
import { eventually } from '../kit/eventually.ts';
import { gate, ofPool, readinessPolicy } from '../kit/readiness.ts';
import { selectNodes } from '../kit/resources.ts';
import { startNextWorker, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// An installation for an apiserver that does not serve MutatingAdmissionPolicies: the worker's admission server does what they do.

let world: World;
let kubectl: Kubectl;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 2, mutatingPolicies: false });
  kubectl = kubectlOf(world.sandbox);
  worker = startWorker(world.sandbox);
  await worker.ready();
});

afterAll(async () => {
  await worker?.stop();
  await world?.close();
});

const get = async <T>(...args: string[]) =>
  JSON.parse(await succeeds(kubectl(['get', '-o', 'json', ...args]))) as T;

test('a maintenance is recorded with its requester, gets its plan, and drains', async () => {
  const maintenance = {
    apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
    kind: 'NodeMaintenance',
    metadata: { name: 'rack' },
    spec: { stage: 'Drain', nodeSelector: selectNodes(['node-1']) },
  };
  await eventually('the webhooks to answer', () =>
    succeeds(kubectl(['apply', '--server-side', '-f', '-'], maintenance)),
  );
  const { metadata, spec } = await get<NodeMaintenance>('nodemaintenance', 'rack');
  expect(metadata.annotations?.[REQUESTED_BY_ANNOTATION]).toBe('user sandbox-admin (field manager kubectl)');
  expect(spec.drainPlan).toHaveLength(12);
  await world.eventually('rack', 'it is drained', drained);
  await world.patch('rack', { stage: 'Complete' });
  await world.eventually('rack', 'it is finished', finished);
});

test('the maintenance and doctor say what is weaker', async () => {
  const conditionOf = async () =>
    (await get<NodeMaintenance>('nodemaintenance', 'rack')).status?.conditions.find(
      ({ type }) => type === 'MutationsInApiserver',
    );
  const weaker = 'only the worker can create or change maintenances';
  await eventually('the condition', async () =>
    expect(await conditionOf()).toMatchObject({
      status: 'False',
      // Kubernetes before 1.36 does not serve the policies.
      reason: expect.stringMatching(/^PoliciesNot(Served|Installed)$/),
      message: expect.stringContaining(`While no admission server runs: ${weaker}`),
    }),
  );
  const { stdout } = await kubectl(['maintenance', 'doctor', '-o', 'json']);
  const { findings } = JSON.parse(stdout) as DoctorReport;
  expect(findings).toContainEqual(
    expect.objectContaining({
      check: 'kubernetes',
      result: 'warning',
      message: expect.stringContaining(`while none runs: ${weaker}`),
    }),
  );
  // The webhooks in place of the policies are compared with the release, and do what the policies do.
  for (const check of ['installation', 'webhooks', 'certificates'])
    expect(findings.filter((one) => one.check === check).map(({ result }) => result)).toEqual(['ok']);
});

test('a user who uncordons a node is recorded', async () => {
  await succeeds(kubectl(['cordon', 'node-2']));
  await succeeds(kubectl(['uncordon', 'node-2']));
  const { metadata } = await get<Node>('node', 'node-2');
  // Not every version of kubectl sends its field manager.
  expect(metadata.annotations?.[UNCORDONED_BY_ANNOTATION]).toMatch(/^user sandbox-admin/);
});

test('a pod of a DaemonSet returns while no admission server runs, and is evacuated again', async () => {
  const daemons = new TestDaemonSet(world);
  await daemons.create();
  await daemons.eventuallyOn(['node-1', 'node-2'], '1');
  await world.apply('upgrade', { nodes: ['node-1'], stage: 'Drain' });
  await world.eventually('upgrade', 'it is drained', drained);
  const held = await daemons.eventuallyHeld('a pod waits for node-1', 'node-1');
  await worker.kill();
  const key = { namespace: daemons.namespace, name: held.metadata.name };
  await world.kube.delete(resources.pods, key, { uid: held.metadata.uid ?? '' });
  await daemons.eventuallyOn(['node-1', 'node-2'], '1');
  worker = await startNextWorker(world);
  await daemons.eventuallyHeld('the pod to have left node-1 again', 'node-1');
  await world.eventually('upgrade', 'it is drained again', drained);
});

test('a new node is created with the taint of its gates, another one without', async () => {
  const policy = readinessPolicy('agents', ofPool('gated'), [
    gate({ name: 'cni', namespace: 'kube-system' }),
  ]);
  await succeeds(kubectl(['apply', '--server-side', '-f', '-'], policy));
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'new', labels: { pool: 'gated' } } };
  const created = await succeeds(kubectl(['create', '-o', 'json', '-f', '-'], node));
  expect((JSON.parse(created) as Node).spec.taints).toEqual(
    expect.arrayContaining([expect.objectContaining(READINESS_TAINT)]),
  );
  const other = { apiVersion: 'v1', kind: 'Node', metadata: { name: 'other' } };
  const plain = JSON.parse(await succeeds(kubectl(['create', '-o', 'json', '-f', '-'], other))) as Node;
  expect(plain.spec.taints ?? []).not.toContainEqual(expect.objectContaining(READINESS_TAINT));
});
