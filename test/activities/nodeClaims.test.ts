import { claimNodes, readBudget } from '../../activities/nodeClaims.ts';
import { NODE_BUDGET_NAME } from '../../api/names.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { testCluster, type TestCluster } from '../kit/cluster.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'claims' });
});

afterAll(async () => {
  const { metadata } = await readBudget(c);
  await c?.admin.delete(resources.nodeBudgets, { name: NODE_BUDGET_NAME }, { uid: metadata.uid ?? '' });
  await c?.close();
  await releaseSandbox(sandbox);
});

const claims = async () => (await readBudget(c)).status?.claims ?? [];

test('the first who looks makes the budget of the cluster, of a tenth of its nodes', async () => {
  const found = await Promise.all(Array.from({ length: 4 }, () => readBudget(c)));
  expect(new Set(found.map(({ metadata }) => metadata.uid)).size).toBe(1);
  expect(found[0]?.spec).toEqual({ maxUnavailable: '10%' });
});

test('windows that claim at the same moment never claim more than there is room for, together', async () => {
  const windows = Array.from({ length: 12 }, (_, index) => `w${index}`);
  const claimOne = (window: string) =>
    claimNodes(c, window, (view) => (view.claims.length < 3 ? [`node-of-${window}`] : []));
  await Promise.all(windows.map(claimOne));
  const held = await claims();
  expect(held).toHaveLength(3);
  expect(held.map(({ node, window }) => node === `node-of-${window}`)).toEqual([true, true, true]);
});

test('a claim whose turn has not begun is given up by its own window alone', async () => {
  const [first] = await claims();
  await claimNodes(c, 'another', () => []);
  expect(await claims()).toHaveLength(3);
  await claimNodes(c, first?.window ?? '', () => []);
  expect((await claims()).map(({ node }) => node)).not.toContain(first?.node);
});

test('a claim that no turn stands behind is dropped after a while', async () => {
  const held = await claims();
  const since = '2020-01-01T00:00:00Z';
  await c.admin.mergePatch(
    resources.nodeBudgets,
    { name: NODE_BUDGET_NAME },
    { status: { claims: held.map((claim, index) => (index === 0 ? { ...claim, since } : claim)) } },
    { subresource: 'status' },
  );
  await claimNodes(c, 'another', () => ['node-of-another']);
  const left = await claims();
  expect(left.map(({ node }) => node)).not.toContain(held[0]?.node);
  expect(left).toHaveLength(held.length);
});
