import type { Kube } from '../kube/client.ts';
import type { EventRecorder } from '../kube/events.ts';
import type { Log } from '../kube/log.ts';

/** Dependencies of each part of the node agent. */
export interface AgentDeps {
  readonly kube: Kube;
  /** Name of the Node of this host. */
  readonly node: string;
  /** `/proc/sys/kernel/random/boot_id`, which the kubelet publishes as `.status.nodeInfo.bootID`. */
  readonly bootId: string;
  readonly events: EventRecorder;
  readonly log: Log;
}
