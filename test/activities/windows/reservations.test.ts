import { reserveNodes } from '../../../activities/windows/reservations.ts';
import { readBudget } from '../../kit/budget.ts';
import { NODE_DISRUPTION_BUDGET_NAME } from '../../../api/names.ts';
import type { BudgetView } from '../../../domain/windows/decideWindow.ts';
import { resources } from '../../../kube/resources.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'reservations' });
});

afterAll(async () => {
  const { metadata } = await readBudget(c);
  await c?.admin.delete(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    { uid: metadata.uid ?? '' },
  );
  await c?.close();
  await releaseSandbox(sandbox);
});

const reservations = async () => (await readBudget(c)).status?.reservations ?? [];

test('the NodeDisruptionBudget is created once, with a default of 10%', async () => {
  const found = await Promise.all(Array.from({ length: 4 }, () => readBudget(c)));
  expect(new Set(found.map(({ metadata }) => metadata.uid)).size).toBe(1);
  expect(found[0]?.spec).toEqual({ maxUnavailable: '10%' });
});

test('windows that reserve at the same time never exceed the limit together', async () => {
  const windows = Array.from({ length: 12 }, (_, index) => `w${index}`);
  const reserveOne = (window: string) =>
    reserveNodes(c, window, (budget) => (budget.reservations.length < 3 ? [`node-of-${window}`] : []));
  await Promise.all(windows.map(reserveOne));
  const held = await reservations();
  expect(held).toHaveLength(3);
  expect(held.map(({ node, window }) => node === `node-of-${window}`)).toEqual([true, true, true]);
});

test('windows decide by the budgets that the apiserver has when they reserve', async () => {
  const node = await c.nodeNamed('pool');
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [node] }];
  const budget = {
    metadata: { name: c.named('pool') },
    spec: { maxUnavailable: 1, nodeSelector: { nodeSelectorTerms: [{ matchFields }] } },
  };
  const { metadata } = await c.admin.create(resources.nodeDisruptionBudgets, budget);
  let limits: BudgetView['limits'] = [];
  await reserveNodes(c, 'another', (view) => {
    limits = view.limits;
    return [];
  });
  await c.admin.delete(resources.nodeDisruptionBudgets, { name: metadata.name }, { uid: metadata.uid ?? '' });
  expect(limits.map(({ name }) => name)).toEqual([NODE_DISRUPTION_BUDGET_NAME, metadata.name]);
  expect(limits[1]).toEqual({ name: metadata.name, allowed: 1, nodes: new Set([node]) });
});

test('a reservation without a NodeMaintenance is removed by its own window only', async () => {
  const [first] = await reservations();
  await reserveNodes(c, 'another', () => []);
  expect(await reservations()).toHaveLength(3);
  await reserveNodes(c, first?.window ?? '', () => []);
  expect((await reservations()).map(({ node }) => node)).not.toContain(first?.node);
});

test('a reservation without a NodeMaintenance is removed by other windows after a while', async () => {
  const held = await reservations();
  const since = '2020-01-01T00:00:00Z';
  await c.admin.mergePatch(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    {
      status: {
        reservations: held.map((reservation, index) =>
          index === 0 ? { ...reservation, since } : reservation,
        ),
      },
    },
    { subresource: 'status' },
  );
  await reserveNodes(c, 'another', () => ['node-of-another']);
  const left = await reservations();
  expect(left.map(({ node }) => node)).not.toContain(held[0]?.node);
  expect(left).toHaveLength(held.length);
});
