import { readFileSync } from 'node:fs';

export interface Panel {
  id: number;
  type: string;
  title: string;
  gridPos: { x: number; y: number; w: number; h: number };
  datasource?: { type: string; uid: string };
  targets?: { refId: string; expr: string; legendFormat: string }[];
}

interface Dashboard {
  uid: string;
  panels: Panel[];
  templating: { list: { name: string; type: string }[] };
  annotations: { list: { expr: string; titleFormat: string }[] };
}

/** deploy/monitoring/dashboard.json. */
export const dashboard = JSON.parse(
  readFileSync(new URL('../../deploy/monitoring/dashboard.json', import.meta.url), 'utf8'),
) as Dashboard;

/** Its queries, each with the labels that its legend shows. */
export const queries: readonly { panel: string; expr: string; legend: string }[] = [
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({ panel: title, expr, legend: legendFormat })),
  ),
  ...dashboard.annotations.list.map(({ expr, titleFormat }) => ({
    panel: 'annotation',
    expr,
    legend: titleFormat,
  })),
];
