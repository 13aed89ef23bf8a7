/** Constants and messages of the data migration, which the evacuator and the verification share. */

export const evacuatorClass = 'data-migration.example.com';

/** ConfigMaps that represent the disk of a pod and the disk of its replacement. */
export const oldDisk = 'ledger-disk';
export const newDisk = 'ledger-disk-new';

export const records = 120;

/** Time to copy one record. */
export const recordMs = 90;

/** Returns the message of the evacuator for a number of copied records. */
export function migrationMessage(copied: number): string {
  return `${Math.floor((copied / records) * 100)}% of the data is migrated (${copied} of ${records} records)`;
}

const counts = new Map(
  Array.from({ length: records + 1 }, (_, copied) => [migrationMessage(copied), copied]),
);

/** Returns the number of records in a message of the evacuator; undefined for another message. */
export function recordsIn(message: string | undefined): number | undefined {
  return counts.get(message ?? '');
}
