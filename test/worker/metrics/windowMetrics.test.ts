import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { readBudget } from '../../kit/budget.ts';
import type { MaintenanceWindow } from '../../../api/maintenanceWindow.ts';
import { NODE_DISRUPTION_BUDGET_NAME, WindowAnnotation, WINDOW_LABEL } from '../../../api/names.ts';
import { resources } from '../../../kube/resources.ts';
import type { ConditionFacts } from '../../../domain/common/conditions.ts';
import { emptyStatus } from '../../../domain/maintenance/status.ts';
import { nodeFailed, advanceRequested } from '../../../domain/windows/nodeResult.ts';
import type { Sandbox } from '../../../sandbox/sandbox.ts';
import { createMetrics } from '../../../worker/metrics/metrics.ts';
import { testCluster, type TestCluster } from '../../kit/cluster.ts';
import { eventually } from '../../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../../kit/sandbox.ts';

let sandbox: Sandbox;
let c: TestCluster;
let scrape: () => Promise<string>;
const made: { name: string; uid: string }[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  c = await testCluster(sandbox, { prefix: 'window-metrics' });
  const metrics = createMetrics();
  metrics.observe(c.cluster);
  scrape = () => metrics.scrape();
});

afterAll(async () => {
  for (const { name, uid } of made) await c.admin.delete(resources.maintenanceWindows, { name }, { uid });
  const { metadata } = await readBudget(c);
  await c.admin.delete(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    { uid: metadata.uid ?? '' },
  );
  await c.close();
  await releaseSandbox(sandbox);
});

/** Returns the value of a series, which is given with its labels in order. */
async function valueOf(series: string): Promise<number | undefined> {
  const line = (await scrape()).split('\n').find((one) => one.startsWith(`node_maintenance_${series} `));
  return line === undefined ? undefined : Number(line.split(' ').at(-1));
}

async function windowWith(status: object): Promise<string> {
  const name = c.named('window');
  const { metadata } = await c.admin.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: {
      schedule: { cron: '0 2 * * 6', timeZone: 'UTC', duration: '4h' },
      nodeSelector: {
        nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: ['none'] }] }],
      },
    } as MaintenanceWindow['spec'],
  });
  made.push({ name, uid: metadata.uid ?? '' });
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, { status }, { subresource: 'status' });
  return name;
}

const times = { lastTransitionTime: '2026-01-01T00:00:00Z', message: '' };
const active = { workflowId: 'w', runId: 'r', start: '2026-01-01T00:00:00Z', end: '2026-01-01T04:00:00Z' };

test('an open window has metrics for its end, its nodes by state, and what it waits for', async () => {
  const progress = {
    revision: 'r',
    summary: '1/6',
    nodes: 6,
    done: 1,
    inProgress: 2,
    failed: 1,
    remaining: 2,
  };
  const name = await windowWith({
    active: { ...active, waiting: { reason: 'ApprovalNeeded', message: '' } },
    progress,
  });
  const of = `window="${name}"`;
  await eventually('the window in the informer', async () =>
    expect(await valueOf(`window_open{${of}}`)).toBe(1),
  );
  expect(await valueOf(`window_end_timestamp_seconds{${of}}`)).toBe(Date.parse(active.end) / 1_000);
  for (const [state, count] of Object.entries({ Succeeded: 1, InProgress: 2, Failed: 1, Remaining: 2 }))
    expect(await valueOf(`window_nodes{${of},state="${state}"}`)).toBe(count);
  const waiting = `window_waiting_since_timestamp_seconds{${of},reason="ApprovalNeeded"}`;
  const since = await valueOf(waiting);
  expect(Math.abs((since ?? 0) * 1_000 - c.cluster.kube.now().getTime())).toBeLessThan(60_000);
  expect(await valueOf(waiting)).toBe(since);
  const closed = { status: { active: null } };
  await c.admin.mergePatch(resources.maintenanceWindows, { name }, closed, { subresource: 'status' });
  await eventually('the window to close', async () => expect(await valueOf(`window_open{${of}}`)).toBe(0));
  expect(await scrape()).not.toContain(`waiting_since_timestamp_seconds{${of}`);
});

