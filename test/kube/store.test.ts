import { keyOf, Store } from '../../kube/store.ts';

const thing = (name: string, uid = 'u1', resourceVersion = '1', colour = 'red') => ({
  metadata: { namespace: 'shop', name, uid, resourceVersion, labels: { colour } },
});
const storeOf = (...things: ReturnType<typeof thing>[]) => {
  const store = new Store<ReturnType<typeof thing>>({ colour: ({ metadata }) => [metadata.labels.colour] });
  store.replace(things);
  return store;
};
const kinds = (changes: readonly { type: string; key: string }[]) =>
  changes.map(({ type, key }) => `${type} ${key}`);

describe('a store', () => {
  test.each([
    { when: 'an object is added', put: thing('b'), want: ['Added shop/b'] },
    { when: 'an object is unchanged', put: thing('a'), want: [] },
    { when: 'an object changed', put: thing('a', 'u1', '2'), want: ['Updated shop/a'] },
    {
      when: 'an object of the same name has another UID',
      put: thing('a', 'u2', '2'),
      want: ['Deleted shop/a', 'Added shop/a'],
    },
  ])('reports $want when $when', ({ put, want }) => {
    expect(kinds(storeOf(thing('a')).put(put))).toEqual(want);
  });

  test('reports objects that a list no longer contains as deleted, deletions first', () => {
    const changes = storeOf(thing('a'), thing('b')).replace([thing('c'), thing('b', 'u1', '2')]);
    expect(kinds(changes)).toEqual(['Deleted shop/a', 'Added shop/c', 'Updated shop/b']);
  });

  test('reports the last state of a removed object, and nothing for an unknown one', () => {
    const last = thing('a', 'u1', '9');
    const store = storeOf(thing('a'));
    expect(store.remove('shop/a', last)).toEqual([{ type: 'Deleted', key: 'shop/a', object: last }]);
    expect(store.remove('shop/a')).toEqual([]);
  });

  test('indexes objects by their current values', () => {
    const store = storeOf(thing('a'), thing('b'));
    store.put(thing('a', 'u1', '2', 'blue'));
    expect(store.byIndex('colour', 'red').map(keyOf)).toEqual(['shop/b']);
    expect(store.byIndex('colour', 'blue').map(keyOf)).toEqual(['shop/a']);
    store.remove('shop/a');
    expect(store.byIndex('colour', 'blue')).toEqual([]);
    expect(() => store.byIndex('size', 'big')).toThrow('informer has no index "size"');
  });

  test('uses the name of a cluster-scoped object as its key', () => {
    expect(keyOf({ metadata: { name: 'n1' } })).toBe('n1');
  });
});
