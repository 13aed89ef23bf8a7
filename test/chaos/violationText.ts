import { invariants, type Violation } from './invariants/invariants.ts';
import { eventText } from './invariants/check.ts';
import type { EvictionApi } from './scenario.ts';

/** Formats a violation with what shows it, and the command that replays it. */
export function violationText(
  { invariant, message, events }: Violation,
  { seed, evictionApi, short = false }: { seed: number; evictionApi: EvictionApi; short?: boolean },
): string {
  const api = evictionApi === 'evacuation' ? '' : ` --eviction-api ${evictionApi}`;
  const options = `${api}${short ? ' --short' : ''}`;
  return [
    `seed ${seed} broke "${invariant}" (${invariants[invariant]}):`,
    `  ${message}`,
    ...events.map((event) => `  audit: ${eventText(event)}`),
    `  again: npm run chaos -- --runs 1 --seed ${seed}${options}`,
  ].join('\n');
}
