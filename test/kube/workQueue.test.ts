import { setTimeout as sleep } from 'node:timers/promises';
import { errorOf } from '../../kube/errors.ts';
import { type ObservedQueue, WorkQueue, type WorkQueueObserver } from '../../kube/workQueue.ts';
import { eventually, recordedLog } from './fixtures.ts';

const backOff = { firstMs: 5, capMs: 50 };

/** A queue whose reconciliations end when the test says so. */
function gatedQueue(workers: number) {
  const queue = new WorkQueue('test', backOff);
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
    eventually(`${count} times`, () => (started.length >= count ? undefined : `${started}`));
  const endOne = () => gates.shift()?.();
  return { queue, stop, run, started, starts, endOne, most: () => mostWorking };
}

test('a key that waits is in the queue once', () => {
  const queue = new WorkQueue('test');
  for (const key of ['a', 'b', 'a', 'a']) queue.add(key);
  expect(queue.length).toBe(2);
});

test('a key is never reconciled twice at once; added while in progress, it is reconciled once more', async () => {
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

test('one key per worker is reconciled at once, in FIFO order', async () => {
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

test('after an abort no key is started, and run resolves when the keys in progress have finished', async () => {
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

test('a key that fails is logged and retried, and a success resets its failures', async () => {
  const queue = new WorkQueue('test', backOff);
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
    { queue: 'test', key: 'a', failures: 1, error: 'the apiserver is away' },
    { queue: 'test', key: 'a', failures: 2, error: 'the apiserver is away' },
    { queue: 'test', key: 'a', failures: 1, error: 'the apiserver is away' },
  ]);
});

test('a result of BackOff retries a key like a failure, without a log line', async () => {
  const queue = new WorkQueue('test', backOff);
  const log = recordedLog();
  const stop = new AbortController();
  const times: number[] = [];
  const reconcile = async () => {
    times.push(performance.now());
    if (times.length === 5) stop.abort();
    return 'BackOff' as const;
  };
  queue.add('a');
  await queue.run({ workers: 1, reconcile, signal: stop.signal, log });
  expect(log.lines).toEqual([]);
  // At least half of 5, 10, 20 and 40 ms.
  expect((times[4] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(35);
});

/** Reconciles a key that meets so many conflicts in a row, and then succeeds. */
async function reconciledAfterConflicts(count: number) {
  const queue = new WorkQueue('test', backOff);
  const log = recordedLog();
  const stop = new AbortController();
  let attempts = 0;
  const reconcile = async () => {
    attempts += 1;
    if (attempts <= count) throw errorOf({ verb: 'patch', resource: 'pods' }, { status: 409, text: '' });
    stop.abort();
  };
  queue.add('a');
  await queue.run({ workers: 1, reconcile, signal: stop.signal, log });
  return { attempts, lines: log.lines };
}

test('a Conflict retries a key within seconds, although nothing adds it, and without a log line', async () => {
  const { attempts, lines } = await reconciledAfterConflicts(1);
  expect(attempts).toBe(2);
  expect(lines).toEqual([]);
});

test('a Conflict that persists is logged', async () => {
  const { lines } = await reconciledAfterConflicts(4);
  expect(lines.map(({ fields }) => fields?.['failures'])).toEqual([4]);
});

test('a key is requeued after a delay, and the earliest of several delays applies', async () => {
  const queue = new WorkQueue('test');
  const stop = new AbortController();
  const times: number[] = [];
  const startedAt = performance.now();
  const reconcile = async () => {
    times.push(performance.now() - startedAt);
    if (times.length === 2) stop.abort();
    return { requeueAfterMs: 30 };
  };
  queue.addAfter('a', 60_000);
  queue.addAfter('a', 10);
  queue.addAfter('a', 30_000);
  await queue.run({ workers: 1, reconcile, signal: stop.signal, log: recordedLog() });
  expect(times).toHaveLength(2);
  expect(times[1]).toBeGreaterThanOrEqual((times[0] ?? 0) + 25);
});

test('a delay that is longer than any timer does not end at once', async () => {
  const queue = new WorkQueue('test', backOff);
  const stop = new AbortController();
  const reconcile = async () => ({ requeueAfterMs: 365 * 86_400_000 });
  const warnings: string[] = [];
  const onWarning = ({ name }: Error) => warnings.push(name);
  process.on('warning', onWarning);
  queue.add('a');
  const ended = queue.run({ workers: 1, reconcile, signal: stop.signal, log: recordedLog() });
  await sleep(20);
  expect(queue.isBusy).toBe(false);
  stop.abort();
  await ended;
  process.off('warning', onWarning);
  expect(warnings).toEqual([]);
});

test('an observer sees what waits, what is in progress, and what is retried, as long as the queue runs', async () => {
  const queue = new WorkQueue('test', backOff);
  const stop = new AbortController();
  const seen: string[] = [];
  let observed: ObservedQueue | undefined;
  const observer: WorkQueueObserver = {
    started: (started) => {
      observed = started;
      return () => seen.push('ended');
    },
    taken: (name, seconds) => seen.push(`taken ${name} ${seconds >= 0}`),
    done: (name, seconds) => seen.push(`done ${name} ${seconds >= 0}`),
    retried: (name) => seen.push(`retried ${name}`),
  };
  const during: { length: number | undefined; working: number | undefined }[] = [];
  let failures = 1;
  const reconcile = async () => {
    during.push({ length: observed?.length, working: observed?.workingSeconds().length });
    if (failures-- > 0) throw new Error('the apiserver is away');
    if (during.length === 3) stop.abort();
  };
  for (const key of ['a', 'b']) queue.add(key);
  await queue.run({ workers: 1, reconcile, signal: stop.signal, log: recordedLog(), observer });
  expect(during).toEqual([
    { length: 1, working: 1 },
    { length: 0, working: 1 },
    { length: 0, working: 1 },
  ]);
  expect(observed?.workingSeconds()).toEqual([]);
  const one = ['taken test true', 'done test true'];
  expect(seen).toEqual(['taken test true', 'retried test', 'done test true', ...one, ...one, 'ended']);
});

test('a key that is added while the last worker ends is reconciled', async () => {
  const queue = new WorkQueue('test', backOff);
  const stop = new AbortController();
  const reconciled = new Set<string>();
  const run = queue.run({
    workers: 1,
    reconcile: async (key) => void reconciled.add(key),
    signal: stop.signal,
    log: recordedLog(),
  });
  // Each at another of the moments around the end of a worker, which is some microtasks after its last key.
  for (let pause = 0; pause < 40; pause++) {
    const keys = [`${pause} first`, `${pause} second`];
    queue.add(keys[0] ?? '');
    for (let i = 0; i < pause; i++) await Promise.resolve();
    queue.add(keys[1] ?? '');
    await eventually('both keys', () => (keys.every((key) => reconciled.has(key)) ? undefined : 'not yet'));
  }
  stop.abort();
  await run;
});

test('a key that is added after an abort waits for the next run', async () => {
  const { queue, stop, run, started, starts } = gatedQueue(1);
  stop.abort();
  await run;
  queue.add('late');
  expect({ started, length: queue.length, isBusy: queue.isBusy }).toEqual({
    started: [],
    length: 1,
    isBusy: true,
  });
  const again = new AbortController();
  const reconcile = async (key: string) => void started.push(key);
  const second = queue.run({ workers: 2, reconcile, signal: again.signal, log: recordedLog() });
  await starts(1);
  again.abort();
  await second;
  expect(started).toEqual(['late']);
});
