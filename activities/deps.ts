import type { InjectedDeps } from './injectedDeps.ts';
import type { NodeAgents } from './leases/nodeAgents.ts';
import type { NodeAuthority } from './leases/nodeAuthority.ts';
import type { NodeLeaseRegistry } from './leases/nodeLeaseRegistry.ts';
import type { Cordons } from './maintenance/cordons.ts';
import type { Capacity } from './drain/capacity.ts';
import type { ServingMonitor } from './drain/servingMonitor.ts';
import type { HeldNodes } from './maintenance/heldNodes.ts';
import type { SharedRead } from './maintenance/sharedRead.ts';

/**
 * State that the activities of this process share. It saves requests and Events; an activity gives the same result without it, in
 * another process.
 */
export interface ProcessState {
  authority: NodeAuthority;
  capacity: Capacity;
  cordons: Cordons;
  heldNodes: SharedRead<HeldNodes>;
  nodeAgents: NodeAgents;
  nodeLeases: NodeLeaseRegistry;
  serving: ServingMonitor;
  /** Maintenance UID -> when its status was last written, as performance.now() returned it (see StatusWriter). */
  lastStatusWrites: Map<string, number>;
}

/** The argument of every activity: injected dependencies and the state of this process. */
export type Deps = InjectedDeps & ProcessState;
