import { ServingMonitor } from '../../../activities/drain/servingMonitor.ts';
import type { EvictionRequest } from '../../../api/lifecycle.ts';
import { MAINTENANCE_REQUESTER } from '../../../api/names.ts';
import type { Change } from '../../../kube/informer.ts';

const request = (differs: Partial<EvictionRequest> = {}): EvictionRequest => ({
  metadata: { name: 'web', namespace: 'shop', uid: 'r', creationTimestamp: '2026-11-25T12:00:00Z' },
  spec: {
    target: { pod: { name: 'web', uid: 'p' } },
    requester: MAINTENANCE_REQUESTER,
    intent: 'Eviction',
  },
  ...differs,
});

/** Returns a monitor, how often it has reported, and the function that changes a request in its informer. */
function monitored() {
  let onRequest: (change: Change<EvictionRequest>) => void = () => undefined;
  const ignored = { subscribe: () => () => undefined };
  const requests = {
    subscribe: (handler: typeof onRequest) => {
      onRequest = handler;
      return () => undefined;
    },
  };
  const lifecycle = { use: () => undefined, requests, evictions: ignored, evictionsOf: () => [] };
  const clock = { now: new Date('2026-11-25T12:00:10Z') };
  const cluster = { kube: { now: () => clock.now }, lifecycle, maintenances: ignored };
  const monitor = new ServingMonitor({ cluster, evictionApi: { api: 'auto', responseSeconds: 30 } } as never);
  const reports = { count: 0 };
  const stop = monitor.subscribe(() => (reports.count += 1));
  const changed = (type: 'Added' | 'Updated' | 'Deleted', object: EvictionRequest) =>
    onRequest({ type, key: 'shop/web', object, previous: object } as Change<EvictionRequest>);
  return { monitor, reports, stop, changed, clock };
}

const answered = request({ status: { observedGeneration: 1 } });

describe('a drain that waits for the answer to the request of another one learns', () => {
  test('that it has come, once', () => {
    const { monitor, reports, changed } = monitored();
    changed('Added', request());
    expect({ ...reports, isWaiting: monitor.isWaiting() }).toEqual({ count: 0, isWaiting: true });
    changed('Updated', answered);
    changed('Updated', answered);
    expect({ ...reports, isWaiting: monitor.isWaiting() }).toEqual({ count: 1, isWaiting: false });
  });

  test.each([
    { what: 'is withdrawn', type: 'Updated' as const, intent: 'Withdrawn' as const },
    { what: 'is deleted', type: 'Deleted' as const, intent: 'Eviction' as const },
  ])('that the request $what, and that another one may be tried', ({ type, intent }) => {
    const { monitor, reports, changed } = monitored();
    changed('Added', request());
    changed(type, request({ spec: { ...request().spec, intent } }));
    expect({ ...reports, isWaiting: monitor.isWaiting() }).toEqual({ count: 1, isWaiting: false });
  });

  test('that nobody answers, while the request still exists', () => {
    const { monitor, changed, clock } = monitored();
    changed('Added', request());
    expect(monitor.isWaiting()).toBe(true);
    clock.now = new Date('2026-11-25T12:00:30Z');
    expect(monitor.isWaiting()).toBe(false);
  });

  test('nothing once it has ended', () => {
    const { reports, stop, changed } = monitored();
    stop();
    changed('Added', answered);
    expect(reports.count).toBe(0);
  });
});
