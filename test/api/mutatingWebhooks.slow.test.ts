import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mutating } from '../../admission/registration.ts';
import { WEBHOOK_CONFIGURATION } from '../../api/names.ts';
import { type Sandbox, startSandbox } from '../../sandbox/sandbox.ts';
import { servedAdmission, type TestAdmission } from '../kit/admission.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { runOptions } from '../kit/sandbox.ts';

/**
 * Runs the tests of the MutatingAdmissionPolicies once more, on an installation for apiservers that do not serve them: an admission server does
 * what the policies do.
 */

const { JEST_WORKER_ID: worker = '1' } = process.env;
const parent = await mkdtemp(join(tmpdir(), 'nm-webhooks-'));
// The tests attach to the sandbox that they find here, and leave the webhooks of policies alone.
process.env['NM_TEST_SANDBOXES'] = parent;
process.env['NM_TEST_MUTATING_WEBHOOKS'] = 'true';

let sandbox: Sandbox;
let c: TestCluster;
let served: TestAdmission;

beforeAll(async () => {
  sandbox = await startSandbox({ ...runOptions(), dir: join(parent, worker), mutatingPolicies: false });
  c = await testCluster(sandbox, { prefix: 'webhooks' });
  served = await servedAdmission(c);
  await eventually('the registration of the webhooks', async () => {
    const configuration = await c.admin.get(mutating, { name: WEBHOOK_CONFIGURATION });
    const webhooks = configuration?.webhooks ?? [];
    expect(webhooks.length).toBeGreaterThan(1);
    expect(webhooks.filter(({ clientConfig }) => clientConfig.caBundle === undefined)).toEqual([]);
  });
});

await import('./daemonSetPolicies.test.ts');
await import('./drainPlanPolicy.test.ts');
await import('./readiness.test.ts');
await import('./requester.test.ts');

// Jest runs these in the order in which they were defined.
afterAll(async () => {
  await served?.stopped();
  await c?.close();
  await sandbox?.discard();
  await rm(parent, { recursive: true, force: true });
});
