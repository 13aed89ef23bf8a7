import { checkBudget, checkDrain, checkHeld, failuresOf, uncheckedOf } from '../../bench/thresholds.ts';
import { measurementOf } from './measurements.ts';

const peer = 'node-maintenance-operator';
const resultsOf = (name: string, runs: Parameters<typeof checkDrain>[1]) =>
  Object.fromEntries(checkDrain(name, runs).map(({ metric, result }) => [metric, result]));

test('A drain as fast as the operator and cheap enough meets every bound', () => {
  const runs = (['ours', peer, 'floor'] as const).map((target) => measurementOf({ target }));
  const slow = measurementOf({ target: 'kubectl', wallSeconds: 100 });
  const results = resultsOf('1x250', [...runs, slow]);
  expect(new Set(Object.values(results))).toEqual(new Set(['MET']));
  expect(Object.keys(results)).toHaveLength(9);
});

test.each([
  { metric: `wall time, ours / ${peer}`, figures: { wallSeconds: 10.1 } },
  { metric: 'wall time, ours / floor', figures: { wallSeconds: 13.1 } },
  {
    metric: 'CPU of the apiserver, ours / floor',
    figures: { cpuSeconds: { target: 0.5, 'kube-apiserver': 6.1 } },
  },
  {
    metric: 'CPU of the worker per evacuated pod',
    figures: { cpuSeconds: { target: 1.1, 'kube-apiserver': 5 } },
  },
  { metric: 'requests per evacuated pod', figures: { requests: { total: 751, byKind: {}, rejected: 0 } } },
  { metric: 'first eviction after the request', figures: { firstEvictionSeconds: 0.31 } },
  { metric: 'longest time without a change of the status', figures: { silentSeconds: 1.6 } },
  { metric: 'peak memory of the worker', figures: { residentMb: 401 } },
])('$metric has a bound', ({ metric, figures }) => {
  const others = ([peer, 'floor'] as const).map((target) => measurementOf({ target }));
  expect(resultsOf('10x70', [measurementOf(figures), ...others])[metric]).toBe('MISSED');
});

test('Other drains are compared without bounds', () => {
  const runs = (['ours', 'floor'] as const).map((target) =>
    measurementOf({ target, wallSeconds: target === 'ours' ? 90 : 10 }),
  );
  expect(resultsOf('50x100', runs)['wall time, ours / floor']).toBe('NO THRESHOLD');
});

test('A figure of ours that is missing fails a check', () => {
  const results = checkDrain('1x250', [
    measurementOf({ silentSeconds: undefined as never }),
    measurementOf({ target: 'floor' }),
  ]);
  expect(failuresOf(results)).toMatchObject([
    { metric: 'longest time without a change of the status', result: 'NOT MEASURED' },
  ]);
  expect(failuresOf(checkHeld([]))).toHaveLength(4);
});

test('Thresholds that compare with a program that was not measured are named, and fail no check', () => {
  const results = [...checkDrain('1x250', [measurementOf({})]), ...checkBudget([])];
  expect(uncheckedOf(results).map(({ metric }) => metric)).toEqual([
    'wall time, ours / kubectl',
    `wall time, ours / ${peer}`,
    'wall time, ours / floor',
    'CPU of the apiserver, ours / floor',
    'wall time, ours / floor',
  ]);
  expect(failuresOf(checkDrain('1x250', [measurementOf({})]))).toEqual([]);
});

test('The CPU time of the worker counts until nothing is left of the drain, as its requests do', () => {
  const settling = { seconds: 2, cpuSeconds: { target: 0.6 } };
  const results = checkDrain('1x250', [measurementOf({ settling })]);
  expect(failuresOf(results)).toMatchObject([
    { metric: 'CPU of the worker per evacuated pod', value: { median: 4.4 } },
  ]);
});

test('Targets are compared within a run, and the median counts', () => {
  const runs = [10, 20, 40].flatMap((wallSeconds, index) => [
    measurementOf({ run: index + 1, wallSeconds }),
    measurementOf({ target: peer, run: index + 1, wallSeconds: 20 }),
  ]);
  const comparison = checkDrain('1x250', runs).find(({ metric }) => metric.endsWith(peer));
  expect(comparison).toMatchObject({ value: { median: 1, min: 0.5, max: 2 }, result: 'MET' });
});
