/** Durations of an election, as client-go names them. */
export interface ElectionTiming {
  /** Time that other candidates wait for a leader that stopped renewing; a Lease stores whole seconds. Default 3. */
  readonly leaseDurationSeconds?: number | undefined;
  /** Time that a leader without a successful renewal keeps leading; less than leaseDurationSeconds. Default two thirds of it. */
  readonly renewDeadlineSeconds?: number | undefined;
  /** Delay between attempts to acquire or renew; less than renewDeadlineSeconds. Default a sixth of leaseDurationSeconds. */
  readonly retryPeriodSeconds?: number | undefined;
}

export type CompleteTiming = Record<keyof ElectionTiming, number>;

/** Returns all durations: those that are not given follow from the duration of the Lease. */
export function completeTiming({
  leaseDurationSeconds = 3,
  renewDeadlineSeconds = (leaseDurationSeconds * 2) / 3,
  retryPeriodSeconds = leaseDurationSeconds / 6,
}: ElectionTiming): CompleteTiming {
  return { leaseDurationSeconds, renewDeadlineSeconds, retryPeriodSeconds };
}
