import { jest } from '@jest/globals';
import { parseOptions } from '../../bench/options.ts';

const now = new Date('2026-11-22T10:20:30Z');
const existing = new Set(['bench/results/budget.json']);
const parse = (...args: string[]) => {
  const { benchmarks, targets, ...others } = parseOptions(args, now, (path) => existing.has(path));
  return { names: benchmarks.map(({ name }) => name), targets, ...others };
};

test('By default, ours is compared with one kubectl and with the floor, and nothing is asserted', () => {
  expect(parse()).toMatchObject({
    names: ['1x250', '10x70', 'pdb', 'budget', 'readiness:200x3', 'held:500'],
    targets: ['ours', 'kubectl', 'floor'],
    runs: 3,
    check: false,
    json: 'bench/results/2026-11-22T102030.json',
  });
});

test('With --peers, every peer drains in the same run', () => {
  expect(parse('--peers')).toMatchObject({
    names: ['1x250', '10x70', 'cold:1x250', '50x100', 'budget', 'each:100x5', 'overlap:20x10'],
    targets: [
      'ours',
      'kubectl',
      'kubectl-per-node',
      'node-maintenance-operator',
      'node-maintenance-orchestrator',
      'floor',
    ],
    runs: 3,
  });
});

test('The command line names the benchmarks and the targets of --peers too', () => {
  const options = parse('--peers', '--work', '1x250', '--targets', 'floor,ours', '--check');
  expect(options).toMatchObject({ names: ['1x250'], targets: ['ours', 'floor'], check: true });
});

describe('--record', () => {
  test('measures what the section of docs/performance.md shows', () => {
    expect(parse('--record', 'drains', '--check')).toMatchObject({
      names: ['1x250', '10x70'],
      targets: ['ours', 'node-maintenance-operator', 'floor'],
      runs: 3,
      record: 'drains',
      check: true,
      json: 'bench/results/2026-11-22T102030.json',
    });
    expect(parse('--record', 'takeover')).toMatchObject({ names: ['takeover:20'], targets: ['ours'] });
  });

  test('leaves --work, --targets and --runs to the command line', () => {
    const options = parse('--record', 'drains', '--work', '50x100', '--targets', 'ours,floor', '--runs', '1');
    expect(options).toMatchObject({ names: ['50x100'], targets: ['ours', 'floor'], runs: 1 });
  });

  test('replaces an existing file with --force', () => {
    expect(parse('--record', 'budget', '--force')).toMatchObject({ names: ['budget'], record: 'budget' });
  });

  test.each([
    {
      args: '--record=drain',
      message: /--record <name>.*"drain" is no section .*: use drains, large-drains,/,
    },
    { args: '--record=../x', message: /--record <name>.*"..\/x" is no section/ },
    {
      args: '--record=budget',
      message: /^error: --record budget: bench\/results\/budget\.json exists; add --force to replace it\n$/,
    },
    {
      args: '--record=drains --work=idle:100x5',
      message: /^error: --record drains: the section "Drains" .* has no figures of idle:100x5/,
    },
    {
      args: '--record=drains --profile=/tmp/x',
      message: /^error: --record and --profile exclude each other: /,
    },
    { args: '--force', message: /^error: --force is only for --record\n$/ },
    { args: '--record=drains --runs=0', message: /--runs <number>/ },
  ])('is refused before anything is measured: $args', ({ args, message }) => {
    const written: string[] = [];
    const write = jest.spyOn(process.stderr, 'write').mockImplementation((text) => {
      written.push(String(text));
      return true;
    });
    const exit = jest.spyOn(process, 'exit').mockImplementation((code) => {
      throw new Error(`exit ${String(code)}`);
    });
    try {
      expect(() => parse(...args.split(' '))).toThrow('exit 2');
    } finally {
      exit.mockRestore();
      write.mockRestore();
    }
    expect(written.join('')).toMatch(message);
  });
});
