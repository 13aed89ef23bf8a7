/**
 * Returns a function that computes the value of an object at most once. The object must not change afterwards, like every object of an
 * informer or a request.
 */
export function memoized<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const values = new WeakMap<Key, { value: Value }>();
  return (key) => {
    const known = values.get(key);
    if (known !== undefined) return known.value;
    const value = compute(key);
    values.set(key, { value });
    return value;
  };
}
