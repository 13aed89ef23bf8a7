/** Fails to compile where a union has a member that the code does not handle; throws if one occurs at run time all the same. */
export function assertNever(value: never): never {
  throw new Error(`unexpected ${JSON.stringify(value)}`);
}
