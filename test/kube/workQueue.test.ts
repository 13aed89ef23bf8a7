import { WorkQueue } from '../../kube/workQueue.ts';
import { eventually, recordedLog } from './fixtures.ts';

const backOff = { firstMs: 5, capMs: 50 };

/** A queue whose turns wait until the test lets them end. */
function gatedQueue(workers: number) {
  const queue = new WorkQueue(backOff);
  const stop = new AbortController();
  const started: string[] = [];
  const gates: (() => void)[] = [];
  let working = 0;
  let mostWorking = 0;
  const reconcile = async (key: string) => {
    started.push(key);
    mostWorking = Math.max(mostWorking, ++working);
    await new Promise<void>((resolve) => gates.push(resolve));
    working--;
  };
  const run = queue.run({ workers, reconcile, signal: stop.signal, log: recordedLog() });
  const starts = (count: number) =>
    eventually(`${count} turns`, () => (started.length >= count ? undefined : `${started}`));
  const endOne = () => gates.shift()?.();
  return { queue, stop, run, started, starts, endOne, most: () => mostWorking };
}

test('a key that waits is in the queue once', () => {
  const queue = new WorkQueue();
  for (const key of ['a', 'b', 'a', 'a']) queue.add(key);
  expect(queue.length).toBe(2);
});

test('a key is never worked on twice at once; added meanwhile, it gets one more turn', async () => {
  const { queue, stop, run, started, starts, endOne, most } = gatedQueue(4);
  queue.add('a');
  await starts(1);
  for (let i = 0; i < 3; i++) queue.add('a');
  expect(most()).toBe(1);
  endOne();
  await starts(2);
  endOne();
  queue.add('b');
  await starts(3);
  expect(started).toEqual(['a', 'a', 'b']);
  stop.abort();
  endOne();
  await run;
});

test('as many keys as there are workers are worked on at once, in the order of arrival', async () => {
  const { queue, stop, run, started, starts, endOne, most } = gatedQueue(2);
  for (const key of ['a', 'b', 'c']) queue.add(key);
  await starts(2);
  expect(queue.length).toBe(1);
  endOne();
  await starts(3);
  expect(started).toEqual(['a', 'b', 'c']);
  expect(most()).toBe(2);
  stop.abort();
  endOne();
  endOne();
  await run;
});

test('after an abort nothing is started, and run resolves when what is under way has ended', async () => {
  const { queue, stop, run, started, starts, endOne } = gatedQueue(1);
  queue.add('a');
  queue.add('b');
  await starts(1);
  stop.abort();
  let ended = false;
  const drained = run.then(() => {
    ended = true;
  });
  await Promise.resolve();
  expect(ended).toBe(false);
  endOne();
  await drained;
  expect(started).toEqual(['a']);
});

test('a key that fails comes again, is logged, and a success makes its failures forgotten', async () => {
  const queue = new WorkQueue(backOff);
  const log = recordedLog();
  const stop = new AbortController();
  const outcomes = ['fail', 'fail', 'well', 'fail', 'well'];
  const reconcile = async () => {
    const outcome = outcomes.shift();
    if (outcome === 'fail') throw new Error('the apiserver is away');
    if (outcomes.length === 0) stop.abort();
    else queue.add('a');
  };
  queue.add('a');
  await queue.run({ workers: 2, reconcile, signal: stop.signal, log });
  expect(log.lines.map(({ fields }) => fields)).toEqual([
    { key: 'a', failures: 1, error: 'the apiserver is away' },
    { key: 'a', failures: 2, error: 'the apiserver is away' },
    { key: 'a', failures: 1, error: 'the apiserver is away' },
  ]);
});

test('a key may ask to come again as if it had failed, which is not logged', async () => {
  const queue = new WorkQueue(backOff);
  const log = recordedLog();
  const stop = new AbortController();
  const turns: number[] = [];
  const reconcile = async () => {
    turns.push(performance.now());
    if (turns.length === 5) stop.abort();
    return 'BackOff' as const;
  };
  queue.add('a');
  await queue.run({ workers: 1, reconcile, signal: stop.signal, log });
  expect(log.lines).toEqual([]);
  // At least half of 5, 10, 20 and 40 ms.
  expect((turns[4] ?? 0) - (turns[0] ?? 0)).toBeGreaterThanOrEqual(35);
});

test('a key may ask to come again later, and of several times the earliest counts', async () => {
  const queue = new WorkQueue();
  const stop = new AbortController();
  const turns: number[] = [];
  const began = performance.now();
  const reconcile = async () => {
    turns.push(performance.now() - began);
    if (turns.length === 2) stop.abort();
    return { requeueAfterMs: 30 };
  };
  queue.addAfter('a', 60_000);
  queue.addAfter('a', 10);
  queue.addAfter('a', 30_000);
  await queue.run({ workers: 1, reconcile, signal: stop.signal, log: recordedLog() });
  expect(turns).toHaveLength(2);
  expect(turns[1]).toBeGreaterThanOrEqual((turns[0] ?? 0) + 25);
});
