import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Worker } from '@temporalio/worker';
import { isDrained } from '../../domain/common/stage.ts';
import { bundleWorkflows } from '../../worker/bundle.ts';
import { eventually } from '../kit/eventually.ts';
import { sdkMetricProblems, valueOf } from '../kit/metrics.ts';
import { workflowIdOf } from '../kit/temporalNames.ts';
import { startTraceCollector, type TraceCollector } from '../kit/traceCollector.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// What an operator sees of one drain: metrics, logs and a trace.

const name = 'observed-drain';
const node = 'node-1';
const podCount = 3;

let dir: string;
let world: World;
let worker: WorkerProcess;
let collector: TraceCollector;
let uid: string;
let createdMs: number;

beforeAll(async () => {
  [world, collector] = await Promise.all([createWorld({ nodes: 2 }), startTraceCollector()]);
  dir = await mkdtemp(join(tmpdir(), 'nm-observability-'));
  const bundleFile = join(dir, 'workflows.js');
  await writeFile(bundleFile, (await bundleWorkflows({ traces: true })).code);
  worker = startWorker(world.sandbox, {
    args: ['--log-level', 'debug'],
    env: {
      WORKFLOW_BUNDLE: bundleFile,
      OTEL_TRACES_EXPORTER: 'otlp',
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test',
      OTEL_BSP_SCHEDULE_DELAY: '100',
    },
  });
  await worker.ready();
  await world.placePods(node, podCount);
  const { metadata } = await world.apply(name, { nodes: [node], stage: 'Drain' });
  uid = metadata.uid ?? '';
  createdMs = Date.parse(metadata.creationTimestamp ?? '');
  await eventually('the drain', async () => {
    const maintenance = await world.maintenance(name);
    expect(maintenance && isDrained(maintenance)).toBe(true);
  });
});
afterAll(async () => {
  await worker?.kill();
  await collector?.close();
  await world?.close();
  await rm(dir, { recursive: true, force: true });
});

describe('the metrics', () => {
  test('count the drain, its pods and its nodes', async () => {
    const want = {
      node_maintenance_drain_duration_seconds_count: 1,
      'node_maintenance_pod_evacuations_total{outcome="Evicted"}': podCount,
      'node_maintenance_pod_evacuations_total{outcome="Withdrawn"}': 0,
      'node_maintenance_nodes{stage="Drain"}': 1,
      'node_maintenance_nodes{stage="Cordon"}': 0,
      'node_maintenance_blocked_pods{reason="DisruptionBudget"}': 0,
      'node_maintenance_open_runs{type="nodeMaintenance"}': 1,
      'node_maintenance_open_runs{type="maintenanceWindow"}': 0,
    };
    await eventually('the metrics', async () => {
      const text = await worker.metrics();
      const values = Object.keys(want).map((series) => [series, valueOf(text, series)]);
      expect(Object.fromEntries(values)).toEqual(want);
    });
  });

  test('show who leads, and what its control loops do', async () => {
    const text = await worker.metrics();
    for (const election of ['node-maintenance-controllers', 'node-maintenance-admission']) {
      expect(valueOf(text, `node_maintenance_leader_election_master_status{name="${election}"}`)).toBe(1);
      // On a slow machine a leader may lose its Lease, and acquire it again.
      expect(
        valueOf(text, `node_maintenance_leader_election_acquired_total{name="${election}"}`),
      ).toBeGreaterThanOrEqual(1);
    }
    const loops = [
      'maintenance',
      'evacuation',
      'evacuation-cleanup',
      'node-conditions',
      'admission-registration',
    ];
    for (const loop of loops) {
      expect(valueOf(text, `node_maintenance_workqueue_depth{name="${loop}"}`)).toBeGreaterThanOrEqual(0);
      for (const duration of ['queue', 'work'])
        expect(
          valueOf(text, `node_maintenance_workqueue_${duration}_duration_seconds_count{name="${loop}"}`),
        ).toBeGreaterThan(0);
    }
  });

  test('of the SDK of Temporal have the documented names, types and labels', async () => {
    const text = await worker.metrics();
    expect(sdkMetricProblems(text)).toEqual([]);
    expect(text).toContain('# TYPE temporal_workflow_task_execution_latency_seconds histogram\n');
    expect(text).toContain('# TYPE temporal_worker_task_slots_available gauge\n');
  });

  test('name a manual drain that is blocked, and the reason why its pod cannot leave', async () => {
    await world.placePods('node-2', 1, { labels: { app: 'db' } });
    await world.budget('db', { app: 'db' }, { minAvailable: 1 });
    await world.apply('stuck', { nodes: ['node-2'], stage: 'Drain' });
    const waiting =
      'node_maintenance_maintenance_waiting{maintenance="stuck",stage="Drain",reason="Blocked"}';
    await eventually('the blocked drain', async () => {
      const text = await worker.metrics();
      expect(valueOf(text, waiting)).toBe(1);
      expect(valueOf(text, 'node_maintenance_blocked_pods{reason="DisruptionBudgetNeverAllows"}')).toBe(1);
    });
    await world.patch('stuck', { stage: 'Complete' });
    await eventually('nothing to wait for', async () => {
      const text = await worker.metrics();
      expect(text).not.toContain('node_maintenance_maintenance_waiting{maintenance="stuck"');
      expect(valueOf(text, 'node_maintenance_pod_evacuations_total{outcome="Withdrawn"}')).toBe(1);
    });
  });
});

