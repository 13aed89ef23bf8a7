import type { CleanupTiming } from '../../controllers/evacuation/cleanup.ts';
import { EvacuationController } from '../../controllers/evacuation/evacuation.ts';
import {
  defaultEvacuatorSettings,
  type EvacuatorSettings,
} from '../../controllers/evacuation/knownEvacuators.ts';
import type { TerminationTiming } from '../../controllers/evacuation/termination.ts';
import { EventRecorder } from '../../kube/events.ts';
import { silentLog, type TestCluster } from './cluster.ts';

interface Options {
  evacuators?: Partial<EvacuatorSettings>;
  termination?: TerminationTiming;
  cleanup?: CleanupTiming;
  unneededAfterMs?: number;
}

/** Starts the controller; the returned function ends it as a crash does: only objects and its last Events remain. */
export function evacuationControllerOn(
  { cluster }: Pick<TestCluster, 'cluster'>,
  { evacuators, ...options }: Options = {},
): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const ended = new EvacuationController({
    cluster,
    events,
    log: silentLog,
    evacuators: { ...defaultEvacuatorSettings, ...evacuators },
    ...options,
  }).run(running.signal);
  return async () => {
    running.abort();
    await ended;
    await events.flush();
  };
}
