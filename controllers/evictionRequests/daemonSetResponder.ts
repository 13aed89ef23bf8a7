import { DAEMONSET_RESPONDER } from '../../api/names.ts';
import { daemonSetOf, gracePeriodSecondsOf } from '../../domain/common/pod.ts';
import { gatingMaintenance, terminationMessage } from '../../domain/drain/daemonSet.ts';
import type { EvacuatePod } from '../../evacuator-kit/protocol.ts';
import { Responder } from '../../evacuator-kit/responder.ts';
import { sleep } from '../../kube/abort.ts';
import type { FencedCluster } from '../../kube/cluster.ts';
import type { Log } from '../../kube/log.ts';
import { resources } from '../../kube/resources.ts';
import { trimPod } from '../../kube/transform.ts';
import type { EvictionView } from './evictionView.ts';

interface Deps {
  readonly cluster: FencedCluster;
  readonly view: EvictionView;
  readonly log: Log;
  /** Time between two checks of the maintenances of a node; 5 s unless given. */
  readonly intervalMs?: number | undefined;
}

const defaultIntervalMs = 5_000;

/**
 * Serves Evictions of pods of DaemonSets: deletes each by its UID once a maintenance drains its node and has reached it, because otherwise its
 * DaemonSet would create it again. Until then it neither deletes the pod nor completes.
 */
export function runDaemonSetResponder(
  { cluster, view, log, intervalMs = defaultIntervalMs }: Deps,
  signal: AbortSignal,
): Promise<void> {
  const evacuate: EvacuatePod = async (raw, _, progress) => {
    const pod = trimPod(raw);
    const daemonSet = daemonSetOf(pod)?.name;
    if (daemonSet === undefined) return 'No DaemonSet controls the pod.';
    const { namespace = '', name, uid = '' } = pod.metadata;
    for (let isDeleted = false; ; await sleep(intervalMs, progress.signal)) {
      progress.signal.throwIfAborted();
      const node = cluster.nodes.get(pod.spec.nodeName ?? '');
      const maintenance = node && gatingMaintenance(pod, node, cluster.maintenances.list());
      if (isDeleted) continue;
      if (maintenance === undefined) {
        progress.reportWaiting(`No maintenance drains the pods of DaemonSet ${daemonSet} on the node yet.`);
        continue;
      }
      const finish = cluster.kube.now().getTime() + gracePeriodSecondsOf(pod) * 1_000;
      const message = terminationMessage(daemonSet, maintenance);
      progress.report({ message, expectedFinishTime: new Date(finish) });
      await cluster.kube.delete(resources.pods, { namespace, name }, { uid });
      isDeleted = true;
    }
  };
  const responder = new Responder({
    responderName: DAEMONSET_RESPONDER,
    evacuate,
    view: { ...cluster, evictions: view.evictions },
    log,
  });
  return responder.run(signal);
}
