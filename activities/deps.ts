import type { Cluster } from '../kube/cluster.ts';
import type { EventRecorder } from '../kube/events.ts';

/** What activities act on; constructed once, in worker/. */
export interface Deps {
  cluster: Cluster;
  events: EventRecorder;
}
