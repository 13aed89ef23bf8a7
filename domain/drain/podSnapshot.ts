import type { Pod } from '../../api/core.ts';
import type { Blocker } from '../evacuation/blocker.ts';

/** A pod of a node under maintenance, and the state of its evacuation. */
export interface PodSnapshot {
  pod: Pod;
  /** The pod has an Evacuation that node maintenance requests. */
  evacuating: boolean;
  /** The reason why the pod cannot leave, if there is one. */
  blocker?: Blocker | undefined;
  /** Its Evacuation has the cancellation policy Forbid. */
  forbidsCancellation?: boolean;
}
