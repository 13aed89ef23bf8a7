import { DrainChangeFilter } from '../../../activities/drain/changeFilter.ts';
import type { Pod } from '../../../api/core.ts';
import type { Evacuation } from '../../../api/evacuation.ts';
import type { EvictionRequest } from '../../../api/lifecycle.ts';
import type { NodeMaintenance } from '../../../api/nodeMaintenance.ts';
import type { Change } from '../../../kube/informer.ts';

const podOn = (node: string | undefined, name: string): Pod => ({
  metadata: { name, namespace: 'shop', uid: `uid-${name}` },
  spec: node === undefined ? {} : { nodeName: node },
  status: { ready: true },
});
const [first, second, elsewhere] = [podOn('a', 'first'), podOn('a', 'second'), podOn('b', 'elsewhere')];

const change = <T extends { metadata: { name: string } }>(
  type: Change<T>['type'],
  object: T,
  previous = object,
): Change<T> =>
  ({ type, key: object.metadata.name, object, ...(type === 'Updated' && { previous }) }) as Change<T>;

/** Returns the filter of a drain of node a. */
function filterOf(pace: 'Active' | 'Waiting' = 'Active') {
  const existing = new Map([first, second, elsewhere].map((pod) => [`shop/${pod.metadata.name}`, pod]));
  const pods = { get: (key: string) => existing.get(key) };
  const filter = new DrainChangeFilter({ pods } as never, pace);
  return { filter, existing };
}

/** Returns it after a decision: every targeted pod is being evacuated, unless pods are still to be. */
function decidedFilter({
  pace = 'Active',
  evacuate = [],
  awaitsCordons = false,
}: {
  pace?: 'Active' | 'Waiting';
  evacuate?: Pod[];
  awaitsCordons?: boolean;
} = {}) {
  const { filter, existing } = filterOf(pace);
  filter.passStarted();
  filter.watch(['a']);
  filter.decided({ targeted: [first, second], evacuate, awaitsCordons }, false);
  return { filter, existing };
}

describe('the next pass of a drain', () => {
  test('follows every change before the first decision', () => {
    const { filter } = filterOf();
    expect(filter.podDelayMs(change('Updated', elsewhere))).toBe(40);
  });

  test('does not follow pods of other nodes', () => {
    expect(decidedFilter().filter.podDelayMs(change('Deleted', elsewhere))).toBeUndefined();
  });

  test('waits for a quarter of a second while the pods leave, and for none when the last one has left', () => {
    const { filter } = decidedFilter();
    expect(filter.podDelayMs(change('Updated', first))).toBe(250);
    expect(filter.podDelayMs(change('Deleted', second))).toBe(250);
    expect(filter.podDelayMs(change('Deleted', first))).toBe(40);
  });

  test('follows a pod that appears at once', () => {
    const { filter } = decidedFilter();
    expect(filter.podDelayMs(change('Added', podOn('a', 'new')))).toBe(40);
    expect(filter.podDelayMs(change('Updated', podOn('a', 'new'), podOn(undefined, 'new')))).toBe(40);
  });

  test('follows every change at once while pods have no Evacuation', () => {
    const { filter } = decidedFilter({ evacuate: [second] });
    expect(filter.podDelayMs(change('Updated', first))).toBe(40);
    expect(filter.otherMs).toBe(40);
  });

  test('is due if nodes have joined since the maintenances were read', () => {
    const { filter } = decidedFilter();
    expect(filter.dueInMs).toBe(Infinity);
    filter.watch(['a', 'b']);
    filter.watch(['a', 'b']);
    expect(filter.dueInMs).toBe(40);
    filter.passStarted();
    expect(filter.dueInMs).toBe(Infinity);
  });

  test('is due twice a second while other maintenances have to cordon their nodes', () => {
    expect(decidedFilter({ awaitsCordons: true }).filter.dueInMs).toBe(500);
  });
});

describe('an Evacuation', () => {
  const evacuationOf = ({ metadata: { name, uid = '' } }: Pod) =>
    change('Updated', {
      metadata: { name: `${uid}-${name}`, namespace: 'shop' },
      spec: { podRef: { name, uid } },
    } as Evacuation);

  test('concerns a drain as long as its pod exists on one of the nodes', () => {
    const { filter, existing } = decidedFilter();
    expect(filter.evacuationDelayMs(evacuationOf(first))).toBe(250);
    expect(filter.evacuationDelayMs(evacuationOf(elsewhere))).toBeUndefined();
    existing.delete('shop/first');
    expect(filter.evacuationDelayMs(evacuationOf(first))).toBeUndefined();
  });

  test('of a drain that only waits is followed within two seconds', () => {
    const { filter } = decidedFilter({ pace: 'Waiting' });
    expect(filter.evacuationDelayMs(evacuationOf(first))).toBe(2_000);
  });
});

describe('an EvictionRequest or an Eviction', () => {
  const requestOf = ({ metadata: { name, uid = '' } }: Pod, namespace = 'shop') =>
    ({
      metadata: { name: `of-${name}`, namespace },
      spec: { target: { pod: { name, uid } } },
    }) as EvictionRequest;

  test('concerns a drain as long as its pod exists on one of the nodes', () => {
    const { filter, existing } = decidedFilter();
    expect(filter.evictionDelayMs(change('Updated', requestOf(first)))).toBe(250);
    expect(filter.evictionDelayMs(change('Updated', requestOf(elsewhere)))).toBeUndefined();
    expect(filter.evictionDelayMs(change('Updated', requestOf(first, 'other')))).toBeUndefined();
    existing.delete('shop/first');
    expect(filter.evictionDelayMs(change('Updated', requestOf(first)))).toBeUndefined();
  });

  test('of a recreated pod concerns no drain', () => {
    const { filter, existing } = decidedFilter();
    existing.set('shop/first', { ...first, metadata: { ...first.metadata, uid: 'another' } } as Pod);
    expect(filter.evictionDelayMs(change('Updated', requestOf(first)))).toBeUndefined();
  });

  test('is followed at once when it is deleted, because its pod may need another one', () => {
    const { filter } = decidedFilter();
    expect(filter.evictionDelayMs(change('Deleted', requestOf(first)))).toBe(40);
  });

  test('of a drain that only waits is followed within two seconds', () => {
    const { filter } = decidedFilter({ pace: 'Waiting' });
    expect(filter.evictionDelayMs(change('Updated', requestOf(first)))).toBe(2_000);
  });
});

describe('another maintenance', () => {
  const maintenance = (node: string, generation: number) =>
    ({
      metadata: { name: 'other', generation },
      status: { nodeStatuses: [{ nodeRef: { name: node } }] },
    }) as NodeMaintenance;

  test.each([
    { what: 'its status on the same node', changed: change('Updated', maintenance('a', 1)), concerns: true },
    { what: 'its status on other nodes', changed: change('Updated', maintenance('b', 1)), concerns: false },
    {
      what: 'its status, from which the node has gone',
      changed: change('Updated', maintenance('b', 1), maintenance('a', 1)),
      concerns: true,
    },
    {
      what: 'its spec',
      changed: change('Updated', maintenance('b', 2), maintenance('b', 1)),
      concerns: true,
    },
    { what: 'its deletion', changed: change('Deleted', maintenance('b', 1)), concerns: true },
  ])('concerns a drain: $what, $concerns', ({ changed, concerns }) => {
    expect(decidedFilter().filter.isShared(changed)).toBe(concerns);
  });
});
