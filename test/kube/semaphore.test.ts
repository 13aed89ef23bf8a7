import { Semaphore } from '../../kube/semaphore.ts';

test('a semaphore admits up to its limit, then one for each release, in FIFO order', async () => {
  const semaphore = new Semaphore(1);
  const entered: string[] = [];
  const leave = await semaphore.acquire();
  const enter = async (name: string) => {
    const leaveAgain = await semaphore.acquire();
    entered.push(name);
    leaveAgain();
  };
  const both = Promise.all([enter('first'), enter('second')]);
  await Promise.resolve();
  expect(entered).toEqual([]);
  expect(semaphore.isIdle).toBe(false);
  leave();
  leave();
  await both;
  expect(semaphore.isIdle).toBe(true);
  expect(entered).toEqual(['first', 'second']);
});

test('a caller that is aborted while waiting leaves the queue and takes no slot', async () => {
  const semaphore = new Semaphore(1);
  const leave = await semaphore.acquire();
  const aborter = new AbortController();
  const waiting = semaphore.acquire(aborter.signal);
  aborter.abort(new Error('enough'));
  await expect(waiting).rejects.toThrow('enough');
  expect(semaphore.waiting).toBe(0);
  leave();
  (await semaphore.acquire())();
});
