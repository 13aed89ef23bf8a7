import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import { compareNames } from '../../domain/common/names.ts';
import { type WindowSummary, windowSummaryOf } from '../../domain/windows/summary.ts';
import { windowMaintenancesOf } from '../../domain/windows/windowMaintenance.ts';
import type { Kube } from '../../kube/client.ts';
import { resources } from '../../kube/resources.ts';
import { CommandError } from '../output.ts';

export async function getWindow(kube: Kube, name: string): Promise<MaintenanceWindow> {
  const found = await kube.get(resources.maintenanceWindows, { name });
  if (found === undefined) throw windowNotFound(name);
  return found;
}

export function windowNotFound(name: string): CommandError {
  return new CommandError(`MaintenanceWindow "${name}" not found; kubectl get mw lists them`);
}

/** Returns the name of a window as kubectl prints it. */
export function windowTitleOf(name: string): string {
  return `maintenancewindow/${name}`;
}

interface SummaryInput {
  readonly windows: readonly MaintenanceWindow[];
  readonly maintenances: readonly NodeMaintenance[];
  /** Undefined for all windows. */
  readonly name: string | undefined;
}

/** Returns summaries of the windows, sorted by name. */
export function windowSummaries({ windows, maintenances, name }: SummaryInput, now: Date): WindowSummary[] {
  return windows
    .filter(({ metadata }) => name === undefined || metadata.name === name)
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
    .map((one) => windowSummaryOf(one, windowMaintenancesOf(one.metadata.name, maintenances), now.getTime()));
}
