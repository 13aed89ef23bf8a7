/** Returns an object with some of its members replaced, for what only happens between two of its requests, or at another time. */
export function withMembers<T extends object>(object: T, members: Partial<T>): T {
  const get = (_: T, key: string | symbol): unknown => {
    const member: unknown = Reflect.get(key in members ? members : object, key);
    return typeof member === 'function' ? member.bind(object) : member;
  };
  return new Proxy(object, { get });
}
