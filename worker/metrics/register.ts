import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { MetricDefinition } from './definitions.ts';

type Definition<Type extends MetricDefinition['type']> = MetricDefinition & { readonly type: Type };

function configurationOf({ name, help, labels }: MetricDefinition, registry: Registry) {
  return { name, help, labelNames: [...labels], registers: [registry] };
}

/** Registers a gauge whose series `collect` sets at each scrape. */
export function registerGauge(
  registry: Registry,
  definition: Definition<'gauge'>,
  collect: (gauge: Gauge) => void,
): Gauge {
  return new Gauge({
    ...configurationOf(definition, registry),
    collect() {
      this.reset();
      collect(this);
    },
  });
}

/** Registers a gauge that keeps its series between scrapes. */
export function registerSettableGauge(registry: Registry, definition: Definition<'gauge'>): Gauge {
  return new Gauge(configurationOf(definition, registry));
}

export function registerCounter(registry: Registry, definition: Definition<'counter'>): Counter {
  return new Counter(configurationOf(definition, registry));
}

/** Registers a counter that `read` returns the value of at each scrape. */
export function registerCounterOf(
  registry: Registry,
  definition: Definition<'counter'>,
  read: () => number,
): Counter {
  return new Counter({
    ...configurationOf(definition, registry),
    collect() {
      this.reset();
      this.inc(read());
    },
  });
}

export function registerHistogram(registry: Registry, definition: Definition<'histogram'>): Histogram {
  const { buckets = [] } = definition;
  return new Histogram({ ...configurationOf(definition, registry), buckets: [...buckets] });
}
