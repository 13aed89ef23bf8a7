import type { KubeObject } from '../api/core.ts';

export type Change<T> =
  | { readonly type: 'Added'; readonly key: string; readonly object: T }
  | { readonly type: 'Updated'; readonly key: string; readonly object: T; readonly previous: T }
  /** `object` is the last state known. */
  | { readonly type: 'Deleted'; readonly key: string; readonly object: T };

/** Maps the name of an index to a function that returns the values under which an object is found: `{ node: (pod) => [pod.spec.nodeName] }`. */
export type Indexes<T> = Readonly<Record<string, (object: T) => readonly string[]>>;

/** Returns `namespace/name`, or `name` for a cluster-scoped object. */
export function keyOf(object: {
  readonly metadata: { readonly namespace?: string; readonly name: string };
}): string {
  const { namespace, name } = object.metadata;
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** Stores the objects of an informer by key and by index. Every write returns the resulting changes in order. Performs no I/O. */
export class Store<T extends KubeObject> {
  readonly #objects = new Map<string, T>();
  readonly #indexes: Indexes<T>;
  readonly #keysByIndex = new Map<string, Map<string, Set<string>>>();

  constructor(indexes: Indexes<T>) {
    this.#indexes = indexes;
    for (const name of Object.keys(indexes)) this.#keysByIndex.set(name, new Map());
  }

  get size(): number {
    return this.#objects.size;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  list(): T[] {
    return [...this.#objects.values()];
  }

  byIndex(index: string, value: string): T[] {
    const keysByValue = this.#keysByIndex.get(index);
    if (keysByValue === undefined)
      throw new Error(`informer has no index "${index}": declare it in its options`);
    const found: T[] = [];
    for (const key of keysByValue.get(value) ?? []) {
      const object = this.#objects.get(key);
      if (object !== undefined) found.push(object);
    }
    return found;
  }

  /** Stores the current state of an object. The same name with another UID is another object: the previous one is reported as Deleted first. */
  put(object: T): Change<T>[] {
    const key = keyOf(object);
    const previous = this.#objects.get(key);
    if (previous === undefined) return [this.#add(key, object)];
    if (previous.metadata.uid !== object.metadata.uid) return [...this.remove(key), this.#add(key, object)];
    if (previous.metadata.resourceVersion === object.metadata.resourceVersion) return [];
    this.#unindex(key, previous);
    this.#set(key, object);
    return [{ type: 'Updated', key, object, previous }];
  }

  /** Removes an object; `last` is its final state, if known. */
  remove(key: string, last?: T): Change<T>[] {
    const previous = this.#objects.get(key);
    if (previous === undefined) return [];
    this.#unindex(key, previous);
    this.#objects.delete(key);
    return [{ type: 'Deleted', key, object: last ?? previous }];
  }

  /** Replaces the whole content: objects that are not in `objects` are reported as Deleted. */
  replace(objects: readonly T[]): Change<T>[] {
    const present = new Set(objects.map(keyOf));
    const deleted = [...this.#objects.keys()].filter((key) => !present.has(key));
    return [...deleted.flatMap((key) => this.remove(key)), ...objects.flatMap((object) => this.put(object))];
  }

  #add(key: string, object: T): Change<T> {
    this.#set(key, object);
    return { type: 'Added', key, object };
  }

  #set(key: string, object: T): void {
    this.#objects.set(key, object);
    for (const [keysByValue, value] of this.#indexEntries(object)) {
      const keys = keysByValue.get(value);
      if (keys === undefined) keysByValue.set(value, new Set([key]));
      else keys.add(key);
    }
  }

  #unindex(key: string, object: T): void {
    for (const [keysByValue, value] of this.#indexEntries(object)) {
      const keys = keysByValue.get(value);
      keys?.delete(key);
      if (keys?.size === 0) keysByValue.delete(value);
    }
  }

  #indexEntries(object: T): [Map<string, Set<string>>, string][] {
    return [...this.#keysByIndex].flatMap(([name, keysByValue]) =>
      (this.#indexes[name]?.(object) ?? []).map((value): [Map<string, Set<string>>, string] => [
        keysByValue,
        value,
      ]),
    );
  }
}
