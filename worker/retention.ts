import { setTimeout as sleep } from 'node:timers/promises';
import { type TemporalAvailability, untilAvailable } from '../controllers/temporalAvailability.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { retentionSecondsOf } from '../temporal-config/retention.ts';
import type { Metrics } from './metrics/metrics.ts';
import type { Temporal } from './temporal.ts';

const secondsPerDay = 86_400;
/** An administrator can change it at any time. */
const checkEveryMs = 3_600_000;

interface Options {
  /** The days for which histories should be kept; 0: nothing is checked. */
  days: number;
  availability: TemporalAvailability;
  metrics: Pick<Metrics, 'onRetention'>;
  log: Log;
  signal: AbortSignal;
  everyMs?: number;
}

/** Warns if the namespace keeps the histories of closed runs for a shorter time than required, until the signal. */
export async function watchRetention(
  { client, namespace }: Pick<Temporal, 'client' | 'namespace'>,
  { days, availability, metrics, log, signal, everyMs = checkEveryMs }: Options,
): Promise<void> {
  if (days === 0) return;
  const requiredSeconds = days * secondsPerDay;
  let warnedSeconds: number | undefined;
  for (;;) {
    await untilAvailable(availability, signal);
    if (signal.aborted) return;
    try {
      const actualSeconds = retentionSecondsOf(await client.workflowService.describeNamespace({ namespace }));
      metrics.onRetention({ actualSeconds, requiredSeconds });
      if (actualSeconds < requiredSeconds && actualSeconds !== warnedSeconds) {
        warnedSeconds = actualSeconds;
        log.warn('Temporal deletes the histories of maintenances too early', {
          namespace,
          retentionDays: actualSeconds / secondsPerDay,
          requiredDays: days,
          remedy: `temporal operator namespace update --namespace ${namespace} --retention ${days}d, or lower --min-history-retention (MIN_HISTORY_RETENTION)`,
        });
      }
    } catch (error) {
      if (!signal.aborted)
        log.warn('The retention of the namespace could not be read', { reason: errorMessage(error) });
    }
    await sleep(everyMs, undefined, { signal }).catch(() => undefined);
  }
}
