import { parseOptions } from '../../bench/options.ts';

const now = new Date('2026-11-22T10:20:30Z');
const parse = (...args: string[]) => {
  const { benchmarks, targets, ...others } = parseOptions(args, now);
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
    names: ['1x250', '10x70', '50x100', 'budget', 'each:100x5', 'overlap:20x10', 'cold:1x250'],
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
