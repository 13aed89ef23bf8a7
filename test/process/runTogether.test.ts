import { expect, test } from '@jest/globals';
import { once } from 'node:events';
import { runTogether } from '../../process/runTogether.ts';

const untilAborted = (signal: AbortSignal) => (signal.aborted ? Promise.resolve() : once(signal, 'abort'));

test('tasks run until all of them have ended', async () => {
  const ended: string[] = [];
  await runTogether(new AbortController().signal, [
    async () => void ended.push('first'),
    async () => {
      await Promise.resolve();
      ended.push('second');
    },
  ]);
  expect(ended).toEqual(['first', 'second']);
});

test('a failure stops the others, is waited for, and is thrown', async () => {
  const failure = new Error('the claim was lost');
  let hasCleanedUp = false;
  const others = async (signal: AbortSignal) => {
    await untilAborted(signal);
    await Promise.resolve();
    hasCleanedUp = true;
    throw signal.reason;
  };
  const run = runTogether(new AbortController().signal, [others, () => Promise.reject(failure)]);
  await expect(run).rejects.toBe(failure);
  expect(hasCleanedUp).toBe(true);
});

test('the signal of the caller stops all of them', async () => {
  const stop = new AbortController();
  const running = runTogether(stop.signal, [untilAborted, untilAborted]);
  stop.abort();
  await running;
});
