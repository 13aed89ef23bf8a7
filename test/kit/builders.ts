import type { Pod } from '../../api/core.ts';
import type { EvictionIntent, EvictionRequest } from '../../api/lifecycle.ts';
import { EVICTION_REQUEST } from '../../api/names.ts';
import type { DrainPlanEntry } from '../../api/nodeMaintenance.ts';
import type { NodeAgent } from '../../domain/leases/nodeAgent.ts';
import type { NodeReadinessGate } from '../../api/nodeReadiness.ts';

export const pods = (podPriority: number): DrainPlanEntry => ({ podType: 'Default', podPriority });
export const daemons = (podPriority: number): DrainPlanEntry => ({ podType: 'DaemonSet', podPriority });
export const statics = (podPriority: number): DrainPlanEntry => ({ podType: 'Static', podPriority });
export const labelled = (entry: DrainPlanEntry, matchLabels: Record<string, string>): DrainPlanEntry => ({
  ...entry,
  podSelector: { matchLabels },
});

/** Returns a blocking gate for the pods with label `app: <name>`. */
export const gate = (name: string, differs: Partial<NodeReadinessGate> = {}): NodeReadinessGate => ({
  name,
  namespace: 'kube-system',
  selector: { matchLabels: { app: name } },
  blocksReadiness: true,
  ...differs,
});

let serial = 0;

/** Returns a running pod; pass only what differs. */
export function pod(
  differs: Partial<Pod['metadata']> & { priority?: number; phase?: string; ready?: boolean } = {},
): Pod {
  const { priority, phase = 'Running', ready = true, ...metadata } = differs;
  serial += 1;
  return {
    metadata: { name: `pod-${serial}`, namespace: 'default', uid: `uid-${serial}`, ...metadata },
    spec: { nodeName: 'node-1', ...(priority === undefined ? {} : { priority }) },
    status: { phase, ready },
  };
}

/** Returns a request of lifecycle.k8s.io for the eviction of the pod. */
export function evictionRequestFor(
  { metadata: { name, namespace = '', uid = '' } }: Pick<Pod, 'metadata'>,
  request: Pick<EvictionRequest['spec'], 'requester'> & { name: string; intent?: EvictionIntent },
): EvictionRequest {
  const { apiVersion, kind } = EVICTION_REQUEST;
  const { requester, intent = 'Eviction' } = request;
  return {
    apiVersion,
    kind,
    metadata: { name: request.name, namespace },
    spec: { target: { pod: { name, uid } }, requester, intent },
  };
}

export const daemonPod = (differs: Parameters<typeof pod>[0] = {}): Pod =>
  pod({
    ownerReferences: [{ apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'd', controller: true }],
    ...differs,
  });

export const mirrorPod = (differs: Parameters<typeof pod>[0] = {}): Pod =>
  pod({ annotations: { 'kubernetes.io/config.mirror': 'hash' }, ...differs });

/** A node agent that reports. */
export const liveAgent: NodeAgent = {
  kind: 'Live',
  version: '1.2.3',
  capabilities: ['reboot', 'static-pods'],
};
