import type { Node } from '../../api/core.ts';
import type { RebootWork, WindowWork } from '../../api/maintenanceWindow.ts';
import { DEFAULT_REBOOT_TIMEOUT_SECONDS } from '../../api/names.ts';
import { needsReboot } from '../reboot/nodeReboot.ts';

/** Returns how a window reboots nodes; undefined if it does not. */
export function rebootWorkOf({ type, reboot }: WindowWork): RebootWork | undefined {
  if (type !== 'Reboot') return undefined;
  return { policy: 'IfRequired', timeoutSeconds: DEFAULT_REBOOT_TIMEOUT_SECONDS, ...reboot };
}

/** What a window that reboots nodes has to know about the nodes that it selects. */
export interface RebootNeeds {
  policy: RebootWork['policy'];
  /** The names of nodes that need a reboot. */
  required: ReadonlySet<string>;
}

/** Returns undefined for a window that does not reboot nodes. */
export function rebootNeedsOf(work: WindowWork, selected: readonly Node[]): RebootNeeds | undefined {
  const policy = rebootWorkOf(work)?.policy;
  if (policy === undefined) return undefined;
  const required = selected.filter((node) => needsReboot(node)).map(({ metadata }) => metadata.name);
  return { policy, required: new Set(required) };
}

/** Reports whether the window leaves a node alone that is not in progress. */
export function isRebootUnnecessary(needs: RebootNeeds | undefined, node: string): boolean {
  return needs?.policy === 'IfRequired' && !needs.required.has(node);
}
