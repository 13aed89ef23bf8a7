import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { NodeMaintenanceStage } from '../../../api/nodeMaintenance.ts';
import { runOutageLeasesController } from '../../../controllers/leases/outageLeases.ts';
import { newNodeStatus } from '../../../domain/maintenance/status.ts';
import { resources } from '../../../kube/resources.ts';
import { NodeLeases } from '../../../node-lease/nodeLeases.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { holder } from '../../kit/activity.ts';
import { SettableAvailability } from '../../kit/availability.ts';
import { silentLog as log, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { denyByPolicy } from '../../kit/rejection.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const availability = new SettableAvailability();
const stop = new AbortController();
let running: Promise<void>;

/** Checked every second. */
const leaseDurationSeconds = 6;
/** Fields of the Leases that are written here: one that is renewed gets the shorter duration above. */
const written = { holderIdentity: holder, leaseDurationSeconds: 900 };

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'outage' });
  const leases = new NodeLeases({ kube: c.cluster.kube, holder, leaseDurationSeconds });
  running = runOutageLeasesController({ cluster: c.cluster, leases, availability, log }, stop.signal);
});

afterAll(async () => {
  stop.abort();
  await running;
  await c?.maintenancesDropped();
  await c?.close();
  await releaseSandbox(sandbox);
});

/** A node that a maintenance in this stage has cordoned. */
async function cordoned(stage: NodeMaintenanceStage = 'Drain'): Promise<string> {
  const node = await c.silentNodeNamed('n');
  const applied = await c.applied(c.maintenance({ nodes: [node], stage }));
  await c.withStatus(applied, { nodeStatuses: [{ ...newNodeStatus(node), unschedulableBefore: false }] });
  return node;
}

const durationOf = async (node: string) => (await c.nodeLeaseOf(node))?.spec.leaseDurationSeconds;
const eventuallyRenewed = (node: string) =>
  eventually(`the Lease of ${node} to be renewed`, async () =>
    expect(await durationOf(node)).toBe(leaseDurationSeconds),
  );

test('Leases of cordoned nodes are renewed during an outage only, and no others', async () => {
  const nodes = {
    held: await cordoned(),
    fresh: await cordoned(),
    foreign: await cordoned(),
    released: await cordoned(),
    expired: await cordoned(),
    completed: await cordoned('Complete'),
    unrelated: await c.silentNodeNamed('n'),
  };
  const completed = (await c.admin.list(resources.nodeMaintenances)).items.find(({ status }) =>
    status?.nodeStatuses.some(({ nodeRef }) => nodeRef.name === nodes.completed),
  );
  if (completed !== undefined)
    await c.withStatus(completed, {
      stageStatuses: [{ name: 'Complete', startTimestamp: '2026-01-01T00:00:00Z' }],
    });
  await c.leaseWritten(nodes.held, { ...written, renewed: -500 });
  await c.leaseWritten(nodes.fresh, { ...written, renewed: 0 });
  await c.leaseWritten(nodes.foreign, { ...written, holderIdentity: 'jane', renewed: -500 });
  await c.leaseWritten(nodes.released, { ...written, holderIdentity: '', renewed: -500 });
  await c.leaseWritten(nodes.expired, { ...written, renewed: -5_000 });
  await c.leaseWritten(nodes.completed, { ...written, renewed: -500 });
  await c.leaseWritten(nodes.unrelated, { ...written, renewed: -500 });
  availability.down();
  await eventuallyRenewed(nodes.held);
  // Renewed again and again: it would have expired after six seconds.
  const first = (await c.nodeLeaseOf(nodes.held))?.spec;
  await eventually('another renewal', async () => {
    const spec = (await c.nodeLeaseOf(nodes.held))?.spec;
    expect(spec?.renewTime).not.toBe(first?.renewTime);
    expect(spec).toMatchObject({ holderIdentity: holder, acquireTime: first?.acquireTime });
  });
  const { held: _held, ...others } = nodes;
  for (const node of Object.values(others)) expect([node, await durationOf(node)]).toEqual([node, 900]);
  availability.up();
  const last = await cordoned();
  await c.leaseWritten(last, { ...written, renewed: -500 });
  availability.down();
  await eventuallyRenewed(last);
});

test('a Lease whose renewal is rejected prevents no other renewal', async () => {
  availability.up();
  // More than are renewed at the same time.
  const rejected = await Promise.all(Array.from({ length: 10 }, () => cordoned()));
  for (const node of rejected) await c.leaseWritten(node, { ...written, renewed: -500 });
  const expression = `!(object.metadata.name in ${JSON.stringify(rejected)})`;
  const rule = {
    apiGroups: ['coordination.k8s.io'],
    apiVersions: ['v1'],
    operations: ['UPDATE'],
    resources: ['leases'],
  };
  const admit = await denyByPolicy(c.admin, c.named('denied'), {
    failurePolicy: 'Fail',
    matchConstraints: { resourceRules: [rule] },
    validations: [{ expression, message: 'on loan' }],
  });
  try {
    const [one = ''] = rejected;
    await eventually('the policy to deny', () =>
      expect(c.leaseWritten(one, { ...written, renewed: -500 })).rejects.toThrow('on loan'),
    );
    const node = await cordoned();
    await c.leaseWritten(node, { ...written, renewed: -500 });
    availability.down();
    await eventuallyRenewed(node);
    expect(await durationOf(one)).toBe(900);
  } finally {
    await admit();
  }
});