test('a window that reboots nodes has a metric for those that wait for it, other windows have none', async () => {
  const progress = { revision: 'r', summary: '0/3', rebootRequired: { nodes: 3, names: ['n1', 'n2', 'n3'] } };
  const name = await windowWith({ progress });
  await eventually('the metric', async () =>
    expect(await valueOf(`window_reboot_required_nodes{window="${name}"}`)).toBe(3),
  );
  const other = await windowWith({ progress: { revision: 'r', summary: '0/3' } });
  await eventually('the other window', async () =>
    expect(await valueOf(`window_open{window="${other}"}`)).toBe(0),
  );
  expect(await scrape()).not.toContain(`window_reboot_required_nodes{window="${other}"`);
});

test('conditions that require action have a metric, a suspended or paused window has none', async () => {
  const [paused, suspended, byAnnotation] = await Promise.all(
    ['PausedInTemporal', 'Suspended', 'Paused'].map((reason) =>
      windowWith({ conditions: [{ type: 'Scheduled', status: 'False', reason, ...times }] }),
    ),
  );
  await eventually('the condition', async () =>
    expect(
      await valueOf(
        `window_condition_not_true{window="${paused}",type="Scheduled",reason="PausedInTemporal"}`,
      ),
    ).toBe(1),
  );
  for (const window of [suspended, byAnnotation])
    expect(await scrape()).not.toContain(`window_condition_not_true{window="${window}"`);
});

test('a window whose workflow makes no progress has a metric of its own', async () => {
  const [stalled, continues] = await Promise.all(
    (['True', 'False'] as const).map((status) =>
      windowWith({ conditions: [{ type: 'Stalled', status, reason: 'WorkflowTaskFailed', ...times }] }),
    ),
  );
  await eventually('the metric', async () =>
    expect(await scrape()).toContain(
      `node_maintenance_stalled{kind="MaintenanceWindow",name="${stalled}",reason="WorkflowTaskFailed"} 1\n`,
    ),
  );
  const exposed = await scrape();
  expect(exposed).not.toContain(`node_maintenance_stalled{kind="MaintenanceWindow",name="${continues}"`);
  for (const window of [stalled, continues])
    expect(exposed).not.toContain(`window_condition_not_true{window="${window}"`);
});

test('the oldest node in progress, advanced or not, and the nodes out of service have metrics', async () => {
  await readBudget(c);
  await c.admin.mergePatch(
    resources.nodeDisruptionBudgets,
    { name: NODE_DISRUPTION_BUDGET_NAME },
    { spec: { maxUnavailable: 3 } },
  );
  await eventually('the budget', async () =>
    expect(await valueOf('node_disruption_budget_allowed_nodes{budget="cluster"}')).toBe(3),
  );
  const before = (await valueOf('node_disruption_budget_out_of_service_nodes{budget="cluster"}')) ?? 0;
  const node = await c.nodeNamed('node');
  await c.admin.mergePatch(resources.nodes, { name: node }, { spec: { unschedulable: true } });
  await eventually('the cordoned node', async () =>
    expect(await valueOf('node_disruption_budget_out_of_service_nodes{budget="cluster"}')).toBe(before + 1),
  );
  const window = await windowWith({ active });
  const maintenance = await c.admin.create(resources.nodeMaintenances, {
    metadata: {
      name: c.named('maintenance'),
      labels: { [WINDOW_LABEL]: window },
      annotations: { [WindowAnnotation.Node]: node },
    },
    spec: {
      stage: 'Idle',
      nodeSelector: {
        nodeSelectorTerms: [{ matchFields: [{ key: 'metadata.name', operator: 'In', values: [node] }] }],
      },
    },
  });
  const startedSeconds = Date.parse(maintenance.metadata.creationTimestamp ?? '') / 1_000;
  await eventually('the node in progress', async () =>
    expect(await valueOf(`window_oldest_node_started_timestamp_seconds{window="${window}"}`)).toBe(
      startedSeconds,
    ),
  );
  const startedWith = async (result: ConditionFacts) => {
    const conditions = [{ ...result, lastTransitionTime: times.lastTransitionTime }];
    await c.withStatus(maintenance, { ...emptyStatus, conditions });
    return valueOf(`window_oldest_node_started_timestamp_seconds{window="${window}"}`);
  };
  expect(await startedWith(advanceRequested)).toBe(startedSeconds);
  expect(await startedWith(nodeFailed('JobFailed', 'It failed.'))).toBeUndefined();
});
