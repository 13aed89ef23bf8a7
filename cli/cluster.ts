import { connectKube, type Kube } from '../kube/client.ts';
import type { Log } from '../kube/log.ts';

/** Options of every verb, as kubectl has them. */
export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
}

const silent: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

/** Does something with the cluster that the options name, and ends the connections. */
export async function withCluster<T>(options: ClusterOptions, work: (kube: Kube) => Promise<T>): Promise<T> {
  const kube = connectKube({ ...options, userAgent: 'kubectl-maintenance', log: silent });
  try {
    return await work(kube);
  } finally {
    await kube.close();
  }
}
