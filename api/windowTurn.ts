import type { MaintenanceWindow } from './maintenanceWindow.ts';
import { NODE_MAINTENANCE, REVISION_LABEL, TurnAnnotation, WINDOW_LABEL } from './names.ts';
import type { DrainPlanEntry, NodeMaintenance } from './nodeMaintenance.ts';

/** What a turn takes from elsewhere than its window. */
interface Given {
  /** Of the NodeMaintenance. */
  name: string;
  revision: string;
  drainPlan: DrainPlanEntry[];
  node: { name: string; uid: string };
}

/** The NodeMaintenance that is the turn of a node in a window, as it is created. */
export function newTurn(
  { metadata, spec: { template, work } }: MaintenanceWindow,
  { name, revision, drainPlan, node }: Given,
): NodeMaintenance {
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [node.name] }];
  const { apiVersion, kind } = NODE_MAINTENANCE;
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      labels: { ...template.metadata?.labels, [WINDOW_LABEL]: metadata.name, [REVISION_LABEL]: revision },
      annotations: {
        ...template.metadata?.annotations,
        [TurnAnnotation.Node]: node.name,
        [TurnAnnotation.NodeUid]: node.uid,
        [TurnAnnotation.Work]: work.type,
      },
    },
    spec: {
      nodeSelector: { nodeSelectorTerms: [{ matchFields }] },
      stage: 'Drain',
      drainPlan,
      reason: template.reason ?? `Window ${metadata.name}`,
    },
  };
}

/** A NodeMaintenance as what it says that it is: the turn of this machine in a revision of a window. */
export interface TurnOfNode {
  window: string;
  revision: string;
  node: string;
  nodeUid: string;
  maintenance: NodeMaintenance;
}

/** The turns of windows among all maintenances. */
export function claimedTurns(maintenances: readonly NodeMaintenance[]): TurnOfNode[] {
  return maintenances.flatMap((maintenance) => {
    const { labels = {}, annotations = {} } = maintenance.metadata;
    const [window, node] = [labels[WINDOW_LABEL], annotations[TurnAnnotation.Node]];
    if (window === undefined || node === undefined) return [];
    const [revision = '', nodeUid = ''] = [labels[REVISION_LABEL], annotations[TurnAnnotation.NodeUid]];
    return { window, revision, node, nodeUid, maintenance };
  });
}
