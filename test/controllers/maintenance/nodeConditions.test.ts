import { runNodeConditionsController } from '../../../controllers/maintenance/nodeConditions.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { holder } from '../../kit/activity.ts';
import { pods } from '../../kit/builders.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually, throughout } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const stop = new AbortController();
let running: Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'shown' });
  running = runNodeConditionsController({ cluster: c.cluster, holder, log: silentLog }, stop.signal);
});

afterAll(async () => {
  await c?.close();
  stop.abort();
  await running;
  await releaseSandbox(sandbox);
});

/** A node whose maintenance Lease is ours. */
async function heldNode(): Promise<string> {
  const node = await c.nodeNamed('n');
  await c.leaseWritten(node, { holderIdentity: holder, leaseDurationSeconds: 900, renewed: 0 });
  return node;
}

/** `Type Status Reason: message` of the node's conditions of maintenance. */
async function shown(node: string): Promise<string[]> {
  const conditions = (await c.node(node)).status?.conditions ?? [];
  return conditions
    .filter(({ type }) => /Maintenance|Drain/.test(type))
    .map(({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`);
}

const eventuallyShown = (node: string, want: string[]) =>
  eventually(`the conditions of node ${node}`, async () => expect(await shown(node)).toEqual(want));

describe('the conditions of a node', () => {
  test('appear a second after its Lease was acquired: earlier, they would conflict with the cordon', async () => {
    const node = await c.nodeNamed('n');
    const term = { holderIdentity: holder, leaseDurationSeconds: 900, renewed: 0 };
    const { spec } = await c.leaseWritten(node, term);
    await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const shownAt = await eventually('the condition', async () => {
      const { conditions = [] } = (await c.node(node)).status ?? {};
      const found = conditions.find(({ type }) => type === 'MaintenanceInProgress');
      expect(found).toBeDefined();
      return Date.parse(found?.lastTransitionTime ?? '');
    });
    // Conditions have whole seconds.
    const dueAt = Math.floor(Date.parse(spec.acquireTime ?? '') / 1_000 + 1) * 1_000;
    expect(shownAt).toBeGreaterThanOrEqual(dueAt);
  });

  test('name the maintenances that hold it, follow their stages, and are removed when it is uncordoned', async () => {
    const node = await heldNode();
    const { metadata } = await c.applied(c.maintenance({ nodes: [node], stage: 'Idle' }));
    const other = await c.applied(
      c.maintenance({ name: `${metadata.name}-z`, nodes: [node], stage: 'Cordon' }),
    );
    const both = `NodeMaintenance ${metadata.name} (Drain), ${other.metadata.name} (Cordon)`;
    const own = `NodeMaintenance ${metadata.name} (Drain)`;
    await eventuallyShown(node, [
      `MaintenanceInProgress True AdminRequested: NodeMaintenance ${other.metadata.name} (Cordon)`,
      'DrainInProgress False NotRequested: No NodeMaintenance drains the node.',
      'Drained False NotRequested: No NodeMaintenance drains the node.',
    ]);
    const drain = await c.staged(metadata.name, 'Drain');
    await eventuallyShown(node, [
      `MaintenanceInProgress True AdminRequested: ${both}`,
      `DrainInProgress True AdminRequested: ${own}`,
      `Drained False AdminRequested: ${own}`,
    ]);
    const done = { reason: 'AllPodsTerminated', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' };
    const nodeStatuses = [{ nodeRef: { name: node }, drainTargets: [pods(2_147_483_647)] }];
    await c.withStatus(drain, { nodeStatuses, conditions: [{ type: 'Drained', status: 'True', ...done }] });
    await eventuallyShown(node, [
      `MaintenanceInProgress True AdminRequested: ${both}`,
      `DrainInProgress False DrainCompleted: ${own}`,
      `Drained True DrainCompleted: ${own}`,
    ]);
    const conditions = (await c.node(node)).status?.conditions ?? [];
    expect(conditions.map(({ type }) => type)).toContain('Ready');
    await c.staged(metadata.name, 'Complete');
    await c.deleted(other);
    await eventuallyShown(node, []);
    expect((await c.node(node)).status?.conditions?.length).toBe(conditions.length - 3);
  });

  test('are not Drained for a node that was selected by a drained maintenance a moment ago', async () => {
    const rack = c.named('rack');
    const node = await heldNode();
    const applied = await c.applied(c.maintenance({ nodes: { rack }, stage: 'Drain' }));
    const done = { reason: 'AllPodsTerminated', message: '', lastTransitionTime: '2026-01-01T00:00:00Z' };
    await c.withStatus(applied, { conditions: [{ type: 'Drained', status: 'True', ...done }] });
    await c.patched(resources.nodes, { name: node }, { metadata: { labels: { rack } } });
    const own = `NodeMaintenance ${applied.metadata.name} (Drain)`;
    await eventuallyShown(node, [
      `MaintenanceInProgress True AdminRequested: ${own}`,
      `DrainInProgress True AdminRequested: ${own}`,
      `Drained False AdminRequested: ${own}`,
    ]);
    await c.staged(applied.metadata.name, 'Complete');
    await eventuallyShown(node, []);
  });

  test('are restored when a user removes them, and otherwise written once', async () => {
    const applies = () => c.requests.count('apply nodes');
    const before = applies();
    const node = await heldNode();
    const { metadata } = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    await eventually('three conditions', async () => expect(await shown(node)).toHaveLength(3));
    const ready = (await c.node(node)).status?.conditions?.filter(({ type }) => type === 'Ready');
    await c.withStatus({ ...(await c.node(node)), kind: 'Node' }, { conditions: ready });
    await eventually('three conditions', async () => expect(await shown(node)).toHaveLength(3));
    await c.caughtUpWith({ ...(await c.node(node)), kind: 'Node' });
    await eventually('the responses to both writes', () =>
      expect(applies()).toBeGreaterThanOrEqual(before + 2),
    );
    const written = await c.requests.writesOf(async () => {
      await c.patched(
        resources.nodes,
        { name: node },
        {
          metadata: { labels: { touched: 'yes' } },
        },
      );
    });
    expect(written).toEqual([]);
    await c.staged(metadata.name, 'Complete');
    await eventuallyShown(node, []);
  });

  test('are added only while its maintenance Lease is ours, and removed for any holder', async () => {
    const node = await c.nodeNamed('n');
    await c.leaseWritten(node, { holderIdentity: 'kubeadm-jane' });
    const { metadata } = await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
    const conditions = [
      `MaintenanceInProgress True AdminRequested: NodeMaintenance ${metadata.name} (Cordon)`,
      'DrainInProgress False NotRequested: No NodeMaintenance drains the node.',
      'Drained False NotRequested: No NodeMaintenance drains the node.',
    ];
    await throughout('a node of another holder has none', 500, async () =>
      expect(await shown(node)).toEqual([]),
    );
    await c.leaseWritten(node, { holderIdentity: holder, leaseDurationSeconds: 900, renewed: 0 });
    await eventuallyShown(node, conditions);
    await c.leaseWritten(node, { holderIdentity: 'kubeadm-jane' });
    await c.staged(metadata.name, 'Complete');
    await eventuallyShown(node, []);
  });
});
