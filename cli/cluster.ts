import { connectKube, type Kube } from '../kube/client.ts';
import { silentLog } from '../kube/log.ts';
import { complain } from './output.ts';

/** Options of every verb, as kubectl has them. */
export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** Does something with the cluster that the options name, and ends the connections. */
export async function withCluster<T>(options: ClusterOptions, work: (kube: Kube) => Promise<T>): Promise<T> {
  const onWarning = (text: string) => complain(`Warning: ${text}`);
  const kube = connectKube({ ...options, userAgent: 'kubectl-maintenance', log: silentLog, onWarning });
  try {
    return await work(kube);
  } finally {
    await kube.close();
  }
}
