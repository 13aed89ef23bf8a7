import { oneLine } from '../../domain/common/text.ts';
import { isRecord } from '../../domain/common/untrusted.ts';

/** A payload in the JSON of protobuf, with `bytes` as base64. Other fields, such as references to external storage, are returned as they are. */
export interface PayloadJson {
  metadata?: Record<string, string>;
  data?: string;
  [other: string]: unknown;
}

/** More than Temporal UI asks for: the payloads of one page of a history. */
const maxPayloads = 50_000;
const maxProblemLength = 300;

/**
 * Parses the body of a request: `{"payloads": [{"metadata": {...}, "data": ...}]}`. Anyone who may send requests writes it, so the first problem ends the
 * work, and the problem is one line of bounded length.
 */
export function parsePayloads(body: string): { payloads: PayloadJson[] } | { problem: string } {
  const json = parseJson(body);
  if (!isRecord(json)) return { problem: 'expected a JSON object' };
  const { payloads = [] } = json;
  if (!Array.isArray(payloads)) return { problem: 'payloads: expected a list' };
  if (payloads.length > maxPayloads) return { problem: `payloads: expected at most ${maxPayloads}` };
  for (const [index, payload] of payloads.entries()) {
    const problem = problemOf(payload);
    if (problem !== undefined) return { problem: oneLine(`payloads.${index}${problem}`, maxProblemLength) };
  }
  return { payloads: payloads as PayloadJson[] };
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** Returns the first problem of a payload, after its path. */
function problemOf(payload: unknown): string | undefined {
  if (!isRecord(payload)) return ': expected an object';
  const { metadata = {}, data = '' } = payload;
  if (!isRecord(metadata)) return '.metadata: expected an object';
  for (const [name, value] of Object.entries(metadata))
    if (!isBase64(value)) return `.metadata.${name}: expected base64`;
  return isBase64(data) ? undefined : '.data: expected base64';
}

/** Readers of the JSON of protobuf accept both alphabets, with and without padding. */
function isBase64(value: unknown): value is string {
  return typeof value === 'string' && /^[A-Za-z0-9+/_-]*={0,2}$/.test(value);
}
