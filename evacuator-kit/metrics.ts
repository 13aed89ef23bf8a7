import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { RequestObservation } from '../kube/transport.ts';
import type { Outcome } from './protocol.ts';

/** The Prometheus metrics of an evacuator process; README.md describes them. */
export class EvacuatorMetrics {
  readonly #registry: Registry;
  readonly #calls: Counter<'outcome'>;
  readonly #inProgress: Gauge;
  readonly #seconds: Histogram<'outcome'>;
  readonly #leader: Gauge;
  readonly #requests: Counter<'verb' | 'resource' | 'code'>;

  /** Registers the metrics. Throws an Error if the registry has one of the same name. */
  constructor(registry = registryWithDefaults()) {
    const registers = [registry];
    this.#registry = registry;
    this.#calls = new Counter({
      name: 'evacuator_calls_total',
      help: 'Number of calls of the function that have ended, by outcome: Completed, Failed or Stopped.',
      labelNames: ['outcome'],
      registers,
    });
    this.#inProgress = new Gauge({
      name: 'evacuator_calls_in_progress',
      help: 'Number of calls of the function in progress.',
      registers,
    });
    this.#seconds = new Histogram({
      name: 'evacuator_call_duration_seconds',
      help: 'Duration of the calls of the function, by outcome.',
      labelNames: ['outcome'],
      buckets: [0.1, 1, 5, 15, 60, 300, 900, 1_800, 3_600],
      registers,
    });
    this.#leader = new Gauge({
      name: 'evacuator_leader',
      help: '1 if this replica is the leader, and calls the function.',
      registers,
    });
    this.#requests = new Counter({
      name: 'evacuator_kubernetes_requests_total',
      help: 'Number of requests to the apiserver, by verb, resource and HTTP status (empty without a response).',
      labelNames: ['verb', 'resource', 'code'],
      registers,
    });
    for (const outcome of ['Completed', 'Failed', 'Stopped']) this.#calls.inc({ outcome }, 0);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  readonly onCall = (): ((outcome: Outcome) => void) => {
    const startedAt = performance.now();
    this.#inProgress.inc();
    return (outcome) => {
      this.#inProgress.dec();
      this.#calls.inc({ outcome });
      this.#seconds.observe({ outcome }, (performance.now() - startedAt) / 1_000);
    };
  };

  readonly onRequest = ({ verb, resource, status }: RequestObservation): void => {
    this.#requests.inc({ verb, resource, code: status?.toString() ?? '' });
  };

  leading(isLeader: boolean): void {
    this.#leader.set(isLeader ? 1 : 0);
  }
}

function registryWithDefaults(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
}
