import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from '@jest/globals';
import { parseBenchmark } from '../../bench/benchmarks.ts';
import { parseOptions } from '../../bench/options.ts';
import { recordedOf, sourceIn, writeRecorded } from '../../bench/record.ts';
import {
  peersRecordings,
  type RecordingName,
  recordingCommand,
  recordingNames,
  recordings,
} from '../../bench/recordings.ts';
import type { BenchmarkResult } from '../../bench/report.ts';
import type { RecordedFile } from '../../bench/results.ts';
import { tablesOf } from '../../bench/tables.ts';
import type { PoliciesMeasurement } from '../../bench/policies.ts';
import { checkDrain, checkPolicies } from '../../bench/thresholds.ts';
import { trafficKinds } from '../../bench/traffic.ts';
import { performancePage } from '../../scripts/reference/performance.ts';
import { performancePlots } from '../../scripts/reference/plots.ts';
import { measurementOf } from './measurements.ts';

/** Has bench/results/drains.json. */
const fixture = join(import.meta.dirname, 'recorded');
const repository = join(import.meta.dirname, '..', '..');
const run = promisify(execFile);

const machine = {
  cpus: 2,
  cpu: 'a CPU',
  memoryGb: 24,
  system: 'Linux 6.1 x64',
  node: 'v24.9.0',
  kubernetes: 'v1.37.1',
  etcd: 'v3.7.0',
  temporal: 'v1.5.1',
};

function recordingOf(name: RecordingName, results: BenchmarkResult[], ...args: string[]): RecordedFile {
  const now = new Date('2026-11-25T10:20:30Z');
  const options = parseOptions(['--record', name, ...args], now, () => false);
  const peers = [
    {
      name: 'node-maintenance-operator',
      unavailable: 'PEERS_SOURCE is /home/ann/peers, without node-maintenance-operator/go.mod',
      changes: [],
    },
  ];
  const finishedAt = new Date('2026-11-25T10:32:30Z');
  const source = { commit: '0123456789abcdef0123456789abcdef01234567', isModified: false };
  const file = { startedAt: now.toISOString(), machine, peers, results };
  return recordedOf(file, { name, options, finishedAt, source }, 'ann-laptop');
}

function benchmarkOf<Kind extends BenchmarkResult['kind']>(kind: Kind, name: string) {
  const benchmark = parseBenchmark(name);
  if (benchmark?.kind !== kind) throw new Error(`${name} is not of the kind ${kind}`);
  return benchmark as Extract<BenchmarkResult, { kind: Kind }>['benchmark'];
}

function drains(name: string): BenchmarkResult {
  const runs = [
    measurementOf({ wallSeconds: 4 }),
    measurementOf({ wallSeconds: 3.87, run: 2 }),
    measurementOf({ target: 'floor', wallSeconds: 2.98 }),
  ];
  return {
    kind: 'Drain',
    benchmark: benchmarkOf('Drain', name),
    runs,
    failures: [
      {
        target: 'node-maintenance-operator',
        run: 1,
        reason: 'ann-laptop: /usr/local/bin/kubectl ended with exit code 1 at https://127.0.0.1:6443/api',
      },
    ],
    thresholds: checkDrain(name, runs),
  };
}

const slice = (cpuSeconds: number, answer: number) => ({
  cpuSeconds,
  seconds: Object.fromEntries(
    trafficKinds.map((kind) => [kind, Array.from({ length: 200 }, () => answer)]),
  ) as Record<(typeof trafficKinds)[number], number[]>,
});

/** One request of each kind, which takes this time. */
const policiesRun = (complete: number, open: number, seconds: number): PoliciesMeasurement => ({
  complete,
  open,
  seconds: {
    'create a pod of a DaemonSet': [seconds],
    'change a Node': [0.004],
    'create a Node': [0.005],
  },
});
const policiesRuns = [policiesRun(0, 0, 0.008), policiesRun(1_000, 0, 0.714), policiesRun(1_000, 50, 0.024)];

function budgetResult(): BenchmarkResult {
  const waits = { rejectedPerSecond: 0, budgetStartSeconds: 1.5, longestWait: 1.42, p99Wait: 1.09 };
  const runs = [measurementOf({ wallSeconds: 68.84 }), measurementOf({ target: 'floor' })];
  return {
    kind: 'Budget',
    benchmark: benchmarkOf('Budget', 'budget'),
    runs: runs.map((one) => ({ ...one, ...waits })),
    failures: [],
    thresholds: [],
  };
}

