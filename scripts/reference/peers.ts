import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { peersPage } from '../../bench/peersPage.ts';
import { peersRecordings, recordedFile } from '../../bench/recordings.ts';
import type { RecordedFile } from '../../bench/results.ts';

/** Returns the comparison with the peers, or undefined without a recorded one in bench/results. */
export function peersReference(root: string): string | undefined {
  const files = peersRecordings
    .map((name) => join(root, recordedFile(name)))
    .filter((file) => existsSync(file));
  if (files.length === 0) return undefined;
  return peersPage(files.map((file) => JSON.parse(readFileSync(file, 'utf8')) as RecordedFile));
}
