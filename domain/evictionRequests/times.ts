/** Returns the time in the form in which the apiserver stores `metav1.Time`: in whole seconds. */
export function timeText(time: Date): string {
  return `${time.toISOString().slice(0, 'YYYY-MM-DDThh:mm:ss'.length)}Z`;
}

/** Returns the latest of the times, in the same form. Undefined times and those that are no times are ignored. */
export function latestTime(now: Date, ...times: readonly (string | undefined)[]): string {
  const known = times.map((time = '') => Date.parse(time)).filter((time) => !Number.isNaN(time));
  return timeText(new Date(Math.max(now.getTime(), ...known)));
}
