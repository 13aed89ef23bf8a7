import { UsageError } from './output.ts';

const windowPrefix = /^(mw|maintenancewindows?)(\.nodemaintenance\.k8s\.io)?\//;

/** Reports whether the text names a MaintenanceWindow rather than a NodeMaintenance: `mw/name`, `maintenancewindow/name`. */
export function isNameOfWindow(text: string): boolean {
  return windowPrefix.test(text);
}

/** Parses `name`, `mw/name` or `maintenancewindow/name`. Throws a UsageError if the name is empty. */
export function windowName(text: string): string {
  const name = text.replace(windowPrefix, '');
  if (name === '')
    throw new UsageError(
      `expected the name of a MaintenanceWindow (got "${text}"); kubectl get mw lists them`,
    );
  return name;
}
