import type { MaintenanceWindow } from '../api/maintenanceWindow.ts';
import { TurnAnnotation } from '../api/names.ts';
import type { NodeMaintenance } from '../api/nodeMaintenance.ts';
import { claimedTurns } from '../api/windowTurn.ts';
import { compareNames } from '../domain/names.ts';
import { type SeenTurn, type WindowSummary, windowSummaryOf } from '../domain/windowSummary.ts';
import type { Kube } from '../kube/client.ts';
import { resources } from '../kube/resources.ts';
import { Refusal, UsageError } from './output.ts';

const ofWindow = /^(mw|maintenancewindows?)(\.nodemaintenance\.k8s\.io)?\//;

/** Whether it names a MaintenanceWindow where both kinds may be meant: `mw/name`, `maintenancewindow/name`. */
export function isNameOfWindow(text: string): boolean {
  return ofWindow.test(text);
}

/** `name`, or as kubectl prints it: `mw/name`, `maintenancewindow/name`. Throws a UsageError for the empty name. */
export function windowName(text: string): string {
  const name = text.replace(ofWindow, '');
  if (name === '')
    throw new UsageError(
      `expected the name of a MaintenanceWindow (got "${text}"); kubectl get mw lists them`,
    );
  return name;
}

export async function windowCalled(kube: Kube, name: string): Promise<MaintenanceWindow> {
  const found = await kube.get(resources.maintenanceWindows, { name });
  if (found === undefined) throw noWindow(name);
  return found;
}

export function noWindow(name: string): Refusal {
  return new Refusal(`there is no MaintenanceWindow "${name}"; kubectl get mw lists them`);
}

/** How this program calls one. */
export function windowTitleOf(name: string): string {
  return `maintenancewindow/${name}`;
}

/** The turns of a window, among all maintenances. */
export function turnsIn(window: string, maintenances: readonly NodeMaintenance[]): SeenTurn[] {
  return claimedTurns(maintenances)
    .filter((turn) => turn.window === window)
    .map(({ node, revision, maintenance }) => {
      const work = maintenance.metadata.annotations?.[TurnAnnotation.Work] === 'Job' ? 'Job' : 'None';
      return { node, maintenance, revision, work };
    });
}

/** What there is in the cluster, and of which window. */
interface Found {
  readonly windows: readonly MaintenanceWindow[];
  readonly maintenances: readonly NodeMaintenance[];
  /** Without it: of all. */
  readonly name: string | undefined;
}

/** How it stands with the windows, by name. */
export function summed({ windows, maintenances, name }: Found, now: Date): WindowSummary[] {
  return windows
    .filter(({ metadata }) => name === undefined || metadata.name === name)
    .toSorted((a, b) => compareNames(a.metadata.name, b.metadata.name))
    .map((one) => windowSummaryOf(one, turnsIn(one.metadata.name, maintenances), now.getTime()));
}
