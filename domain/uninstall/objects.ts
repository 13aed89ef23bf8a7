import type { KubeObject, Lease } from '../../api/core.ts';
import type { Evacuation } from '../../api/evacuation.ts';
import type { EvictionRequest } from '../../api/lifecycle.ts';
import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import {
  INSTIGATOR_FINALIZER,
  MAINTENANCE_FINALIZER,
  MAINTENANCE_GATE,
  RELEASED_ANNOTATION,
  WINDOW_FINALIZER,
  WINDOW_LABEL,
  WindowRequestAnnotation,
} from '../../api/names.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { listed } from '../common/names.ts';
import { holdsNodes } from '../common/stage.ts';
import { finalizersOfOthers, isInstigated } from '../evacuation/evacuation.ts';
import { parseRelease, podTemplateHash } from '../evacuation/podRelease.ts';
import type { MarkedPod, UninstallChoices, UninstallFacts } from './facts.ts';
import {
  itemsAbout,
  keyPath,
  type PatchOperation,
  removeAt,
  removeFinalizer,
  removeKey,
  type UninstallItem,
} from './item.ts';
import { otherHolderOf } from './nodes.ts';

/** Reports whether the maintenance has something to return to service, or is about to start. */
export function isOpen({ metadata, spec }: NodeMaintenance): boolean {
  return metadata.finalizers?.includes(MAINTENANCE_FINALIZER) === true || holdsNodes(spec.stage);
}

/**
 * Returns the items that a living worker does on request: it closes open windows, and completes maintenances whose object is deleted. Those of an open
 * window are left to it: it ends the Job or the reboot of a node before it uncordons the node.
 */
export function askedItems({ leader, maintenances, windows }: UninstallFacts): UninstallItem[] {
  if (leader === undefined) return [];
  const closing = windows.map((window) => ({ name: window.metadata.name, items: closeItems(window) }));
  const isClosing = ({ metadata }: NodeMaintenance) =>
    closing.some(({ name, items }) => items.length > 0 && name === metadata.labels?.[WINDOW_LABEL]);
  return [
    ...closing.flatMap(({ items }) => items),
    ...maintenances
      .filter((one) => isOpen(one) && !isClosing(one))
      .map((one) => {
        const about = itemsAbout({ phase: 'Ask', kind: 'NodeMaintenance' }, one);
        return about.delete('a worker returns its nodes to service');
      }),
  ];
}

function closeItems(window: MaintenanceWindow): UninstallItem[] {
  const { annotations } = window.metadata;
  const runId = window.status?.active?.runId;
  if (runId === undefined) return [];
  const about = itemsAbout({ phase: 'Ask', kind: 'MaintenanceWindow' }, window);
  if (annotations?.[WindowRequestAnnotation.Cancel] === runId || window.status?.active?.requests?.cancelled)
    return [about.wait('a worker closes it')];
  const path = '/metadata/annotations';
  const missing: PatchOperation[] = annotations === undefined ? [{ op: 'add', path, value: {} }] : [];
  return [
    about.patch('cancel', [
      { op: 'test', path: '/status/active/runId', value: runId },
      ...missing,
      { op: 'add', path: keyPath(path, WindowRequestAnnotation.Cancel), value: runId },
    ]),
  ];
}

/** Evacuations first: an evacuator of another vendor stops when its Evacuation is gone. */
export function evacuationItems(evacuation: Evacuation, { crds }: UninstallChoices): UninstallItem[] {
  const about = itemsAbout({ phase: 'Nodes', kind: 'Evacuation' }, evacuation);
  const { deletionTimestamp } = evacuation.metadata;
  const others = finalizersOfOthers(evacuation.metadata);
  if (!isInstigated(evacuation)) {
    const who = others.length === 0 ? 'a user has requested it' : `requested by others: ${listed(others)}`;
    return [
      crds ? about.blocked(`${who}; delete it, and run the command again for the CRDs`) : about.keep(who),
    ];
  }
  // A policy in the apiserver protects it otherwise.
  if (deletionTimestamp === undefined && others.length === 0 && isForbidden(evacuation))
    return [
      about.patchStatus('allow cancellation', [
        { op: 'test', path: '/status/evacuationCancellationPolicy', value: 'Forbid' },
        { op: 'replace', path: '/status/evacuationCancellationPolicy', value: 'Allow' },
      ]),
    ];
  // One that others have requested, too, stays theirs.
  if (deletionTimestamp === undefined && others.length === 0) return [about.delete()];
  return [about.patch('remove finalizer', removeFinalizer(evacuation, INSTIGATOR_FINALIZER) ?? [])];
}

/** "Early delete counts as withdraw" (KEP-4563): responders stop, and those of other requesters stay. */
export function requestItem(request: EvictionRequest): UninstallItem {
  return itemsAbout({ phase: 'Nodes', kind: 'EvictionRequest' }, request).delete();
}

function isForbidden({ status }: Evacuation): boolean {
  return status?.evacuationCancellationPolicy === 'Forbid';
}

