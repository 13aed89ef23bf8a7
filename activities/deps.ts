import type { Cluster } from '../kube/cluster.ts';
import type { EventRecorder } from '../kube/events.ts';

/** What activities act on; constructed once, in worker/. */
export interface Deps {
  cluster: Cluster;
  events: EventRecorder;
  /** Who started a run, in the words of their Temporal client. */
  starterOf: (workflowId: string, runId: string) => Promise<string>;
}
