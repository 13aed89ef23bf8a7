/** The data migration of the story: what its process does, and what the proof knows of it. */

export const evacuatorClass = 'data-migration.example.com';

/** ConfigMaps that stand for the disk of a pod, and for the one of its successor. */
export const oldDisk = 'ledger-disk';
export const newDisk = 'ledger-disk-new';

export const records = 120;

/** Milliseconds between two records: it takes as much of the disk as the ledger can spare. */
export const pace = 90;

/** What the evacuator says when so many records are copied. */
export function migrationMessage(copied: number): string {
  return `${Math.floor((copied / records) * 100)} % of the data are migrated (${copied} of ${records} records)`;
}

const counts = new Map(
  Array.from({ length: records + 1 }, (_, copied) => [migrationMessage(copied), copied]),
);

/** How many records a message speaks of; undefined for what the evacuator did not say. */
export function recordsIn(message: string | undefined): number | undefined {
  return counts.get(message ?? '');
}
