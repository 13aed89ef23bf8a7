import type { SchemaNode } from '../../api/crd.ts';

/**
 * Writes TypeScript types for the schemas of the CRDs: plain interfaces with the descriptions as comments, so that the package with the types has no
 * dependencies. Fields with a default are optional, as for a user who writes an object. Supports the keywords that structural schemas here use, and
 * throws an Error for another form.
 */

/** The beginning of the declarations: what every object has. */
const objectTypes = `/** An owner of an object. */
export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean | undefined;
  blockOwnerDeletion?: boolean | undefined;
}

/** The metadata of an object in its JSON form: times are RFC 3339. */
export interface ObjectMeta {
  name: string;
  namespace?: string | undefined;
  generateName?: string | undefined;
  uid?: string | undefined;
  resourceVersion?: string | undefined;
  generation?: number | undefined;
  creationTimestamp?: string | undefined;
  deletionTimestamp?: string | undefined;
  deletionGracePeriodSeconds?: number | undefined;
  labels?: Record<string, string> | undefined;
  annotations?: Record<string, string> | undefined;
  finalizers?: string[] | undefined;
  ownerReferences?: OwnerReference[] | undefined;
}

export interface KubeObject {
  apiVersion?: string | undefined;
  kind?: string | undefined;
  metadata: ObjectMeta;
}

/** A condition of an object. */
export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  observedGeneration?: number | undefined;
  lastTransitionTime: string;
  reason: string;
  message: string;
}
`;

export interface ServedKind {
  readonly kind: string;
  readonly apiVersion: string;
  readonly schema: SchemaNode;
}

/** Returns the declarations of all kinds, and of the constants. */
export function apiDeclarations(
  kinds: readonly ServedKind[],
  constants: Readonly<Record<string, unknown>>,
): string {
  const declared = Object.entries(constants).map(
    ([name, value]) =>
      `export declare const ${name}: ${typeof value === 'string' ? JSON.stringify(value) : `Readonly<${JSON.stringify(value)}>`};\n`,
  );
  return [objectTypes, ...kinds.map(kindDeclarations), declared.join('')].join('\n');
}

function kindDeclarations({ kind, apiVersion, schema }: ServedKind): string {
  const { spec, status } = propertiesOf(schema);
  const parts = [`${kind}Spec`, `${kind}Status`].map((name, index) => {
    const part = (index === 0 ? spec : status) ?? {};
    return `${comment(part, '')}export interface ${name} ${objectType(part, '')}\n`;
  });
  const object = `${comment(schema, '')}export interface ${kind} extends KubeObject {
  apiVersion?: '${apiVersion}' | undefined;
  kind?: '${kind}' | undefined;
  spec: ${kind}Spec;
  status?: ${kind}Status | undefined;
}
`;
  return [...parts, object].join('\n');
}

function propertiesOf({ properties = {} }: SchemaNode): Record<string, SchemaNode> {
  return properties as Record<string, SchemaNode>;
}

function comment({ description }: SchemaNode, indent: string): string {
  if (typeof description !== 'string') return '';
  const [first = '', ...more] = description.replaceAll('*/', '* /').split('\n');
  if (more.length === 0) return `${indent}/** ${first} */\n`;
  const lines = [first, ...more].map((line) => `${indent} * ${line}`.trimEnd());
  return `${indent}/**\n${lines.join('\n')}\n${indent} */\n`;
}

function objectType(node: SchemaNode, indent: string): string {
  const required = new Set((node['required'] ?? []) as string[]);
  const inner = `${indent}  `;
  const fields = Object.entries(propertiesOf(node)).map(([name, property]) => {
    const isRequired = required.has(name);
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    const type = `${typeOf(property, inner)}${isRequired ? '' : ' | undefined'}`;
    return `${comment(property, inner)}${inner}${key}${isRequired ? '' : '?'}: ${type};\n`;
  });
  return `{\n${fields.join('')}${indent}}`;
}

function typeOf(node: SchemaNode, indent: string): string {
  if (node['enum'] !== undefined)
    return (node['enum'] as unknown[]).map((value) => JSON.stringify(value)).join(' | ');
  if (node['x-kubernetes-int-or-string'] === true) return 'number | string';
  switch (node['type']) {
    case 'string':
      return 'string';
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
      return 'boolean';
    case 'array':
      return arrayType(typeOf(node['items'] as SchemaNode, indent));
    case 'object':
      return mapOrObjectType(node, indent);
    default:
      throw new Error(`scripts/packages/apiTypes.ts has no type for the schema ${JSON.stringify(node)}`);
  }
}

function arrayType(item: string): string {
  return item.includes(' | ') && !item.startsWith('{') ? `(${item})[]` : `${item}[]`;
}

function mapOrObjectType(node: SchemaNode, indent: string): string {
  if (node['properties'] !== undefined) return objectType(node, indent);
  const values = node['additionalProperties'];
  if (typeof values === 'object' && values !== null)
    return `Record<string, ${typeOf(values as SchemaNode, indent)}>`;
  return 'Record<string, unknown>';
}

/**
 * Returns the JSON schema of whole objects, for editors and validators outside a cluster. It rejects unknown fields, as kubectl does. The rules in CEL
 * stay as the extension that they are: other validators ignore them.
 */
export function jsonSchemaOf({ kind, apiVersion, schema }: ServedKind): SchemaNode {
  const { properties, required, ...rest } = withoutUnknownFields(schema);
  const { spec, status } = properties as Record<string, SchemaNode>;
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...rest,
    required: ['apiVersion', 'kind', 'metadata', ...(required as string[])],
    properties: {
      apiVersion: { type: 'string', const: apiVersion },
      kind: { type: 'string', const: kind },
      metadata: { type: 'object' },
      spec,
      status,
    },
  };
}

function withoutUnknownFields<Value>(node: Value): Value {
  if (Array.isArray(node)) return node.map(withoutUnknownFields) as Value;
  if (typeof node !== 'object' || node === null) return node;
  const copy = Object.fromEntries(
    Object.entries(node).map(([key, value]) => [key, withoutUnknownFields(value)]),
  );
  const isObject = copy['type'] === 'object' && copy['properties'] !== undefined;
  return (isObject ? { ...copy, additionalProperties: false } : copy) as Value;
}

/** Returns the path of a schema below schemas/, as kubeconform expects it. */
export function schemaPath({ kind, apiVersion }: ServedKind): string {
  const [group = '', version = ''] = apiVersion.split('/');
  return `${group}/${kind.toLowerCase()}_${version}.json`;
}
