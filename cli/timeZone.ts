/** Returns the time zone, or UTC if this machine does not know it: the apiserver accepts any text. */
export function knownTimeZone(timeZone: string): string {
  try {
    return new Intl.DateTimeFormat('en-GB', { timeZone }).resolvedOptions().timeZone && timeZone;
  } catch {
    return 'UTC';
  }
}
