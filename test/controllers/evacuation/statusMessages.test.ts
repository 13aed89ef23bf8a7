import { jest } from '@jest/globals';
import { StatusMessages } from '../../../controllers/evacuation/statusMessages.ts';
import type { FencedCluster } from '../../../kube/cluster.ts';
import { silentLog } from '../../kit/cluster.ts';

beforeEach(() => jest.useFakeTimers());
afterEach(() => jest.useRealTimers());

/** Without a cluster: nothing is written. */
const messages = () =>
  new StatusMessages({ cluster: {} as FencedCluster, log: silentLog, waitingReason: () => undefined });

describe('reports about terminating pods', () => {
  test('are due one after the other', () => {
    const { terminationDelayMs } = bound(messages());
    expect(['a', 'b', 'c'].map(terminationDelayMs)).toEqual([0, 100, 200]);
    jest.advanceTimersByTime(150);
    expect(['b', 'c', 'd'].map(terminationDelayMs)).toEqual([0, 50, 150]);
  });

  test('of pods that are gone leave no gap once their time is over', () => {
    const all = messages();
    const { terminationDelayMs } = bound(all);
    for (const key of ['a', 'b', 'c']) terminationDelayMs(key);
    all.forget('b');
    jest.advanceTimersByTime(1_000);
    expect(['c', 'd', 'e'].map(terminationDelayMs)).toEqual([0, 0, 100]);
  });
});

function bound(all: StatusMessages) {
  return { terminationDelayMs: (key: string) => all.terminationDelayMs(key) };
}
