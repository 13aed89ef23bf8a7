import { Context } from '@temporalio/activity';
import { SharedRead } from '../activities/maintenance/sharedRead.ts';
import { type TemporalAvailability, untilAvailable } from '../controllers/temporalAvailability.ts';
import { sleep } from '../kube/abort.ts';
import { type BackOff, backOffMs } from '../kube/backOff.ts';

const backOff: BackOff = { firstMs: 200, capMs: 5_000 };

export interface TemporalAnswers {
  /** Rejects while Temporal does not answer. */
  check: () => Promise<void>;
  availability: TemporalAvailability;
}

/**
 * Returns activities that end only while Temporal answers, or when they are cancelled. The SDK reports the end of an activity for ten seconds; an
 * end that is lost in an outage would be noticed by the missing heartbeats, minutes after the outage.
 */
export function withReportedResults<Activities extends object>(
  activities: Activities,
  { check, availability }: TemporalAnswers,
): Activities {
  // Hundreds of activities may end in the same outage.
  const checks = new SharedRead(check);
  const answers = { check: () => checks.get(), availability };
  const wrapped = Object.entries(activities).map(([name, act]) => [
    name,
    async (...args: unknown[]) => {
      try {
        return await (act as (...all: unknown[]) => Promise<unknown>)(...args);
      } finally {
        await untilAnswered(answers, Context.current().cancellationSignal);
      }
    },
  ]);
  return Object.fromEntries(wrapped) as Activities;
}

async function untilAnswered({ check, availability }: TemporalAnswers, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; failures += 1) {
    try {
      await check();
      return;
    } catch {
      // The monitor of Temporal reports outages, a few seconds after they began.
      await sleep(backOffMs(failures, backOff), signal);
      await untilAvailable(availability, signal);
    }
  }
}
