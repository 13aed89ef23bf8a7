import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { jest } from '@jest/globals';
import { Heartbeats } from '../../activities/heartbeats.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** Starts an activity that lasts until `end`, and counts its heartbeats. */
function activity(heartbeats: Heartbeats, heartbeatTimeoutMs: number | undefined) {
  const info = heartbeatTimeoutMs === undefined ? {} : { heartbeatTimeoutMs };
  const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
  let sent = 0;
  environment.on('heartbeat', () => (sent += 1));
  const longRunning = Promise.withResolvers<void>();
  const ended = environment.run(async () => {
    const stop = heartbeats.start();
    await longRunning.promise;
    stop();
  });
  return { sent: () => sent, end: () => (longRunning.resolve(), ended) };
}

describe('heartbeats', () => {
  test.each([
    { timeoutSeconds: 6, inAnHour: 1_200 },
    // One more at the start, which says that it has reached a worker.
    { timeoutSeconds: 540, inAnHour: 14 },
    { timeoutSeconds: 900, inAnHour: 9 },
  ])(
    'of an activity with a timeout of $timeoutSeconds s are $inAnHour in an hour',
    async ({ timeoutSeconds, inAnHour }) => {
      const heartbeats = new Heartbeats();
      const { sent, end } = activity(heartbeats, timeoutSeconds * 1_000);
      jest.advanceTimersByTime(3_600_000);
      expect(sent()).toBe(inAnHour);
      await end();
      jest.advanceTimersByTime(3_600_000);
      expect(sent()).toBe(inAnHour);
      expect(jest.getTimerCount()).toBe(0);
    },
  );

  test('of an activity without a timeout are none', async () => {
    const { sent, end } = activity(new Heartbeats(), undefined);
    jest.advanceTimersByTime(3_600_000);
    expect(sent()).toBe(0);
    await end();
  });

  test('are sent at once by a process that was suspended: another worker may have its activities', async () => {
    const heartbeats = new Heartbeats();
    const activities = [540_000, 900_000].map((timeoutMs) => activity(heartbeats, timeoutMs));
    jest.advanceTimersByTime(10_000);
    expect(activities.map(({ sent }) => sent())).toEqual([1, 1]);
    // The clocks keep running, and no timer fires.
    jest.setSystemTime(Date.now() + 60_000);
    jest.advanceTimersByTime(1_000);
    expect(activities.map(({ sent }) => sent())).toEqual([2, 2]);
    await Promise.all(activities.map(({ end }) => end()));
  });
});
