import { EvacuationController } from '../../controllers/evacuation.ts';
import { EventRecorder } from '../../kube/events.ts';
import { silentLog, type TestCluster } from './cluster.ts';

/** Starts the controller; the function ends it as a crash does: nothing but the objects remains, and its last Events. */
export function evacuationControllerOn({ cluster }: TestCluster): () => Promise<void> {
  const running = new AbortController();
  const events = new EventRecorder({ kube: cluster.kube, component: 'node-maintenance', log: silentLog });
  const ended = new EvacuationController({ cluster, events, log: silentLog }).run(running.signal);
  return async () => {
    running.abort();
    await ended;
    await events.flush();
  };
}
