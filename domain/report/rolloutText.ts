import type { MaintenanceWindow } from '../../api/maintenanceWindow.ts';
import { oneLine } from '../common/text.ts';

const maxLength = 300;

/** Formats the limits of a rollout: `maxUnavailable 2 in one topology.kubernetes.io/zone, soakSeconds 60, maxFailures 1`. */
export function rolloutText({
  maxUnavailable,
  topologyKey,
  soakSeconds,
  maxFailures,
}: MaintenanceWindow['spec']['rollout']): string {
  const where = topologyKey === undefined ? '' : ` in one ${topologyKey}`;
  const soak = soakSeconds > 0 ? `, soakSeconds ${soakSeconds}` : '';
  return oneLine(`maxUnavailable ${maxUnavailable}${where}${soak}, maxFailures ${maxFailures}`, maxLength);
}