describe('the log', () => {
  interface Line {
    time: string;
    msg: string;
    maintenance?: string;
    runId?: string;
  }
  const texts = () =>
    worker
      .log()
      .split('\n')
      .filter((line) => line.startsWith('{'));
  // The SDK writes its lines 100 ms late, each with its time.
  const lines = (): Line[] =>
    texts()
      .map((line) => JSON.parse(line) as Line)
      .toSorted((a, b) => Date.parse(a.time) - Date.parse(b.time));

  test('reports the course of the drain in the lines with its name', () => {
    const own = lines().filter(({ maintenance }) => maintenance === name);
    const milestones = ['Workflow started', 'Stage started', 'Pod evicted', 'Nodes drained'];
    const logged = own.map(({ msg }) => msg).filter((msg) => milestones.includes(msg));
    // The SDK also logs that a workflow started.
    const course = logged.filter((msg, index) => msg !== logged[index - 1]);
    expect(course).toEqual(milestones);
    expect(logged.filter((msg) => msg === 'Pod evicted')).toHaveLength(podCount);
    const runIds = own.flatMap(({ runId }) => runId ?? []);
    expect([...new Set(runIds)]).toHaveLength(1);
  });

  test('has one time in each line', () => {
    const others = texts().filter((line) => !/^\{"level":\d+,"time":"[^"]+Z",(?!.*"time":)/.test(line));
    expect(others).toEqual([]);
  });

  test('has no line about the maintenance, or its run, without the field', () => {
    const about = lines().filter((line) => JSON.stringify(line).includes(name));
    expect(about.length).toBeGreaterThan(0);
    expect(about.filter(({ maintenance }) => maintenance !== name)).toEqual([]);
  });

  test('contains no token that could complete an activity', () => {
    expect(worker.log()).not.toContain('taskToken');
  });
});

describe('the trace', () => {
  const own = () => collector.spans.filter(({ traceId }) => traceId === uid.replaceAll('-', ''));

  test('leads from the creation of the object over the workflow and its activities to the last eviction', async () => {
    await world.patch(name, { stage: 'Complete' });
    const root = await eventually('the span of the maintenance', () => {
      const found = own().find((span) => span.name === 'NodeMaintenance');
      expect(found).toBeDefined();
      return found as NonNullable<typeof found>;
    });
    expect(root.parentSpanId).toBeUndefined();
    expect(root.startMs).toBe(createdMs);
    expect(root.resource).toMatchObject({
      'service.name': 'node-maintenance',
      'deployment.environment': 'test',
    });
    await eventually('the span of the run', () =>
      expect(own().map((span) => span.name)).toContain('RunWorkflow:nodeMaintenance'),
    );
    const byId = new Map(own().map((span) => [span.spanId, span]));
    const pathOf = (leaf: string): string[] => {
      const path: string[] = [];
      for (let span = own().find((one) => one.name === leaf); span; span = byId.get(span.parentSpanId ?? ''))
        path.unshift(span.name);
      return path;
    };
    expect(pathOf('RunActivity:drain')).toEqual([
      'NodeMaintenance',
      'SignalWithStartWorkflow:nodeMaintenance',
      'RunWorkflow:nodeMaintenance',
      'StartActivity:drain',
      'RunActivity:drain',
    ]);
    const evictions = own().filter((span) => span.name === 'Evict pod');
    expect(evictions).toHaveLength(podCount);
    for (const span of evictions) {
      expect(span.parentSpanId).toBe(root.spanId);
      expect(span.attributes).toMatchObject({ 'k8s.node.name': node });
      expect(span.startMs).toBeGreaterThanOrEqual(root.startMs);
      expect(span.endMs).toBeLessThanOrEqual(root.endMs);
      const requests = own().filter(({ parentSpanId }) => parentSpanId === span.spanId);
      expect(requests.map(({ attributes }) => attributes['http.response.status_code'])).toEqual([201]);
    }
  });

  test('of a run does not keep a worker without traces from replaying it', async () => {
    const history = await world.temporal.workflow.getHandle(workflowIdOf(name)).fetchHistory();
    const { code } = await bundleWorkflows();
    expect(code).not.toContain('node_modules/@opentelemetry/');
    await Worker.runReplayHistory({ workflowBundle: { code } }, history);
  });
});
