import { type MetricDefinition, metricDefinitions, sdkMetrics } from '../../worker/metrics/definitions.ts';

const definitions = new Map<string, MetricDefinition>(
  [...Object.values<MetricDefinition>(metricDefinitions), ...sdkMetrics].map((one) => [one.name, one]),
);

/** Labels that Prometheus itself, or its configuration, adds to every series. */
const targetLabels = ['instance', 'job'];

/** A selector of a PromQL expression: a metric and the labels that it matches. */
interface Selector {
  series: string;
  labels: string[];
}

/** Returns the selectors of the project's metrics and of Temporal's SDK in an expression. */
export function selectorsIn(expr: string): Selector[] {
  const found = expr.matchAll(/\b((?:node_maintenance|temporal)_\w+)(?:\{([^}]*)\})?/g);
  return [...found].map(([, series = '', matchers = '']) => ({
    series,
    labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  }));
}

/** Returns the labels that an expression keeps, if it says so: those of its first aggregation. */
export function labelsKept(expr: string): string[] | undefined {
  return /\bby \(([^)]*)\)/
    .exec(expr)?.[1]
    ?.split(/,\s*/)
    .filter((label) => label !== '');
}

/** Returns what is wrong with the metrics and labels of an expression, one sentence each. */
export function problemsOf(expr: string): string[] {
  const selectors = selectorsIn(expr);
  if (selectors.length === 0) return [`"${expr}" uses no metric of a worker`];
  const problems = selectors.flatMap(({ series, labels }) => {
    const definition = definitionOf(series);
    if (definition === undefined) return [`no worker exposes ${series}`];
    return labels
      .filter((label) => !hasLabel(definition, label))
      .map((label) => `${series} has no label ${label}`);
  });
  const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, labels = '']) => labels.split(/,\s*/));
  const known = selectors.flatMap(({ series }) => definitionOf(series) ?? []);
  const lost = grouped.filter((label) => label !== '' && !known.some((one) => hasLabel(one, label)));
  return [...problems, ...lost.map((label) => `no metric of "${expr}" has label ${label}`)];
}

function definitionOf(series: string): MetricDefinition | undefined {
  const histogram = definitions.get(series.replace(/_(?:bucket|sum|count)$/, ''));
  return histogram?.type === 'histogram' && !definitions.has(series) ? histogram : exactly(series);
}

/** A histogram has no series of its own name. */
function exactly(series: string): MetricDefinition | undefined {
  const definition = definitions.get(series);
  return definition?.type === 'histogram' ? undefined : definition;
}

function hasLabel({ type, labels }: MetricDefinition, label: string): boolean {
  return labels.includes(label) || targetLabels.includes(label) || (type === 'histogram' && label === 'le');
}
