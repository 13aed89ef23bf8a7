import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { isDrained } from '../../domain/common/stage.ts';
import { freePort } from '../../worker/http.ts';
import { queries } from '../kit/dashboard.ts';
import { eventually } from '../kit/eventually.ts';
import { metricsPortOf } from '../kit/metrics.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// deploy/monitoring against a Prometheus that scrapes a worker: `npm run test:monitoring`.

const binaries = process.env['NM_PROMETHEUS'] ?? '';
const promtool = join(binaries, 'promtool');
const rulesFile = join(import.meta.dirname, '../../deploy/monitoring/alerts.yaml');

let dir: string;
let world: World;
let worker: WorkerProcess;
let prometheus: ChildProcess;
let address: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'nm-prometheus-'));
  world = await createWorld({ nodes: 2 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  await startPrometheus();
  await world.placePods('node-1', 3);
  await world.apply('drained', { nodes: ['node-1'], stage: 'Drain' });
  await world.placePods('node-2', 1, { labels: { app: 'db' } });
  await world.budget('db', { app: 'db' }, { minAvailable: 1 });
  await world.apply('blocked', { nodes: ['node-2'], stage: 'Drain' });
  await eventually('the drain', async () => {
    const maintenance = await world.maintenance('drained');
    expect(maintenance && isDrained(maintenance)).toBe(true);
  });
});
afterAll(async () => {
  prometheus?.kill('SIGKILL');
  await worker?.kill();
  await world?.close();
  await rm(dir, { recursive: true, force: true });
});

/** Starts Prometheus with the alert rules, of which none waits before it fires. */
async function startPrometheus(): Promise<void> {
  const rules = join(dir, 'alerts.yaml');
  writeFileSync(rules, readFileSync(rulesFile, 'utf8').replaceAll(/^( +for:) \w+$/gm, '$1 0s'));
  const config = join(dir, 'prometheus.json');
  writeFileSync(
    config,
    JSON.stringify({
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [rules],
      scrape_configs: [
        {
          job_name: 'node-maintenance',
          static_configs: [{ targets: [`127.0.0.1:${metricsPortOf(worker)}`] }],
        },
      ],
    }),
  );
  address = `127.0.0.1:${await freePort()}`;
  const storage = join(dir, 'storage');
  mkdirSync(storage);
  const flags = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${storage}`,
    `--web.listen-address=${address}`,
  ];
  prometheus = spawn(join(binaries, 'prometheus'), flags, { stdio: 'ignore' });
  await eventually('Prometheus to be ready', async () =>
    expect((await fetch(`http://${address}/-/ready`)).status).toBe(200),
  );
}

interface Answer<Data> {
  status: string;
  error?: string;
  data: Data;
}

async function get<Data>(path: string, query: Record<string, string> = {}): Promise<Answer<Data>> {
  const response = await fetch(`http://${address}/api/v1/${path}?${new URLSearchParams(query)}`);
  return (await response.json()) as Answer<Data>;
}

describe('promtool', () => {
  test('accepts the alert rules, and each fires when it should', async () => {
    await promisify(execFile)(promtool, ['check', 'rules', '--lint-fatal', rulesFile]);
    await promisify(execFile)(promtool, ['test', 'rules', 'alerts.yaml'], { cwd: import.meta.dirname });
  });

  test('finds no metric of a worker that violates the conventions', async () => {
    const own = (await worker.metrics())
      .split('\n')
      .filter((line) => /^(?:# \w+ )?node_maintenance_/.test(line))
      .join('\n');
    const check = spawn(promtool, ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
    const problems: string[] = [];
    for (const stream of [check.stdout, check.stderr])
      stream.on('data', (chunk: Buffer) => problems.push(chunk.toString()));
    check.stdin.end(`${own}\n`);
    const code = await new Promise((resolve) => check.once('close', resolve));
    expect({ code, problems: problems.join('') }).toEqual({ code: 0, problems: '' });
  });
});

/** Queries without a result while nothing is wrong and there are no windows. */
const mayBeEmpty = / > |_failed_|_failure_|_window_|node_disruption_budget/;

describe('the dashboard', () => {
  test.each(queries)('$panel: $expr', async ({ expr }) => {
    // Grafana replaces the variable by four scrape intervals or more.
    const query = expr.replaceAll('$__rate_interval', '1m');
    await eventually('a result', async () => {
      const { status, error, data } = await get<{ result: unknown[] }>('query', { query });
      expect({ status, error }).toEqual({ status: 'success', error: undefined });
      if (!mayBeEmpty.test(expr)) expect(data.result).not.toEqual([]);
    });
  });
});

describe('the alert rules', () => {
  interface Rule {
    name: string;
    health: string;
    lastError?: string;
    alerts: { state: string; labels: Record<string, string>; annotations: Record<string, string> }[];
  }
  const rules = async (): Promise<Rule[]> =>
    (await get<{ groups: { rules: Rule[] }[] }>('rules')).data.groups.flatMap((group) => group.rules);

  test('are evaluated without an error', async () => {
    await eventually('all rules to be evaluated', async () => {
      const unhealthy = (await rules()).filter(({ health }) => health !== 'ok');
      expect(unhealthy.map(({ name, health, lastError }) => ({ name, health, lastError }))).toEqual([]);
    });
  });

  test('report a manual drain that is blocked, and nothing else about it', async () => {
    await eventually('the alert', async () => {
      const firing = (await rules()).flatMap(({ name, alerts }) =>
        alerts.map(({ state, labels, annotations }) => ({
          name,
          state,
          of: labels['maintenance'],
          annotations,
        })),
      );
      expect(firing.filter(({ of }) => of !== undefined)).toEqual([
        {
          name: 'NodeMaintenanceDrainBlocked',
          state: 'firing',
          of: 'blocked',
          annotations: {
            summary:
              'The drain of NodeMaintenance blocked is blocked: pods cannot leave without intervention.',
            description: expect.stringContaining('kubectl maintenance status blocked'),
          },
        },
      ]);
    });
  });
});