/** Results of every recording, by its name. */
const results: Readonly<Record<RecordingName, () => BenchmarkResult[]>> = {
  drains: () => [drains('1x250'), drains('10x70')],
  'large-drains': () => [drains('100x30')],
  'eviction-requests': () => [drains('1x250')],
  'peers-drains': () => [drains('1x250')],
  'peers-large': () => [drains('50x100')],
  'peers-budget': () => [budgetResult()],
  'peers-maintenances': () => [drains('each:100x5')],
  budget: () => [budgetResult()],
  readiness: () => [
    {
      kind: 'Readiness',
      benchmark: benchmarkOf('Readiness', 'readiness:200x3'),
      runs: [
        {
          joining: [0.1, 0.23, 0.72],
          returning: [0.01, 0.02, 0.17],
          wallSeconds: 15.4,
          ungated: { get: 1, create: 3.1 },
          gated: { get: 1, create: 7.7 },
          residentMb: { without: 274, ungated: 280, gated: 285, peak: 290 },
        },
      ],
      thresholds: [],
    },
  ],
  held: () => [
    {
      kind: 'Held',
      benchmark: benchmarkOf('Held', 'held:500'),
      runs: [
        {
          maintenances: 500,
          starting: { start: 1, activity: 5 },
          heldPerDay: { heartbeat: 320 },
          completing: { signal: 1, activity: 6 },
          cancel: [
            { answerSeconds: 0.14, completeSeconds: 0.87 },
            { answerSeconds: 0.2, completeSeconds: 1.38 },
          ],
          describesPerDay: 0,
          seconds: 120,
          startSeconds: 77,
          cores: { worker: 0.05, temporal: 0.02, 'kube-apiserver': 0.17 },
          residentMb: 770,
          requestsPerHour: { update: 14 },
        },
      ],
      thresholds: [],
    },
  ],
  idle: () =>
    ['idle:1000x5', 'idle:100x150'].map((name) => {
      const benchmark = benchmarkOf('Idle', name);
      const runs = [1 / 4, 1 / 2, 1].map((share) => ({
        nodes: benchmark.nodes * share,
        pods: benchmark.nodes * share * benchmark.podsPerNode,
        startSeconds: 3.17,
        residentMb: { idle: 299, peak: 336 },
        requestsPerSecond: 2.2,
        cores: { worker: 0.039, 'kube-apiserver': 0.091 },
        churnMsPerPod: 0.9,
      }));
      return { kind: 'Idle' as const, benchmark, runs, thresholds: [] };
    }),
  policies: () => [
    {
      kind: 'Policies',
      benchmark: benchmarkOf('Policies', 'policies:1000'),
      runs: policiesRuns,
      thresholds: checkPolicies(policiesRuns),
    },
  ],
  traffic: () => [
    {
      kind: 'Traffic',
      benchmark: benchmarkOf('Traffic', 'traffic:8'),
      runs: [0, 1, 50].map((maintenances) => ({
        maintenances,
        rounds: [1.08, 1.22].map((ratio) => ({ bare: slice(1, 0.029), installed: slice(ratio, 0.0293) })),
      })),
      thresholds: [],
    },
  ],
  takeover: () => [
    {
      kind: 'TakeOver',
      benchmark: benchmarkOf('TakeOver', 'takeover:20'),
      runs: (['standby', 'cold restart'] as const).flatMap((successor) =>
        [2.88, 3.11].map((firstEviction, index) => ({
          successor,
          run: index + 1,
          firstEviction,
          drainContinues: firstEviction + 0.3,
          start: 2.37,
        })),
      ),
      thresholds: [],
    },
  ],
};

const blockOf = (name: string) =>
  `<!-- generated: bench/results/${name}.json -->\n<!-- end of bench/results/${name}.json -->`;

