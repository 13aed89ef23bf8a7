export interface Sample {
  name: string;
  labels: Record<string, string | undefined>;
  value: number;
}

/** Parses the samples of a page in Prometheus' text format. */
export function* parseSamples(page: string): Generator<Sample> {
  for (const line of page.split('\n')) {
    const [, name, labels = '', value] = /^([a-z_:][\w:]*)(?:\{(.*)\})? (\S+)/i.exec(line) ?? [];
    if (name === undefined) continue;
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key, text]) => [key, text]);
    yield { name, labels: Object.fromEntries(pairs), value: Number(value) };
  }
}
