import { connectKube, type Kube } from '../kube/client.ts';
import { silentLog } from '../kube/log.ts';
import { printError } from './output.ts';

/** Options of every command, as in kubectl. */
export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
}

/** Runs `work` with a client of the selected cluster, and closes its connections. */
export async function withCluster<T>(options: ClusterOptions, work: (kube: Kube) => Promise<T>): Promise<T> {
  const onWarning = (text: string) => printError(`Warning: ${text}`);
  const kube = connectKube({ ...options, userAgent: 'kubectl-maintenance', log: silentLog, onWarning });
  try {
    return await work(kube);
  } finally {
    await kube.close();
  }
}
