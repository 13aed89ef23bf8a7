import type { Evacuation } from '@node-maintenance/api';
import type { LivePod } from '../kube/livePod.ts';
import type { Progress } from './progress.ts';

/**
 * Moves or terminates one pod in an application-specific way. Contract:
 *
 * 1. It is called when `status.activeEvacuatorClass` is its class, for a pod that exists and is not terminating.
 * 2. When it returns, the evacuator has completed: the next evacuator becomes active, or the eviction API is used. The
 *    returned value is the last message.
 * 3. When it throws, the Evacuation reports the error, and the function is called again with back-off while its class is active.
 * 4. When `progress.signal` aborts, it must end soon. Its result is ignored then.
 * 5. After a restart it is called again for the same Evacuation: check which work is done already, and
 *    `evacuation.status`, before doing anything.
 */
export type Evacuate = (
  pod: LivePod,
  evacuation: Readonly<Evacuation>,
  progress: Progress,
) => Promise<string | void>;
