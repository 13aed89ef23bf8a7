import { NODE_READINESS_POLICY } from '../../api/names.ts';
import { compareNames } from '../common/names.ts';
import { agentItems } from './agents.ts';
import type { UninstallChoices, UninstallFacts } from './facts.ts';
import { definitionItems, installationItems, stopItems } from './installation.ts';
import { itemsAbout, type UninstallItem, uninstallPhases } from './item.ts';
import { nodeItems } from './nodes.ts';
import {
  askedItems,
  budgetItems,
  deletedMaintenanceItems,
  evacuationItems,
  maintenanceItems,
  nodeLeaseItems,
  objectItems,
  podItems,
  readinessItems,
  requestItem,
  windowItems,
} from './objects.ts';
import { claimItems, temporalItems } from './temporal.ts';

/**
 * Decides what is done with each thing that node maintenance has left, in the order in which it is done. The decision is level-triggered: after a
 * part of it was carried out, a new one from new facts contains the rest.
 */
export function planUninstall(facts: UninstallFacts, choices: UninstallChoices): UninstallItem[] {
  const items = [
    ...askedItems(facts),
    ...stopItems(facts, choices),
    ...temporalItems(facts),
    ...facts.maintenances.flatMap((one) => deletedMaintenanceItems(one)),
    ...facts.jobs.map((job) => jobItem(job)),
    ...facts.evacuations.flatMap((one) => evacuationItems(one, choices)),
    ...facts.evictionRequests.map((one) => requestItem(one)),
    ...facts.pods.flatMap((pod) => podItems(pod)),
    ...facts.nodes.flatMap((node) => nodeItems(node, facts)),
    ...facts.agentLeases.flatMap((lease) => agentItems(lease, facts)),
    ...facts.maintenances.flatMap((one) => maintenanceItems(one, choices)),
    ...facts.windows.flatMap((window) => windowItems(window, choices)),
    ...facts.readinessPolicies.flatMap((one) => objectItems(NODE_READINESS_POLICY.kind, one, choices)),
    ...facts.readinesses.flatMap((one) => readinessItems(one, choices)),
    ...facts.budgets.flatMap((one) => budgetItems(one, choices)),
    ...facts.nodeLeases.flatMap((lease) => nodeLeaseItems(lease, facts)),
    ...facts.processLeases.map((lease) => itemsAbout(ofLease, lease).deleteUnchanged()),
    ...installationItems(facts, choices),
    ...claimItems(facts),
  ];
  const definitions = facts.definitions.flatMap((one) => definitionItems(one, items, choices));
  const order = new Map(uninstallPhases.map((phase, index) => [phase, index] as const));
  return [...items, ...definitions].toSorted(
    (a, b) =>
      (order.get(a.phase) ?? 0) - (order.get(b.phase) ?? 0) ||
      compareNames(a.kind, b.kind) ||
      compareNames(`${a.namespace ?? ''}/${a.name}`, `${b.namespace ?? ''}/${b.name}`),
  );
}

const ofLease = { phase: 'Objects', kind: 'Lease' } as const;

/** A Job is there until its pods are gone. */
function jobItem(job: UninstallFacts['jobs'][number]): UninstallItem {
  const { uid = '', deletionTimestamp } = job.metadata;
  const about = itemsAbout({ phase: 'Nodes', kind: 'Job' }, job);
  if (deletionTimestamp !== undefined) return about.wait('it is being deleted');
  return about.item('delete', { kind: 'Delete', uid, propagationPolicy: 'Foreground' });
}
