import { describe, expect, test } from '@jest/globals';
import { clockFindings, type ProcessFacts, processFindings } from '../../../domain/doctor/processes.ts';
import type { ProcessSummary } from '../../../domain/leases/processSummary.ts';

const now = Date.parse('2026-01-01T12:00:00Z');
const process = (differs: Partial<ProcessSummary> = {}): ProcessSummary => ({
  component: 'node-maintenance-worker',
  host: 'host-1',
  holder: 'w_1',
  state: 'Live',
  leader: true,
  version: '0.1.0',
  ...differs,
});
const facts: ProcessFacts = {
  namespace: 'nm',
  version: '0.1.0',
  processes: [process()],
  leader: 'w_1',
  electedAt: '2026-01-01T11:55:00Z',
  now,
};
const problems = (differs: Partial<ProcessFacts>) =>
  processFindings({ ...facts, ...differs }).filter(({ result }) => result !== 'ok');

describe('processes', () => {
  test('are ok when one is live and leads', () => {
    expect(processFindings(facts)).toEqual([
      { result: 'ok', message: '1 live process: worker on host-1' },
      { result: 'ok', message: 'worker on host-1 leads the control loops' },
    ]);
  });

  test('are counted', () => {
    const two = [process(), process({ host: 'host-2', holder: 'w_2', leader: false })];
    expect(processFindings({ ...facts, processes: two })[0]).toEqual({
      result: 'ok',
      message: '2 live processes: worker on host-1, worker on host-2',
    });
  });

  test.each<{ when: string; differs: Partial<ProcessFacts>; want: [string, string | RegExp][] }>([
    {
      when: 'none runs',
      differs: { processes: [], leader: undefined },
      want: [
        ['error', 'no process of the installation runs in namespace nm'],
        ['error', /^no process is the leader of the control loops for 5 min: /],
      ],
    },
    {
      when: 'there has never been one',
      differs: { processes: [], leader: undefined, electedAt: undefined },
      want: [
        ['error', 'no process of the installation runs in namespace nm'],
        ['error', /^no process is the leader of the control loops: /],
      ],
    },
    {
      when: 'none publishes a Lease',
      differs: { processes: [] },
      want: [
        ['warning', /publishes an identity Lease in namespace nm/],
        ['warning', /^the leader of the control loops, w_1, publishes no identity Lease/],
      ],
    },
    {
      when: 'one is stale',
      differs: { processes: [process(), process({ host: 'host-2', state: 'Stale', leader: false })] },
      want: [['warning', 'worker on host-2 no longer renews its identity Lease']],
    },
    {
      when: 'two are stale',
      differs: {
        processes: [
          process(),
          ...['host-2', 'host-3'].map((host) => process({ host, state: 'Stale', leader: false })),
        ],
      },
      want: [['warning', 'worker on host-2, worker on host-3 no longer renew their identity Lease']],
    },
    {
      when: 'an upgrade was not completed',
      differs: { processes: [process(), process({ version: '0.2.0', leader: false })] },
      want: [['warning', 'processes of several releases run: 0.1.0, 0.2.0']],
    },
    {
      when: 'the plugin is of another release',
      differs: { version: '0.2.0' },
      want: [['warning', 'the processes run release 0.1.0, and this plugin is of release 0.2.0']],
    },
  ])('are reported when $when', ({ differs, want }) => {
    const found = problems(differs);
    expect(found.map(({ result }) => result)).toEqual(want.map(([result]) => result));
    for (const [index, [, text]] of want.entries()) expect(found[index]?.message).toMatch(text);
    for (const { remedy } of found) expect(remedy).toBeTruthy();
  });
});

describe('clocks', () => {
  const clocks = [
    { clock: 'node node-1', skewMs: 800 },
    { clock: 'node node-2', skewMs: -90_000 },
    { clock: 'node node-3', skewMs: 3_600_000 },
  ];
  test('that differ are listed, the worst first, and that of the host before', () => {
    expect(clockFindings(clocks, 10_000).map(({ message }) => message)).toEqual([
      'the clock of this host is 10 s ahead of that of the apiserver',
      'the clock of node node-3 is 60 min ahead of that of the apiserver',
      'the clock of node node-2 is 90 s behind that of the apiserver',
    ]);
  });

  test('that differ by a few seconds are ok', () => {
    const close = [...clocks.slice(0, 1), { clock: 'node node-4', skewMs: -5_000 }];
    expect(clockFindings(close, -900)).toEqual([
      {
        result: 'ok',
        message: 'this host and 2 clients that renew Leases agree with the apiserver to 5 s',
      },
    ]);
  });
});
