import { BuildProgress, type BuildStep } from '../../sandbox/buildProgress.ts';

/** `program` imports `library`, which imports `runtime`; `other` stands alone. */
const steps: BuildStep[] = [
  { path: 'runtime', imports: [], cost: 10 },
  { path: 'library', imports: ['runtime'], cost: 60 },
  { path: 'other', imports: [], cost: 10 },
  { path: 'program', imports: ['library', 'other', 'unsafe'], cost: 20 },
];

test('Before anything is compiled, the expectation counts down', () => {
  const progress = new BuildProgress(steps, 100);
  expect(progress.fraction).toBe(0);
  expect(progress.secondsLeft(0)).toBe(100);
  expect(progress.secondsLeft(30)).toBe(70);
});

test('A package that is being compiled shows that everything it imports is finished', () => {
  const progress = new BuildProgress(steps, 100);
  progress.compiling('library', 5);
  expect(progress.fraction).toBeCloseTo(0.1);
  progress.compiling('program', 50);
  expect(progress.fraction).toBeCloseTo(0.8);
  expect(progress.finishedPackages).toBe(3);
  expect(progress.packages).toBe(4);
});

test('Packages in the cache of Go, which are never compiled, count as finished', () => {
  const progress = new BuildProgress(steps, 100);
  progress.compiling('program', 1);
  expect(progress.fraction).toBeCloseTo(0.8);
  expect(progress.secondsLeft(1)).toBeLessThan(3);
});

test.each([
  { machine: 'as fast as expected', factor: 1 },
  { machine: 'three times slower', factor: 3 },
  { machine: 'three times faster', factor: 1 / 3 },
])('On a machine that is $machine, the estimate approaches the real time', ({ factor }) => {
  const many = Array.from({ length: 100 }, (_, index) => ({
    path: `p${index}`,
    imports: index === 0 ? [] : [`p${index - 1}`],
    cost: 1,
  }));
  const progress = new BuildProgress(many, 100);
  const errorAt = (percent: number) => {
    for (let index = 0; index <= percent; index++) progress.compiling(`p${index}`, index * factor);
    return Math.abs(progress.secondsLeft(percent * factor) / ((100 - percent) * factor) - 1);
  };
  expect(errorAt(20)).toBeLessThan(0.45);
  expect(errorAt(50)).toBeLessThan(0.2);
  expect(errorAt(90)).toBeLessThan(0.12);
});

test('The estimate never becomes negative', () => {
  const progress = new BuildProgress(steps, 10);
  progress.compiling('program', 5);
  expect(progress.secondsLeft(1_000)).toBe(0);
});

test('A build without packages has made no progress', () => {
  expect(new BuildProgress([], 10).fraction).toBe(0);
});
