import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { reliabilityRuns } from '../../../scripts/reference/reliabilityRuns.ts';
import type { EnduranceRecord } from '../../chaos/endurance/record.ts';
import type { RecordedRun } from '../../chaos/results.ts';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'nm-runs-'));
  mkdirSync(join(root, 'test', 'chaos'), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const write = (name: string, content: unknown) =>
  writeFileSync(join(root, 'test', 'chaos', name), JSON.stringify(content));

test('without records the page says so', () =>
  expect(reliabilityRuns(root)).toContain('\nNo runs are recorded yet.\n'));

test('runs are counted by outcome and by fault', () => {
  const runs: RecordedRun[] = [
    { evictionApi: 'evacuation', seed: 1, faults: ['FullDisk', 'KillWorker'], evicted: 3, broken: [] },
    { evictionApi: 'auto', seed: 2, faults: ['FullDisk'], evicted: 4, broken: ['tiers'] },
  ];
  write('results.json', runs);
  const page = reliabilityRuns(root);
  expect(page).toContain('2 runs with 7 evictions: 1 kept all promises, 1 did not.');
  expect(page).toContain('| FullDisk | 2 |\n| KillWorker | 1 |');
  expect(page).toContain('| auto | 2 | **broke tiers** | 4 | FullDisk |');
});

test('the endurance run has a row for each value', () => {
  const growth = { mean: 330.123, perHour: 1.5, low: -0.25, high: 3.25, isGrowing: false };
  const record: EnduranceRecord = {
    minutes: 120,
    seed: 1,
    runs: 200,
    maintenances: 400,
    evicted: 900,
    faults: { FullDisk: 20, Expire: 30 },
    broken: [7],
    restarts: 0,
    growth: { Events: { ...growth, perHour: 90, low: 80, high: 100, isGrowing: true }, 'open runs': growth },
  };
  write('endurance.json', record);
  const page = reliabilityRuns(root);
  expect(page).toContain(
    'with 400 maintenances, 900 evictions and 50 faults: 1 runs broke a promise (seeds 7)',
  );
  expect(page).toContain('| Events | 330 | 90 (80 to 100) | **yes** |');
  expect(page).toContain('| open runs | 330 | 1.5 (-0.25 to 3.25) | no |');
});