export function podItems(pod: MarkedPod): UninstallItem[] {
  const about = itemsAbout({ phase: 'Nodes', kind: 'Pod' }, pod);
  const { schedulingGates = [] } = pod.spec;
  const gate = schedulingGates.findIndex(({ name }) => name === MAINTENANCE_GATE);
  const text = pod.metadata.annotations?.[RELEASED_ANNOTATION];
  const gateItems =
    gate === -1
      ? []
      : [
          about.patch(
            'remove scheduling gate',
            removeAt('/spec/schedulingGates', gate, schedulingGates[gate]),
          ),
        ];
  if (text === undefined) return gateItems;
  const release = parseRelease(text);
  const { labels } = pod.metadata;
  // Its ReplicaSet adopts a pod with this label again.
  const label: PatchOperation[] =
    release === undefined || labels?.[podTemplateHash] !== undefined
      ? []
      : [
          ...(labels === undefined ? [{ op: 'add' as const, path: '/metadata/labels', value: {} }] : []),
          { op: 'add', path: `/metadata/labels/${podTemplateHash}`, value: release.podTemplateHash },
        ];
  const operations = [...removeKey('/metadata/annotations', RELEASED_ANNOTATION, text), ...label];
  const reason = release === undefined ? undefined : `ReplicaSet ${release.replicaSet.name}`;
  return [...gateItems, about.patch('return to its ReplicaSet', operations, reason)];
}

/** Deleted first, so that no policy in the apiserver counts them any more; their finalizers stay until the nodes are in service. */
export function deletedMaintenanceItems(maintenance: NodeMaintenance): UninstallItem[] {
  if (!isOpen(maintenance) || maintenance.metadata.deletionTimestamp !== undefined) return [];
  return [itemsAbout({ phase: 'Nodes', kind: 'NodeMaintenance' }, maintenance).delete()];
}

export function maintenanceItems(maintenance: NodeMaintenance, choices: UninstallChoices): UninstallItem[] {
  const about = itemsAbout({ phase: 'Objects', kind: 'NodeMaintenance' }, maintenance);
  const finalizer = removeFinalizer(maintenance, MAINTENANCE_FINALIZER);
  if (finalizer !== undefined) return [about.patch('remove finalizer', finalizer)];
  const { finalizers = [], deletionTimestamp } = maintenance.metadata;
  if (deletionTimestamp !== undefined && finalizers.length > 0)
    return [about.blocked(`finalizers of others hold it: ${listed(finalizers)}`)];
  return objectItems('NodeMaintenance', maintenance, choices);
}

export function windowItems(window: MaintenanceWindow, choices: UninstallChoices): UninstallItem[] {
  const about = itemsAbout({ phase: 'Objects', kind: 'MaintenanceWindow' }, window);
  const finalizer = removeFinalizer(window, WINDOW_FINALIZER);
  const active = window.status?.active;
  const items = [
    ...(finalizer === undefined ? [] : [about.patch('remove finalizer', finalizer)]),
    // The next installation would open it again.
    ...(active === undefined
      ? []
      : [
          about.patchStatus('close', [
            { op: 'test', path: '/status/active/runId', value: active.runId },
            { op: 'remove', path: '/status/active' },
          ]),
        ]),
  ];
  return items.length > 0 ? items : objectItems('MaintenanceWindow', window, choices);
}

/** Objects of users: those who install node maintenance again find them as they were. */
export function objectItems(kind: string, object: KubeObject, { crds }: UninstallChoices): UninstallItem[] {
  const about = itemsAbout({ phase: 'Objects', kind }, object);
  const { finalizers = [], deletionTimestamp } = object.metadata;
  if (deletionTimestamp !== undefined && finalizers.length > 0)
    return [about.blocked(`finalizers of others hold it: ${listed(finalizers)}`)];
  if (crds || deletionTimestamp !== undefined) return [about.delete()];
  return [about.keep('does nothing without a worker; --crds deletes it')];
}

export function budgetItems(
  budget: KubeObject & { status?: { reservations?: readonly unknown[] } },
  choices: UninstallChoices,
): UninstallItem[] {
  const { reservations = [] } = budget.status ?? {};
  if (choices.crds || reservations.length === 0) return objectItems('NodeDisruptionBudget', budget, choices);
  const about = itemsAbout({ phase: 'Objects', kind: 'NodeDisruptionBudget' }, budget);
  const path = '/status/reservations';
  return [
    about.patchStatus('remove reservations', [
      { op: 'test', path, value: reservations },
      { op: 'replace', path, value: [] },
    ]),
  ];
}

/** The worker creates one for each node, without gates. */
export function readinessItems(
  readiness: KubeObject & { spec?: { readinessGates?: readonly unknown[] } },
  choices: UninstallChoices,
): UninstallItem[] {
  const isEmpty = (readiness.spec?.readinessGates ?? []).length === 0;
  return objectItems('NodeReadiness', readiness, { ...choices, crds: choices.crds || isEmpty });
}

export function nodeLeaseItems(lease: Lease, { namespace, now }: UninstallFacts): UninstallItem[] {
  const about = itemsAbout({ phase: 'Objects', kind: 'Lease' }, lease);
  const holder = otherHolderOf(lease, namespace, now);
  return [holder === undefined ? about.deleteUnchanged() : about.keep(`held by ${holder}`)];
}
