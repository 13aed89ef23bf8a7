import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { peersPage } from '../../bench/peersPage.ts';
import type { ResultsFile } from '../../bench/results.ts';

/** Returns the comparison with the peers, or undefined without results in bench/results/peers.json. */
export function peersReference(root: string): string | undefined {
  const file = join(root, 'bench', 'results', 'peers.json');
  if (!existsSync(file)) return undefined;
  return peersPage(JSON.parse(readFileSync(file, 'utf8')) as ResultsFile);
}
