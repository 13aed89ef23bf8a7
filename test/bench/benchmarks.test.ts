import { divide, nodesFor, parseBenchmark } from '../../bench/benchmarks.ts';

const nodes = ['a', 'b', 'c', 'd', 'e', 'f'];

test.each([
  { name: '10x70', nodes: 10, podsPerNode: 70, division: 'One', isWarm: true },
  { name: 'cold:1x250', nodes: 1, podsPerNode: 250, division: 'One', isWarm: false },
  { name: 'each:100x5', nodes: 100, podsPerNode: 5, division: 'Each', isWarm: true },
  { name: 'overlap:20x10', nodes: 30, podsPerNode: 10, division: 'Overlapping', isWarm: true },
])('$name is a drain', ({ name, nodes: count, podsPerNode, division, isWarm }) => {
  const workload = { nodes: count, podsPerNode };
  expect(parseBenchmark(name)).toEqual({ kind: 'Drain', name, workload, division, isWarm });
});

test('idle:1000x5 is a cluster without an open maintenance, which brings its own nodes', () => {
  const idle = parseBenchmark('idle:1000x5');
  expect(idle).toEqual({ kind: 'Idle', name: 'idle:1000x5', nodes: 1_000, podsPerNode: 5 });
  expect(nodesFor(idle === undefined ? [] : [idle])).toBe(1);
});

test.each(['idle:3x1', 'idle:4x501', '0x5', '5x0', '1x501', 'overlap:3x10', 'warm:1x1', '10'])(
  '%s is no benchmark',
  (name) => {
    expect(parseBenchmark(name)).toBeUndefined();
  },
);

test('One maintenance drains all nodes', () => {
  expect(divide(nodes, 'One')).toEqual([nodes]);
});

test('Each node has a maintenance', () => {
  expect(divide(nodes, 'Each')).toEqual(nodes.map((node) => [node]));
});

test('Two maintenances have half of their nodes in common', () => {
  expect(divide(nodes, 'Overlapping')).toEqual([
    ['a', 'b', 'c', 'd'],
    ['c', 'd', 'e', 'f'],
  ]);
});

test('The sandbox has a node for every evicted pod to go to, and one for the warm-up', () => {
  const drains = ['1x250', '10x70', 'held:9'].flatMap((name) => parseBenchmark(name) ?? []);
  expect(nodesFor(drains)).toBe(10 + 1 + 2);
});
