import type { ConnectionLike } from '@temporalio/client';
import { parse } from 'yaml';
import * as z from 'zod';
import { parseStrictly } from '../api/maintenanceInput.ts';
import { namespaceFile } from './namespaceFile.ts';

/** Requirements for a Temporal namespace. namespace.yaml declares them for the worker, the sandbox and `temporal-config apply`. */

/** Numbers of the types in Temporal's API (temporal.api.enums.v1.IndexedValueType). */
const attributeTypes = {
  Text: 1,
  Keyword: 2,
  Int: 3,
  Double: 4,
  Bool: 5,
  Datetime: 6,
  KeywordList: 7,
} as const;
export type AttributeType = keyof typeof attributeTypes;

const Namespace = z.strictObject({
  retention: z
    .string()
    .regex(/^[1-9][0-9]{0,4}[dh]$/, { error: 'expected days or hours, such as 30d or 72h, 24h or more' })
    .refine((text) => hoursOf(text) >= 24, { error: 'expected 24h or more' }),
  searchAttributes: z.record(
    z.string().regex(/^[A-Za-z][A-Za-z0-9_-]*$/, { error: 'expected a name such as MaintenanceNodes' }),
    z.enum(Object.keys(attributeTypes) as [AttributeType, ...AttributeType[]]),
  ),
});
export type Namespace = z.infer<typeof Namespace>;

/** Returns the requirements of the workflows of this project. Throws an Error of one line if the file is invalid. */
export function declaredNamespace(): Namespace {
  const parsed = parseNamespace(parse(namespaceFile()));
  if (!parsed.ok) throw new Error(`temporal-config/namespace.yaml: ${parsed.problems.join('; ')}`);
  return parsed.input;
}

export function parseNamespace(value: unknown): ReturnType<typeof parseStrictly<typeof Namespace>> {
  return parseStrictly(Namespace, value);
}

export function hoursOf(retention: string): number {
  return Number.parseInt(retention, 10) * (retention.endsWith('d') ? 24 : 1);
}

/** Returns the custom search attributes of a namespace by name. */
export async function knownAttributes(
  { operatorService }: ConnectionLike,
  namespace: string,
): Promise<Map<string, AttributeType | undefined>> {
  const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
  const names = new Map(Object.entries(attributeTypes).map(([name, type]) => [type as number, name]));
  return new Map(
    Object.entries(customAttributes).map(([name, type]) => [
      name,
      names.get(type) as AttributeType | undefined,
    ]),
  );
}

export async function addAttributes(
  { operatorService }: ConnectionLike,
  namespace: string,
  attributes: Readonly<Record<string, AttributeType>>,
): Promise<void> {
  const searchAttributes = Object.fromEntries(
    Object.entries(attributes).map(([name, type]) => [name, attributeTypes[type]]),
  );
  await operatorService.addSearchAttributes({ namespace, searchAttributes });
}

/** Returns the command with which an administrator creates search attributes. */
export function createAttributesCommand(
  namespace: string,
  attributes: Readonly<Record<string, AttributeType>>,
): string {
  const pairs = Object.entries(attributes).map(([name, type]) => `--name ${name} --type ${type}`);
  return `temporal operator search-attribute create --namespace ${namespace} ${pairs.join(' ')}`;
}
