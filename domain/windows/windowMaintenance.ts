import type { Node } from '../../api/core.ts';
import type { MaintenanceWindow, WindowWork } from '../../api/maintenanceWindow.ts';
import {
  NODE_MAINTENANCE,
  REQUESTER_ANNOTATION,
  REVISION_LABEL,
  WINDOW_LABEL,
  WindowAnnotation,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareNames } from '../common/names.ts';
import { selectsNode } from '../common/nodeSelector.ts';
import { recordOfWindow } from '../common/requester.ts';
import { jobName, revisionOf, windowMaintenanceName } from '../common/revision.ts';
import { completeDrainPlan } from '../drain/plan.ts';

/** A NodeMaintenance that belongs to a window: it maintains one node in one revision of the window (ADR 19). */
export interface WindowMaintenance {
  window: string;
  revision: string;
  /** Empty if the annotation was removed. Such a NodeMaintenance belongs to no Node, and the window cancels it. */
  node: string;
  /** The UID of the Node that the NodeMaintenance was created for. A recreated Node has another one. */
  nodeUid: string;
  maintenance: NodeMaintenance;
}

/** Creates the NodeMaintenance of a node in a window. */
export function newWindowMaintenance(
  window: MaintenanceWindow,
  node: { name: string; uid: string; bootId?: string | undefined },
): NodeMaintenance {
  const { template, work } = window.spec;
  const revision = revisionOf(window.spec);
  const matchFields = [{ key: 'metadata.name', operator: 'In' as const, values: [node.name] }];
  const { apiVersion, kind } = NODE_MAINTENANCE;
  return {
    apiVersion,
    kind,
    metadata: {
      name: windowMaintenanceName(window.metadata.name, revision, node.name),
      labels: {
        ...template.metadata?.labels,
        [WINDOW_LABEL]: window.metadata.name,
        [REVISION_LABEL]: revision,
      },
      annotations: {
        ...template.metadata?.annotations,
        [WindowAnnotation.Node]: node.name,
        [WindowAnnotation.NodeUid]: node.uid,
        [WindowAnnotation.WorkType]: work.type,
        ...(work.type === 'Reboot' && { [WindowAnnotation.BootId]: node.bootId ?? '' }),
        [REQUESTER_ANNOTATION]: recordOfWindow(window.metadata.name),
      },
    },
    spec: {
      nodeSelector: { nodeSelectorTerms: [{ matchFields }] },
      stage: 'Drain',
      drainPlan: completeDrainPlan(template.drainPlan),
      reason: template.reason ?? `Window ${window.metadata.name}`,
      ...(template.drainDeadline && { drainDeadline: template.drainDeadline }),
      ...(template.requireCapacity !== undefined && { requireCapacity: template.requireCapacity }),
    },
  };
}

/** Returns the NodeMaintenances of all windows, sorted by name. */
export function windowMaintenancesIn(maintenances: readonly NodeMaintenance[]): WindowMaintenance[] {
  return maintenances
    .flatMap((maintenance) => windowMaintenanceOf(maintenance) ?? [])
    .toSorted((a, b) => compareNames(a.maintenance.metadata.name, b.maintenance.metadata.name));
}

/** Returns the NodeMaintenances of one window, of all of its revisions, sorted by name. */
export function windowMaintenancesOf(
  window: string,
  maintenances: readonly NodeMaintenance[],
): WindowMaintenance[] {
  return windowMaintenancesIn(maintenances).filter((one) => one.window === window);
}

/** Returns undefined for a NodeMaintenance that belongs to no window. */
export function windowMaintenanceOf(maintenance: NodeMaintenance): WindowMaintenance | undefined {
  const { labels = {}, annotations = {} } = maintenance.metadata;
  const window = labels[WINDOW_LABEL];
  if (window === undefined) return undefined;
  return {
    window,
    revision: labels[REVISION_LABEL] ?? '',
    node: annotations[WindowAnnotation.Node] ?? '',
    nodeUid: annotations[WindowAnnotation.NodeUid] ?? '',
    maintenance,
  };
}

/**
 * Reports whether the NodeMaintenance belongs to this Node. It must also select the Node: admission lets only users who may
 * maintain a node create a NodeMaintenance that selects it, but anybody who may create one can set the annotations.
 */
export function belongsToNode(
  { nodeUid, maintenance: { spec } }: Pick<WindowMaintenance, 'nodeUid' | 'maintenance'>,
  node: Node | undefined,
): node is Node {
  return node?.metadata.uid === nodeUid && selectsNode(spec.nodeSelector, node);
}

/** Returns the type of the window's work when the maintenance started. The window may have been edited since. */
export function workTypeOf({ metadata }: Pick<NodeMaintenance, 'metadata'>): WindowWork['type'] {
  const type = metadata.annotations?.[WindowAnnotation.WorkType];
  return type === 'Job' || type === 'Reboot' ? type : 'None';
}

/** Reports whether the window has paused the drain or is about to. The window resumes only such drains, never those that a user paused. */
export function isPausedByWindow({ metadata }: Pick<NodeMaintenance, 'metadata'>): boolean {
  return metadata.annotations?.[WindowAnnotation.PausedByWindow] !== undefined;
}

/** Identifies the Job that a NodeMaintenance may have; undefined if its work is none. Only then the worker needs to read Jobs. */
export function possibleJobRef(
  maintenance: Pick<NodeMaintenance, 'metadata'>,
): ReturnType<typeof workJobRef> | undefined {
  return workTypeOf(maintenance) === 'Job' ? workJobRef(maintenance) : undefined;
}

/** Identifies the Job of a NodeMaintenance. A Job of this name with another owner, such as an earlier NodeMaintenance, is not its Job. */
export function workJobRef({ metadata: { name, uid = '' } }: Pick<NodeMaintenance, 'metadata'>): {
  name: string;
  ownerUid: string;
} {
  return { name: jobName(name), ownerUid: uid };
}
