import { setTimeout as sleep } from 'node:timers/promises';
import type { InstallationReview } from '../domain/installation/review.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import { type InstallationCheck, reviewManifests } from './installation.ts';
import type { Metrics } from './metrics/metrics.ts';

/** An administrator may apply other manifests at any time. Each check reads every CRD and policy. */
const checkEveryMs = 300_000;
/** Delay before a difference is confirmed: an apiserver that has just started denies everything for some seconds. */
const confirmAfterMs = 15_000;

/** State of the installation that the process reports. */
export interface InstallationState {
  /** How the installed manifests differ from this release; undefined if they do not. */
  installation?: string | undefined;
}

interface Options {
  /** Result of the review at the start of the process. */
  review: InstallationReview;
  state: InstallationState;
  metrics: Pick<Metrics, 'onInstallation'>;
  log: Log;
  signal: AbortSignal;
  everyMs?: number;
  confirmMs?: number;
}

/**
 * Reports by the log, a metric and `state` how the installed manifests differ from this release, until the signal aborts. A new difference is reported when
 * the next check finds one, too. A process that runs is never stopped by it: what it has started is safer with it than without, and its next start
 * decides again.
 */
export async function watchInstallation(
  check: InstallationCheck,
  { review: first, state, metrics, log, signal, everyMs = checkEveryMs, confirmMs = confirmAfterMs }: Options,
): Promise<void> {
  let review: InstallationReview | undefined = first;
  let reported: string | undefined;
  // The process has waited at its start until it could read them.
  let isConfirmed = true;
  while (!signal.aborted) {
    const difference = review && differenceIn(review);
    const isNew = difference !== undefined && difference !== reported;
    const isUnconfirmed: boolean = isNew && !isConfirmed;
    if (review !== undefined && !isUnconfirmed) {
      metrics.onInstallation(review);
      state.installation = difference;
      if (difference !== reported) report(review, { difference, log });
      reported = difference;
    }
    isConfirmed = isUnconfirmed;
    await sleep(isUnconfirmed ? confirmMs : everyMs, undefined, { signal }).catch(() => undefined);
    if (!signal.aborted) review = await nextReview(check, { log, signal });
  }
}

function differenceIn({ problems, difference }: InstallationReview): string | undefined {
  return [...problems, difference].filter((part) => part !== undefined).join('; ') || undefined;
}

function report(
  { problems }: InstallationReview,
  { difference, log }: { difference: string | undefined; log: Log },
): void {
  const remedy = 'docs/how-to/upgrade.md says in which order manifests and processes are upgraded';
  if (difference === undefined) log.info('The installed manifests are those of this release');
  else if (problems.length > 0)
    log.error('The next start of this process will wait for other manifests', { reason: difference, remedy });
  else log.warn('The installed manifests belong to another release', { difference, remedy });
}

async function nextReview(
  check: InstallationCheck,
  { log, signal }: Pick<Options, 'log' | 'signal'>,
): Promise<InstallationReview | undefined> {
  try {
    return await reviewManifests(check);
  } catch (error) {
    if (!signal.aborted)
      log.warn('The installed manifests could not be read', { reason: errorMessage(error) });
    return undefined;
  }
}
