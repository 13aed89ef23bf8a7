import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { connectKube, type Kube } from '../../kube/client.ts';
import { watchCluster } from '../../kube/cluster.ts';
import { createMetrics } from '../../worker/metrics/metrics.ts';
import { labelsKept, problemsOf, selectorsIn } from '../kit/promql.ts';
import { recordedLog } from '../kube/fixtures.ts';

interface Rule {
  alert: string;
  expr: string;
  for: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
}

const file = new URL('../../deploy/monitoring/alerts.yaml', import.meta.url);
const { groups, ...others } = parse(readFileSync(file, 'utf8')) as {
  groups: { name: string; rules: Rule[] }[];
};
const runbook = readFileSync(new URL('../../docs/how-to/runbook.md', import.meta.url), 'utf8');
const promtoolTests = parse(readFileSync(new URL('../monitoring/alerts.yaml', import.meta.url), 'utf8')) as {
  tests: { promql_expr_test: { expr: string; exp_samples?: unknown[] }[] }[];
};
const rules = groups.flatMap((group) => group.rules);
const dir = mkdtempSync(join(tmpdir(), 'nm-alerts-'));
let kube: Kube;
let exposed: string;

beforeAll(async () => {
  const kubeconfig = join(dir, 'config');
  const clusters = [{ name: 'none', cluster: { server: 'https://127.0.0.1:1' } }];
  const contexts = [{ name: 'none', context: { cluster: 'none', user: 'none' } }];
  const users = [{ name: 'none', user: {} }];
  writeFileSync(kubeconfig, JSON.stringify({ clusters, contexts, users, 'current-context': 'none' }));
  const log = recordedLog();
  kube = connectKube({ kubeconfig, userAgent: 'node-maintenance-test', log });
  const metrics = createMetrics();
  metrics.observe(watchCluster({ kube, log }));
  metrics.observeTemporal(() => true);
  exposed = await metrics.scrape();
});

afterAll(async () => {
  await kube.close();
  rmSync(dir, { recursive: true });
});

describe('the alert rules', () => {
  test('are a valid Prometheus rule file', () => {
    expect(others).toEqual({});
    for (const { rules: _, ...group } of groups) expect(group).toEqual({ name: expect.any(String) });
    expect(rules.map(({ alert }) => alert)).toEqual([...new Set(rules.map(({ alert }) => alert))]);
    for (const rule of rules)
      expect(rule).toEqual({
        alert: expect.stringMatching(/^[A-Z][A-Za-z]+$/),
        expr: expect.any(String),
        for: expect.stringMatching(/^\d+[smhd]$/),
        labels: { severity: expect.stringMatching(/^(info|warning|critical)$/) },
        annotations: { summary: expect.any(String), description: expect.any(String) },
      });
  });

  test.each(rules)('$alert uses only metrics and labels that a worker exposes', ({ expr }) => {
    expect(problemsOf(expr)).toEqual([]);
    const own = selectorsIn(expr).filter(({ series }) => series.startsWith('node_maintenance_'));
    for (const { series } of own)
      expect(exposed).toMatch(new RegExp(`^# TYPE ${series} (gauge|counter)$`, 'm'));
  });

  test.each(rules)('$alert is in the runbook', ({ alert }) => {
    expect(runbook).toContain(`\`${alert}\``);
  });

  test.each(rules)('$alert is tested with promtool', ({ alert }) => {
    const firing = `ALERTS{alertname="${alert}", alertstate="firing"}`;
    const own = promtoolTests.tests
      .flatMap((one) => one.promql_expr_test)
      .filter(({ expr }) => expr === firing);
    expect(own.map(({ exp_samples: samples }) => samples?.length ?? 0)).toEqual(
      expect.arrayContaining([0, 1]),
    );
  });

  test.each(rules)('$alert uses only labels that its expression keeps', ({ expr, annotations }) => {
    const available = labelsKept(expr) ?? [];
    const used = Object.values(annotations).flatMap((text) => text.match(/(?<=\$labels\.)\w+/g) ?? []);
    // Prometheus itself adds `instance`, unless an aggregation drops it.
    expect([...available, ...(/\b(?:max|sum)\b/.test(expr) ? [] : ['instance'])]).toEqual(
      expect.arrayContaining(used),
    );
  });
});

test('a worker does not report Leases as missing before it has listed them', () => {
  expect(exposed).not.toContain('node_maintenance_node_leases{');
  expect(exposed).toContain('node_maintenance_node_leases_last_response_timestamp_seconds 0\n');
});

test('a worker reports whether it is connected to Temporal', () => {
  expect(exposed).toContain('node_maintenance_temporal_connected 1\n');
});
