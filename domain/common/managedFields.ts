/** Functions that find out which client wrote which fields of an object: `metadata.managedFields`, as far as this project reads it. */

interface ManagedFields {
  manager?: string;
  /** When the apiserver stored the last change of one of the fields. RFC 3339, whole seconds. */
  time?: string;
  /** A tree of fields: `f:<name>` for a field, `k:<JSON>` for an item of a list by its keys. */
  fieldsV1?: unknown;
}

/** An object with its managed fields, which informers do not keep. */
export interface Managed {
  metadata: { managedFields?: readonly ManagedFields[] | undefined };
}

/** Reports whether the manager has set the field at this path, such as `['f:spec', 'f:unschedulable']`. */
export function isManagedBy({ metadata }: Managed, manager: string, path: readonly string[]): boolean {
  return ownedBy({ metadata }, manager).some((fields) => at(fields, path) !== undefined);
}

/** The apiserver keeps the latest ten managers of updates, and puts the fields of earlier ones under this name. */
const unknownManager = 'ancient-changes';

/** Reports whether others have set the field at this path, and the manager has not. False if the managed fields do not show it. */
export function isManagedByOthers(object: Managed, manager: string, path: readonly string[]): boolean {
  const owners = managersOf(object, [path]).map((owner) => owner.manager);
  return owners.length > 0 && !owners.includes(manager) && !owners.includes(unknownManager);
}

/**
 * Returns when the apiserver stored the last change by an owner of the field at this path, in milliseconds since the epoch; undefined if the object
 * does not say so.
 */
export function storedAt({ metadata }: Managed, path: readonly string[]): number | undefined {
  const owners = (metadata.managedFields ?? []).filter(({ fieldsV1 }) => at(fieldsV1, path) !== undefined);
  const known = owners.map(({ time = '' }) => Date.parse(time)).filter((time) => !Number.isNaN(time));
  return known.length === 0 ? undefined : Math.max(...known);
}

/** Returns the managers of one of the fields at these paths, and when the apiserver stored their last changes. */
export function managersOf(
  { metadata: { managedFields = [] } }: Managed,
  paths: readonly (readonly string[])[],
): { manager: string; timeMs: number }[] {
  const owners = managedFields.filter(({ fieldsV1 }) =>
    paths.some((path) => at(fieldsV1, path) !== undefined),
  );
  return owners.map(({ manager = '', time = '' }) => ({ manager, timeMs: Date.parse(time) || 0 }));
}

const conditionKey = /^k:\{"type":"(.+)"\}$/;

/** Returns the types of the conditions that the manager has set, sorted. */
export function conditionsManagedBy(object: Managed, manager: string): string[] {
  const types = ownedBy(object, manager).flatMap((fields) =>
    Object.keys(at(fields, ['f:status', 'f:conditions']) ?? {}).flatMap(
      (key) => conditionKey.exec(key)?.[1] ?? [],
    ),
  );
  return [...new Set(types)].toSorted();
}

function ownedBy({ metadata: { managedFields = [] } }: Managed, manager: string): unknown[] {
  return managedFields.filter((one) => one.manager === manager).map(({ fieldsV1 }) => fieldsV1);
}

function at(fields: unknown, path: readonly string[]): object | undefined {
  let current = fields;
  for (const key of path) {
    if (typeof current !== 'object' || current === null) return undefined;
    current = (current as Record<string, unknown>)[key];
  }
  return typeof current === 'object' && current !== null ? current : undefined;
}
