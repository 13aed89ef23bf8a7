import type { Cluster } from '../kube/cluster.ts';
import type { Cordons } from './cordon.ts';
import type { EventRecorder } from '../kube/events.ts';

/** What activities act on; constructed once, in worker/. */
export interface Deps {
  /** What has to outlast a single activity; both are made by createActivities. */
  cordons: Cordons;
  /** See StatusWriter. */
  lastWrites: Map<string, number>;
  cluster: Cluster;
  events: EventRecorder;
  /** Who started a run, in the words of their Temporal client. */
  starterOf: (workflowId: string, runId: string) => Promise<string>;
}
