/** Returns the name of a cluster that has none: the first part of its UID. */
export function shortUid(uid: string): string {
  return uid.split('-', 1)[0] ?? uid;
}