async function inDirectory<T>(use: (directory: string) => T | Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'nm-recorded-'));
  try {
    return await use(directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

describe('a recorded file', () => {
  test('has the command, the commit, the machine, every run, medians and ranges, and no path or host', () =>
    inDirectory((directory) => {
      const file = recordingOf('drains', [drains('1x250')], '--work', '1x250', '--runs', '2');
      expect(writeRecorded(file, directory)).toBe('bench/results/drains.json');
      const written = readFileSync(join(directory, 'bench/results/drains.json'), 'utf8');
      expect(written).toBe(readFileSync(join(fixture, 'bench/results/drains.json'), 'utf8'));
      expect(written).not.toMatch(/\/home|\/usr|laptop/);
      expect(written).toContain('https://127.0.0.1:6443/api');
    }));

  test('has deciles in place of each answer to a request, and percentiles of all of them', () => {
    const [result] = recordingOf('traffic', results.traffic()).results;
    if (result?.kind !== 'Traffic') throw new Error('it is not of the kind Traffic');
    expect(result.runs[0]?.rounds[0]?.bare.seconds['create pod']).toHaveLength(11);
    expect(result.figures[0]).toMatchObject({
      name: '0',
      figures: { 'create pod p99 ms': { median: 29.3 }, 'CPU ratio': { min: 1.08, max: 1.22 } },
    });
  });

  test('compares each time with that without objects, and misses the bound if complete maintenances cost something', () =>
    inDirectory((directory) => {
      writeRecorded(recordingOf('policies', results.policies()), directory);
      const page = performancePage(blockOf('policies'), directory);
      expect(page).toContain(`| maintenances | create a pod of a DaemonSet | change a Node | create a Node |
|---|---|---|---|
| 0 complete, 0 open | 8.0 ms (1.0) | 4.0 ms (1.0) | 5.0 ms (1.0) |
| 1000 complete, 0 open | 714.0 ms (89.3) | 4.0 ms (1.0) | 5.0 ms (1.0) |
| 1000 complete, 50 open | 24.0 ms (3.0) | 4.0 ms (1.0) | 5.0 ms (1.0) |
`);
      expect(page.match(/^- policies:1000, .*/gm)).toEqual([
        '- policies:1000, time to create a pod of a DaemonSet with 1000 complete and 0 open maintenances, compared with none: 89.25x, not at most 1.5',
      ]);
    }));

  test('names the commit, and whether sources have changed since; results and documents are no sources', () =>
    inDirectory(async (directory) => {
      await expect(sourceIn(directory)).rejects.toThrow('--record needs a clone of the git repository');
      const git = (...args: string[]) =>
        run('git', ['-C', directory, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args]);
      await mkdir(join(directory, 'docs'));
      for (const file of ['a.ts', 'docs/a.md']) writeFileSync(join(directory, file), '1');
      await git('init', '--quiet');
      await git('add', '.');
      await git('commit', '--quiet', '--message', 'a');
      writeFileSync(join(directory, 'docs/a.md'), '2');
      expect(await sourceIn(directory)).toEqual({
        commit: expect.stringMatching(/^[0-9a-f]{40}$/),
        isModified: false,
      });
      writeFileSync(join(directory, 'a.ts'), '2');
      expect(await sourceIn(directory)).toMatchObject({ isModified: true });
    }));
});

describe('a block of docs/performance.md', () => {
  const page = `# Performance\n\n## Drains\nProse.\n\n${blockOf('drains')}\n\nMore prose.\n`;
  const expected = `# Performance

## Drains
Prose.

<!-- generated: bench/results/drains.json -->

\`\`\`
1x250: 1 node x 250 pods

         runs  deleted s          pods/s             requests/pod  RSS MB  silent s  CPU ms/pod  apiserver CPU ms/pod
  ours   2     3.94 (3.87..4.00)  63.5 (62.5..64.6)  2.00          300     1.00      3.0         20.0
  floor  1     2.98               83.9               2.00          300     1.00      3.0         20.0

node-maintenance-operator  run 1 failed: HOST: kubectl ended with exit code 1 at https://127.0.0.1:6443/api
\`\`\`

\`PEERS_SOURCE=peers npm run bench -- --record drains --work 1x250 --runs 2\` on 2026-11-25, 12 min, commit 0123456789ab: 2 CPUs (a CPU), 24 GiB, Linux 6.1 x64,
Kubernetes v1.37.1, etcd v3.7.0, Temporal CLI v1.5.1, Node v24.9.0.

Bounds of \`--check\` that are missed:

- 1x250, wall time, ours / floor: 1.34x, not at most 1.3

<!-- end of bench/results/drains.json -->

More prose.
`;

  test('has the tables of its file, and the rest of the page stays as it is', () => {
    expect(performancePage(page, fixture)).toBe(expected);
    expect(performancePage(expected, fixture)).toBe(expected);
  });

  test('in a block of code is text', () => {
    const quoted = `\`\`\`\n${blockOf('budget')}\n\`\`\`\n`;
    expect(performancePage(quoted, fixture)).toBe(quoted);
  });

  test('lists the commands that record all results', () => {
    const list = performancePage(
      '<!-- generated: bench/recordings.ts -->\n<!-- end of bench/recordings.ts -->',
      fixture,
    );
    for (const name of recordingNames)
      expect(list).toContain(`| \`${recordingCommand(name)}\` | ${recordings[name].section} |`);
  });

  test.each([
    {
      problem: 'without its file',
      page: blockOf('budget'),
      message:
        'docs/performance.md: a block has the source bench/results/budget.json, which does not exist: record it with `npm run bench -- --record budget`',
    },
    {
      problem: 'of a file that nothing records',
      page: blockOf('drain'),
      message:
        /a block has the source bench\/results\/drain\.json; it can have .*bench\/results\/drains\.json/,
    },
    {
      problem: 'without an end',
      page: '<!-- generated: bench/results/drains.json -->\n\nProse.',
      message: 'has no end: add the line "<!-- end of bench/results/drains.json -->"',
    },
  ])('$problem is an error', ({ page: wrong, message }) => {
    expect(() => performancePage(wrong, fixture)).toThrow(message);
  });

  test('of a file of --json is an error', () =>
    inDirectory(async (directory) => {
      await mkdir(join(directory, 'bench/results'), { recursive: true });
      writeFileSync(join(directory, 'bench/results/drains.json'), JSON.stringify({ results: [] }));
      expect(() => performancePage(blockOf('drains'), directory)).toThrow(
        'bench/results/drains.json is no recorded file',
      );
    }));
});

describe('recorded results', () => {
  const written = readFileSync(join(repository, 'docs', 'performance.md'), 'utf8');
  // The directory of a test has the files of no other section: their tables stay as they are.
  const page = written.replaceAll(/^<!-- (?:generated:|end of) bench\/results\/.*\n/gm, '');

  test.each(recordingNames)('of %s replace the tables of their section, and are drawn', (name) =>
    inDirectory((directory) => {
      const { section } = recordings[name];
      expect(page).toMatch(new RegExp(`^##+ ${section}$`, 'm'));
      writeRecorded(recordingOf(name, results[name]()), directory);
      const heading = new RegExp(`(^##+ ${section}\n)`, 'm');
      // The tables of these sections are of something else.
      const kept = name === 'held' || peersRecordings.includes(name) ? page : withoutTables(page, section);
      const filled = performancePage(kept.replace(heading, `$1\n${blockOf(name)}\n`), directory);
      const tables = tablesOf(filled, section);
      if (peersRecordings.includes(name))
        expect(filled).toContain('[performance-peers.md](performance-peers.md)');
      else expect(tables.length).toBeGreaterThanOrEqual(results[name]().length);
      const plots = performancePlots(filled).map(({ content }) => content);
      expect(plots.join('')).not.toMatch(/NaN|undefined/);
      expect(drawn[name].filter((text) => !plots.some((plot) => plot.includes(`>${text}<`)))).toEqual([]);
    }),
  );
});

/** Numbers of the results that a plot has to show. */
const drawn: Readonly<Record<RecordingName, readonly string[]>> = {
  drains: ['3.94', '2.98'],
  'large-drains': ['3.94', '100 nodes x 30 pods'],
  'eviction-requests': [],
  'peers-drains': [],
  'peers-large': [],
  'peers-budget': [],
  'peers-maintenances': [],
  budget: ['68.8', '1.42', '1.09'],
  readiness: ['0.23', '0.72', '8.7', '285'],
  held: ['0.05', '0.17', '1.13'],
  idle: ['299', '336', '0.091'],
  traffic: ['1.15', '29.3'],
  policies: [],
  takeover: ['3', '3.29'],
};

/** Removes the tables and blocks of text of a section. */
function withoutTables(page: string, section: string): string {
  const lines = page.split('\n');
  const start = lines.findIndex((line) => line.replace(/^#+ /, '') === section && line.startsWith('#'));
  const end = lines.findIndex((line, index) => index > start && line.startsWith('#'));
  const body = lines.slice(start + 1, end).join('\n');
  const prose = body.replaceAll(/^```\n[^]*?^```$/gm, '').replaceAll(/^\|.*$/gm, '');
  return [...lines.slice(0, start + 1), prose, ...lines.slice(end)].join('\n');
}
