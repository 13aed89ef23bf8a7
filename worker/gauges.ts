import { Gauge, type Registry } from 'prom-client';

/** Makes gauges whose series are read anew at each scrape; their names begin with `prefix`. */
export function gaugesIn(registry: Registry, prefix: string) {
  return (name: string, help: string, labelNames: string[], collect: (gauge: Gauge) => void) =>
    new Gauge({
      name: `${prefix}${name}`,
      help,
      labelNames,
      registers: [registry],
      collect() {
        this.reset();
        collect(this);
      },
    });
}
