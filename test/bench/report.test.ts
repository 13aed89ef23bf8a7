import { peersPage } from '../../bench/peersPage.ts';
import { type BenchmarkResult, textOf } from '../../bench/report.ts';
import type { RecordedFile } from '../../bench/results.ts';
import { checkDrain } from '../../bench/thresholds.ts';
import { measurementOf } from './measurements.ts';

const runs = [
  measurementOf({ wallSeconds: 8, historyEvents: 75, historyBytes: 30_400 }),
  measurementOf({ wallSeconds: 10, run: 2 }),
  measurementOf({ wallSeconds: 9, run: 3 }),
];
const result: BenchmarkResult = {
  kind: 'Drain',
  benchmark: {
    kind: 'Drain',
    name: 'cold:1x250',
    workload: { nodes: 1, podsPerNode: 250 },
    division: 'One',
    isWarm: false,
  },
  runs,
  failures: [{ target: 'node-maintenance-operator', reason: 'PEERS_SOURCE is not set' }],
  thresholds: checkDrain('cold:1x250', runs),
};

test('A row has the median and the range of each figure', () => {
  const lines = textOf(result).split('\n');
  expect(lines[0]).toBe('cold:1x250: 1 node x 250 pods, the first drain after the start');
  expect(lines.find((line) => /^ +ours +3 /.test(line))).toMatch(/ 9\.00 \(8\.00\.\.10\.00\) .* 30 /);
});

test('The row of a peer that was not measured says why', () => {
  expect(textOf(result)).toContain('  node-maintenance-operator  not measured: PEERS_SOURCE is not set\n');
});

test('The page has a table of each drain, and says what was changed in a peer', () => {
  const machine = {
    cpus: 2,
    cpu: 'a CPU',
    memoryGb: 24,
    system: 'Linux',
    node: 'v24',
    kubernetes: 'v1.37.1',
    etcd: 'v3.7.0',
    temporal: 'v1.5.1',
  };
  const peers = [
    { name: 'node-maintenance-operator', unavailable: 'PEERS_SOURCE is not set', changes: [] },
    { name: 'node-maintenance-orchestrator', revision: 'v0.5.1', changes: ['no leader election'] },
  ];
  const file: RecordedFile = {
    name: 'peers-drains',
    command: 'npm run bench -- --record peers-drains',
    startedAt: '2026-11-22T10:00:00Z',
    finishedAt: '2026-11-22T10:40:00Z',
    source: { commit: '0123456789abcdef', isModified: false },
    machine,
    peers,
    results: [{ ...result, title: '', figures: [] }],
  };
  const page = peersPage([file]);
  expect(page).toContain('- `node-maintenance-operator` was not measured: PEERS_SOURCE is not set.\n');
  expect(page).toContain(
    '- `node-maintenance-orchestrator` v0.5.1, outside the cluster: no leader election.\n',
  );
  expect(page).toContain('## cold:1x250: 1 node x 250 pods, the first drain after the start\n');
  expect(page).toMatch(/^\| ours \| 3 \| 9\.00 \(8\.00\.\.10\.00\) \|/m);
});
