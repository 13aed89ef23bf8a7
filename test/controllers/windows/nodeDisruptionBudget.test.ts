import type { NodeDisruptionBudgetStatus } from '../../../api/nodeDisruptionBudget.ts';
import { NODE_DISRUPTION_BUDGET_NAME } from '../../../api/names.ts';
import { runNodeDisruptionBudgetController } from '../../../controllers/windows/nodeDisruptionBudget.ts';
import { isTrue } from '../../../domain/common/conditions.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const abort = new AbortController();
let ended: Promise<void> | undefined;
const key = { name: NODE_DISRUPTION_BUDGET_NAME };

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'budget' });
  await deleteBudget();
  ended = runNodeDisruptionBudgetController({ cluster: c.cluster, log: silentLog }, abort.signal);
});

afterAll(async () => {
  abort.abort();
  await ended;
  // Other test files use the same cluster.
  await deleteBudget();
  await c?.close();
  await releaseSandbox(sandbox);
});

async function deleteBudget(): Promise<void> {
  const budget = await c.admin.get(resources.nodeDisruptionBudgets, key);
  if (budget !== undefined)
    await c.admin.delete(resources.nodeDisruptionBudgets, key, { uid: budget.metadata.uid ?? '' });
}

/** Resolves with the status when it matches. */
const eventuallyHas = (
  fact: string,
  expected: (nodes: number) => object,
): Promise<NodeDisruptionBudgetStatus> =>
  eventually(fact, async () => {
    const nodes = (await c.admin.list(resources.nodes)).items.length;
    const budget = await c.admin.get(resources.nodeDisruptionBudgets, key);
    expect(budget?.status).toMatchObject(expected(nodes));
    return budget?.status as NodeDisruptionBudgetStatus;
  });

const written = (body: Record<string, unknown>) =>
  c.admin.mergePatch(resources.nodeDisruptionBudgets, key, body);

test('the NodeDisruptionBudget of the cluster is created with its default', async () => {
  await eventuallyHas('the default', (nodes) => ({ nodes, allowed: Math.max(1, Math.floor(nodes / 10)) }));
});

test('the budget counts cordoned nodes and nodes held by maintenances, each once, and reports when it is exhausted', async () => {
  await written({ spec: { maxUnavailable: '100%' } });
  const before = await eventuallyHas('the new limit', (nodes) => ({ nodes, allowed: nodes }));
  expect(isTrue(before.conditions, 'Exhausted')).toBe(false);

  const node = await c.nodeNamed('n');
  await c.cordoned(node);
  await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
  const outOfService = before.outOfService + 1;
  await eventuallyHas('the node', (nodes) => ({ nodes, outOfService }));
  await written({ spec: { maxUnavailable: outOfService } });
  const after = await eventuallyHas('the limit', () => ({ allowed: outOfService, outOfService }));
  expect(isTrue(after.conditions, 'Exhausted')).toBe(true);
});

test('reservations are owned by the windows, and count while they are active', async () => {
  const node = await c.nodeNamed('reserved');
  const { outOfService } = await eventuallyHas('the node', (nodes) => ({ nodes }));
  const reservations = [{ node, window: 'w', since: new Date().toISOString() }];
  await c.admin.mergePatch(
    resources.nodeDisruptionBudgets,
    key,
    { status: { reservations } },
    { subresource: 'status' },
  );
  await eventuallyHas('the reservation', () => ({ outOfService: outOfService + 1, reservations }));
});

test('reservations of windows that were deleted are removed', async () => {
  const [abandoned, recent] = [await c.nodeNamed('abandoned'), await c.nodeNamed('recent')];
  const now = Date.now();
  const reservations = [
    { node: abandoned, window: 'deleted', since: new Date(now - 40_000).toISOString() },
    { node: recent, window: 'deleted', since: new Date(now).toISOString() },
  ];
  await c.admin.mergePatch(
    resources.nodeDisruptionBudgets,
    key,
    { status: { reservations } },
    { subresource: 'status' },
  );
  const left = await eventuallyHas('one of them', () => ({ reservations: [{ node: recent }] }));
  expect(left.reservations).toHaveLength(1);
});

test('a budget with a nodeSelector has a status of its own, which counts only the nodes that it selects', async () => {
  const nodes = [await c.nodeNamed('pool'), await c.nodeNamed('pool')];
  const [reserved = ''] = nodes;
  const matchNode = (node: string) => ({
    matchFields: [{ key: 'metadata.name', operator: 'In' as const, values: [node] }],
  });
  const name = c.named('pool');
  const { metadata } = await c.admin.create(resources.nodeDisruptionBudgets, {
    metadata: { name },
    spec: { maxUnavailable: '50%', nodeSelector: { nodeSelectorTerms: nodes.map(matchNode) } },
  });
  const eventuallyOut = (outOfService: number, reason: string) =>
    eventually(`${outOfService} nodes out of service`, async () => {
      const status = (await c.admin.get(resources.nodeDisruptionBudgets, { name }))?.status;
      expect(status).toMatchObject({ nodes: 2, allowed: 1, outOfService });
      expect(status?.conditions).toMatchObject([{ type: 'Exhausted', reason }]);
    });
  await eventuallyOut(0, 'NodesAvailable');
  // The reservation is on the other budget.
  await c.admin.mergePatch(
    resources.nodeDisruptionBudgets,
    key,
    { status: { reservations: [{ node: reserved, window: 'w', since: new Date().toISOString() }] } },
    { subresource: 'status' },
  );
  await eventuallyOut(1, 'LimitReached');
  await c.admin.delete(resources.nodeDisruptionBudgets, { name }, { uid: metadata.uid ?? '' });
});
