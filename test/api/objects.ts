import { EVACUATION, NODE_MAINTENANCE } from '../../api/names.ts';
import type { DrainPlanEntry, PodType } from '../../api/nodeMaintenance.ts';

/** Objects as a user would write them, so also wrong ones: each test names only what differs. */

export function maintenance(name: string, spec: object = {}): object {
  return {
    apiVersion: NODE_MAINTENANCE.apiVersion,
    kind: NODE_MAINTENANCE.kind,
    metadata: { name },
    spec: { nodeSelector: selecting({ key: 'rack', operator: 'In', values: ['nowhere'] }), ...spec },
  };
}

export function selecting(...matchExpressions: object[]): object {
  return { nodeSelectorTerms: [{ matchExpressions }] };
}

export function selectingFields(...matchFields: object[]): object {
  return { nodeSelectorTerms: [{ matchFields }] };
}

/** Typed as sound, so that plans can be given to the domain too. */
export function entry(podType: string, podPriority: number, podSelector?: object): DrainPlanEntry {
  return { podType: podType as PodType, podPriority, ...(podSelector && { podSelector }) };
}

export function evacuation(name: string, spec: object = {}): object {
  return {
    apiVersion: EVACUATION.apiVersion,
    kind: EVACUATION.kind,
    metadata: { name, namespace: 'default' },
    spec: {
      podRef: { name: 'muffin-orders-6b59d9cb88-ks7wb', uid: 'f5823a89-e03f-4752-b013-445643b8c7a0' },
      ...spec,
    },
  };
}
