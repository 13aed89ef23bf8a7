import { type MetricDefinition, metricDefinitions } from '../../worker/metrics/definitions.ts';

/** Returns the text of docs/reference/metrics.md. */
export function metricsReference(): string {
  const rows = Object.values<MetricDefinition>(metricDefinitions).map(row);
  return `# Metrics

Every worker serves these metrics at \`/metrics\` of port 9464 (\`--metrics-port\`), together with the process metrics of prom-client and
the metrics of Temporal's SDK (\`temporal_...\`). \`deploy/monitoring/alerts.yaml\` contains alerts for them.

| metric | type | labels | meaning |
|---|---|---|---|
${rows.join('\n')}
`;
}

function row({ name, type, labels, help }: MetricDefinition): string {
  const labelNames = labels.map((label) => `\`${label}\``).join(', ');
  return `| \`${name}\` | ${type} | ${labelNames} | ${help} |`;
}
