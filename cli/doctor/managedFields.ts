import type { KubeObject } from '../../api/core.ts';

/** The part of a managedFields entry that is read. */
interface ManagedFields {
  readonly manager?: string;
  /** When the apiserver stored the last change of one of the fields. RFC 3339, whole seconds. */
  readonly time?: string;
  readonly fieldsV1?: Record<string, Record<string, unknown>>;
}

function entriesOf({ metadata }: KubeObject, group: string, field: string): ManagedFields[] {
  const { managedFields = [] } = metadata as { managedFields?: ManagedFields[] };
  return managedFields.filter(({ fieldsV1 }) => fieldsV1?.[group]?.[field] !== undefined);
}

/** Returns the field managers that own a field, such as `f:spec`, `f:unschedulable`. */
export function managersOf(object: KubeObject, group: string, field: string): string[] {
  return entriesOf(object, group, field).map(({ manager = '' }) => manager);
}

/** Returns when the apiserver stored the last change by an owner of the field; undefined if the object does not say so. */
export function storedAt(object: KubeObject, group: string, field: string): number | undefined {
  const times = entriesOf(object, group, field).map(({ time = '' }) => Date.parse(time));
  const known = times.filter((time) => !Number.isNaN(time));
  return known.length === 0 ? undefined : Math.max(...known);
}
