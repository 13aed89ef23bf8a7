import { describe, expect, test } from '@jest/globals';
import { dashboard, queries } from '../kit/dashboard.ts';
import { labelsKept, problemsOf } from '../kit/promql.ts';

const panels = dashboard.panels;

describe('the dashboard', () => {
  test('has panels that Grafana can place: with identifiers of their own, within 24 columns, side by side', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) => {
      expect(x + w).toBeLessThanOrEqual(24);
      return Array.from({ length: w * h }, (_, index) => `${x + (index % w)}/${y + Math.floor(index / w)}`);
    });
    expect(new Set(cells).size).toBe(cells.length);
  });

  test('lets the viewer choose the data source of every panel', () => {
    expect(dashboard.templating.list).toEqual([
      expect.objectContaining({ name: 'datasource', type: 'datasource', query: 'prometheus' }),
    ]);
    for (const { type, datasource } of panels)
      expect(datasource?.uid).toBe(type === 'row' ? undefined : '${datasource}');
  });

  test.each(queries)('$panel: uses only metrics and labels that a worker exposes: $expr', ({ expr }) => {
    expect(problemsOf(expr)).toEqual([]);
  });

  test.each(queries)(
    '$panel: its legend shows only labels that the query keeps: $expr',
    ({ expr, legend }) => {
      const shown = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label);
      expect(labelsKept(expr) ?? []).toEqual(expect.arrayContaining(shown));
    },
  );

  test('a metric or a label that does not exist is found', () => {
    expect(problemsOf('node_maintenance_nope')).toEqual(['no worker exposes node_maintenance_nope']);
    expect(problemsOf('max by (pod) (node_maintenance_nodes{stages="Drain"})')).toEqual([
      'node_maintenance_nodes has no label stages',
      'no metric of "max by (pod) (node_maintenance_nodes{stages="Drain"})" has label pod',
    ]);
    // A histogram has buckets, and no series of its own name.
    expect(problemsOf('node_maintenance_drain_duration_seconds')).toEqual([
      'no worker exposes node_maintenance_drain_duration_seconds',
    ]);
  });
});
