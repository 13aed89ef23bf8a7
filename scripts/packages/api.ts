import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { customResourceDefinitions, type SchemaNode } from '../../api/crd.ts';
import * as api from '../../api/index.ts';
import { apiDeclarations, jsonSchemaOf, schemaPath, type ServedKind } from './apiTypes.ts';

/** Writes the package of the API: constants, declarations, and a JSON schema of each kind. */
export function writeApi(dist: string): void {
  const constants = Object.fromEntries(Object.entries(api));
  const code = Object.entries(constants).map(
    ([name, value]) => `export const ${name} = ${JSON.stringify(value)};\n`,
  );
  write(join(dist, 'index.js'), code.join(''));
  const kinds = servedKinds();
  write(join(dist, 'index.d.ts'), apiDeclarations(kinds, constants));
  for (const kind of kinds)
    write(join(dist, 'schemas', schemaPath(kind)), `${JSON.stringify(jsonSchemaOf(kind), null, 2)}\n`);
}

function servedKinds(): ServedKind[] {
  return customResourceDefinitions().flatMap(({ spec }) => {
    const { group, names, versions } = spec as unknown as {
      group: string;
      names: { kind: string };
      versions: { name: string; schema: { openAPIV3Schema: SchemaNode } }[];
    };
    return versions.map(({ name, schema }) => ({
      kind: names.kind,
      apiVersion: `${group}/${name}`,
      schema: schema.openAPIV3Schema,
    }));
  });
}

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}
