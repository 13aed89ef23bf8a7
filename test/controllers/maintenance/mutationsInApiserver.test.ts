import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import { runMutationsController } from '../../../controllers/maintenance/mutationsInApiserver.ts';
import type { MutatingPolicies } from '../../../domain/common/mutations.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog as log, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let stop: AbortController | undefined;
let running: Promise<void> | undefined;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'mutations' });
});

afterEach(async () => {
  stop?.abort();
  await running;
  await c.maintenancesDropped();
});

afterAll(async () => {
  await c?.close();
  await releaseSandbox(sandbox);
});

/** Runs the controller as on an apiserver with these policies. */
function controlling(readPolicies: () => Promise<MutatingPolicies>): void {
  stop = new AbortController();
  running = runMutationsController({ cluster: c.cluster, readPolicies, log, everyMs: 50 }, stop.signal);
}

const started = async () => {
  const { metadata } = await c.applied(c.maintenance({ nodes: ['none'], stage: 'Drain' }));
  const status = { observedGeneration: metadata.generation, conditions: [] };
  return c.withStatus(await c.maintenanceNow(metadata.name), status);
};

const reported = async ({ metadata: { name } }: NodeMaintenance) => {
  const { conditions = [] } = (await c.maintenanceNow(name)).status ?? {};
  return conditions
    .filter(({ type }) => type === 'MutationsInApiserver')
    .map(({ status, reason }) => `${status} ${reason}`);
};

test('webhooks in place of policies are reported, until the policies are installed', async () => {
  let policies: MutatingPolicies = 'NotServed';
  let failures = 1;
  controlling(() => {
    // An apiserver that does not answer is asked again.
    if (failures-- > 0) return Promise.reject(new Error('no answer from the apiserver'));
    return Promise.resolve(policies);
  });
  const before = await started();
  const eventuallyReported = (maintenance: NodeMaintenance, want: string) =>
    eventually(want, async () => expect(await reported(maintenance)).toEqual([want]));
  await eventuallyReported(before, 'False PoliciesNotServed');
  const later = await started();
  await eventuallyReported(later, 'False PoliciesNotServed');
  policies = 'NotInstalled';
  for (const one of [before, later]) await eventuallyReported(one, 'False PoliciesNotInstalled');
  policies = 'Installed';
  for (const one of [before, later]) await eventuallyReported(one, 'True PoliciesInstalled');
  const last = await started();
  await c.caughtUpWith(last);
  expect(await reported(last)).toEqual([]);
});
