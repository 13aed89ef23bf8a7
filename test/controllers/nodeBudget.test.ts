import type { NodeBudgetStatus } from '../../api/nodeBudget.ts';
import { NODE_BUDGET_NAME } from '../../api/names.ts';
import { runNodeBudgetController } from '../../controllers/nodeBudget.ts';
import { isTrue } from '../../domain/conditions.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { silentLog, testCluster, type TestCluster } from '../kit/cluster.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
const abort = new AbortController();
let ended: Promise<void> | undefined;
const key = { name: NODE_BUDGET_NAME };

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'budget' });
  await unmade();
  ended = runNodeBudgetController({ cluster: c.cluster, log: silentLog }, abort.signal);
});

afterAll(async () => {
  abort.abort();
  await ended;
  // Other files meet with the same cluster.
  await unmade();
  await c?.close();
  await releaseSandbox(sandbox);
});

async function unmade(): Promise<void> {
  const budget = await c.admin.get(resources.nodeBudgets, key);
  if (budget !== undefined)
    await c.admin.delete(resources.nodeBudgets, key, { uid: budget.metadata.uid ?? '' });
}

/** Resolves with the status when it says so. */
const eventuallySays = (fact: string, said: (nodes: number) => object): Promise<NodeBudgetStatus> =>
  eventually(fact, async () => {
    const nodes = (await c.admin.list(resources.nodes)).items.length;
    const budget = await c.admin.get(resources.nodeBudgets, key);
    expect(budget?.status).toMatchObject(said(nodes));
    return budget?.status as NodeBudgetStatus;
  });

const written = (body: Record<string, unknown>) => c.admin.mergePatch(resources.nodeBudgets, key, body);

test('the NodeBudget of the cluster is made with its default', async () => {
  await eventuallySays('the default', (nodes) => ({ nodes, allowed: Math.max(1, Math.floor(nodes / 10)) }));
});

test('it counts nodes that people cordon and that maintenances hold, each once, and says when none is to spare', async () => {
  await written({ spec: { maxUnavailable: '100%' } });
  const before = await eventuallySays('the new limit', (nodes) => ({ nodes, allowed: nodes }));
  expect(isTrue(before.conditions, 'Exhausted')).toBe(false);

  const node = await c.nodeNamed('n');
  await c.cordoned(node);
  await c.applied(c.maintenance({ nodes: [node], stage: 'Cordon' }));
  const outOfService = before.outOfService + 1;
  await eventuallySays('the node', (nodes) => ({ nodes, outOfService }));
  await written({ spec: { maxUnavailable: outOfService } });
  const after = await eventuallySays('the limit', () => ({ allowed: outOfService, outOfService }));
  expect(isTrue(after.conditions, 'Exhausted')).toBe(true);
});

test('claims are left to the windows, and count for as long as they stand', async () => {
  const node = await c.nodeNamed('claimed');
  const { outOfService } = await eventuallySays('the node', (nodes) => ({ nodes }));
  const claims = [{ node, window: 'w', since: new Date().toISOString() }];
  await c.admin.mergePatch(resources.nodeBudgets, key, { status: { claims } }, { subresource: 'status' });
  await eventuallySays('the claim', () => ({ outOfService: outOfService + 1, claims }));
});
