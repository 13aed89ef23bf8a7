import type { Node } from '../../api/core.ts';
import type { RebootWork, WindowWork } from '../../api/maintenanceWindow.ts';
import { DEFAULT_REBOOT_TIMEOUT_SECONDS } from '../../api/names.ts';
import type { RebootAbility } from '../leases/nodeAgent.ts';
import { bootIdOf, needsReboot } from '../reboot/nodeReboot.ts';

/** Returns how a window reboots nodes; undefined if it does not. */
export function rebootWorkOf({ type, reboot }: WindowWork): RebootWork | undefined {
  if (type !== 'Reboot') return undefined;
  return { policy: 'IfRequired', timeoutSeconds: DEFAULT_REBOOT_TIMEOUT_SECONDS, ...reboot };
}

/** Facts that a window that reboots nodes needs about the nodes that it selects. */
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

/** Why a window does not start a node that it would reboot: it would drain the node for nothing. */
export type NotRebootableReason = Exclude<RebootAbility, 'Able'> | 'BootIdUnknown';

/** Returns the nodes that would not be rebooted, by name. `agents` says what the agents of nodes would do; a node without one is missing. */
export function notRebootableNodes(
  nodes: readonly Node[],
  agents: ReadonlyMap<string, RebootAbility>,
): Map<string, NotRebootableReason> {
  const notRebootable = new Map<string, NotRebootableReason>();
  for (const node of nodes) {
    const { name } = node.metadata;
    const ability = agents.get(name) ?? 'NotRunning';
    if (ability !== 'Able') notRebootable.set(name, ability);
    else if (bootIdOf(node) === undefined) notRebootable.set(name, 'BootIdUnknown');
  }
  return notRebootable;
}
