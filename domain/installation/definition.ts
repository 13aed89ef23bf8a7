/** The part of a CustomResourceDefinition that decides what the apiserver stores. */
export interface Definition {
  readonly spec: {
    readonly names?: { readonly kind?: string };
    readonly versions?: readonly {
      readonly name: string;
      readonly served: boolean;
      readonly schema?: { readonly openAPIV3Schema?: Schema };
    }[];
  };
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

/** An OpenAPI v3 schema. */
export interface Schema {
  readonly [keyword: string]: unknown;
}

/** Returns why this process cannot use the kind at all; undefined if it can. */
export function definitionProblem(installed: Definition, wanted: Definition): string | undefined {
  const isEstablished = installed.status?.conditions?.some(
    ({ type, status }) => type === 'Established' && status === 'True',
  );
  if (isEstablished !== true) return 'is not established yet';
  const served = new Set(installed.spec.versions?.flatMap(({ name, served: is }) => (is ? [name] : [])));
  const missing = (wanted.spec.versions ?? []).map(({ name }) => name).filter((name) => !served.has(name));
  return missing.length === 0 ? undefined : `does not serve version ${missing.join(', ')}`;
}

/**
 * Returns the fields of the wanted schemas that the installed ones do not have, such as `NodeMaintenance.status.nodeStatuses[].nodeName`:
 * the apiserver drops them without an error. Also returns the values of enumerations that it would reject.
 */
export function unknownFields(installed: Definition, wanted: Definition): string[] {
  const kind = wanted.spec.names?.kind ?? '';
  return (wanted.spec.versions ?? []).flatMap(({ name, schema }) => {
    const other = installed.spec.versions?.find((version) => version.name === name);
    return fieldsMissing(other?.schema?.openAPIV3Schema ?? {}, schema?.openAPIV3Schema ?? {}, kind);
  });
}

function fieldsMissing(installed: Schema, wanted: Schema, path: string): string[] {
  if (installed['x-kubernetes-preserve-unknown-fields'] === true) return [];
  const properties = Object.entries(schemasIn(wanted['properties']));
  return [
    ...properties.flatMap(([field, schema]) => {
      const other = schemasIn(installed['properties'])[field] ?? schemaIn(installed['additionalProperties']);
      const inner = `${path}.${field}`;
      return other === undefined ? [inner] : fieldsMissing(other, schema, inner);
    }),
    ...inside(installed['items'], wanted['items'], `${path}[]`),
    ...inside(installed['additionalProperties'], wanted['additionalProperties'], `${path}.*`),
    ...valuesMissing(installed['enum'], wanted['enum'], path),
  ];
}

function inside(installed: unknown, wanted: unknown, path: string): string[] {
  const schema = schemaIn(wanted);
  if (schema === undefined || installed === true) return [];
  const other = schemaIn(installed);
  return other === undefined ? [path] : fieldsMissing(other, schema, path);
}

function valuesMissing(installed: unknown, wanted: unknown, path: string): string[] {
  if (!Array.isArray(installed) || !Array.isArray(wanted)) return [];
  return wanted.filter((value) => !installed.includes(value)).map((value) => `${path} = ${String(value)}`);
}

function schemaIn(value: unknown): Schema | undefined {
  return typeof value === 'object' && value !== null ? (value as Schema) : undefined;
}

function schemasIn(value: unknown): Readonly<Record<string, Schema>> {
  return (schemaIn(value) ?? {}) as Readonly<Record<string, Schema>>;
}
