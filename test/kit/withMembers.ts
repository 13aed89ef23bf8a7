/** Returns a proxy with some members replaced: to inject what happens between two requests of the object, or to set its clock. */
export function withMembers<T extends object>(object: T, members: Partial<T>): T {
  const get = (_: T, key: string | symbol): unknown => {
    const member: unknown = Reflect.get(key in members ? members : object, key);
    return typeof member === 'function' ? member.bind(object) : member;
  };
  return new Proxy(object, { get });
}
