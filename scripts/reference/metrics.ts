import { agentMetrics } from '../../agent/metrics.ts';
import { type MetricDefinition, metricDefinitions, sdkMetrics } from '../../worker/metrics/definitions.ts';

/** Returns the text of docs/reference/metrics.md. */
export function metricsReference(): string {
  const rows = Object.values<MetricDefinition>(metricDefinitions).map(row);
  return `# Metrics

Every worker serves these metrics at \`/metrics\` of port 9464 (\`--metrics-port\`), together with the process metrics of prom-client and
the metrics of Temporal's SDK (\`temporal_...\`). \`deploy/monitoring\` contains alerts ([what to do](../how-to/runbook.md#alerts)) and a dashboard.

Counters start at 0 with each process: add the rates of all of them. Gauges of objects are the same in every process: take the maximum.

| metric | type | labels | meaning |
|---|---|---|---|
${rows.join('\n')}

## Metrics of Temporal's SDK

The dashboard and the alerts use these. Durations are in seconds.

| metric | type | labels | meaning |
|---|---|---|---|
${sdkMetrics.map(row).join('\n')}

## Metrics of the node agent

Every node agent serves these gauges at \`/metrics\` of its \`--health-port\`, if it has one.

| metric | meaning |
|---|---|
${agentMetrics.map(({ name, help }) => `| \`${name}\` | ${help} |`).join('\n')}
`;
}

function row({ name, type, labels, help }: MetricDefinition): string {
  const labelNames = labels.map((label) => `\`${label}\``).join(', ');
  return `| \`${name}\` | ${type} | ${labelNames} | ${help} |`;
}
