import type { Cluster } from '../kube/cluster.ts';
import type { Cordons } from './cordon.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { NodeLeases } from '../node-lease/nodeLeases.ts';
import type { NodeHolds } from './nodeHolds.ts';
import type { Outbox } from './notices.ts';

/** What activities act on; constructed once, in worker/. */
export interface Deps {
  /** What has to outlast a single activity is made by createActivities: cordons, lastWrites and holds. */
  cordons: Cordons;
  /** See StatusWriter. */
  lastWrites: Map<string, number>;
  holds: NodeHolds;
  /** As the one holder that all workers of the installation are. */
  leases: NodeLeases;
  cluster: Cluster;
  /** Whether nodes wait for their readiness gates. */
  keepsGates: boolean;
  events: EventRecorder;
  /** Of single nodes: there are many, and they may come late. */
  nodeEvents: EventRecorder;
  notices: Outbox;
  /** Who started a run, in the words of their Temporal client. */
  starterOf: (workflowId: string, runId: string) => Promise<string>;
  /** Whether a workflow has a run that goes on. */
  isRunning: (workflowId: string) => Promise<boolean>;
}
