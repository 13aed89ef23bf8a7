import { type DataConverter, defaultPayloadConverter, type Payload } from '@temporalio/common';
import type { History } from '@temporalio/common/lib/proto-utils.js';
import { isRecord } from '../../domain/common/untrusted.ts';
import { errorMessage } from '../../kube/errors.ts';

/**
 * Decodes the payloads of a history, and the messages of its failures, in place. Returns what could not be decoded and why, each reason once:
 * the rest of the history is still worth reading.
 */
export async function decodeHistory(
  history: History,
  { payloadCodecs = [] }: DataConverter,
): Promise<string[]> {
  const problems = new Set<string>();
  const decode = async (payload: Payload): Promise<Payload> => {
    try {
      let payloads = [payload];
      for (const codec of payloadCodecs.toReversed()) payloads = await codec.decode(payloads);
      return payloads[0] ?? payload;
    } catch (error) {
      problems.add(errorMessage(error));
      return payload;
    }
  };
  await decodeFields(history, decode);
  return [...problems];
}

async function decodeFields(value: unknown, decode: (payload: Payload) => Promise<Payload>): Promise<void> {
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return;
  const fields = value as Record<string, unknown>;
  for (const [name, field] of Object.entries(fields)) {
    if (isPayload(field)) fields[name] = await decode(field);
    else await decodeFields(field, decode);
  }
  restoreMessage(fields);
}

function isPayload(value: unknown): value is Payload {
  return (
    isRecord(value) && isRecord(value['metadata']) && value['metadata']['encoding'] instanceof Uint8Array
  );
}

/** A failure contains its message as a payload if the worker encrypts payloads. */
function restoreMessage(failure: Record<string, unknown>): void {
  const { encodedAttributes } = failure;
  if (!isPayload(encodedAttributes)) return;
  try {
    const attributes = defaultPayloadConverter.fromPayload(encodedAttributes);
    if (isRecord(attributes) && typeof attributes['message'] === 'string')
      failure['message'] = attributes['message'];
  } catch {
    // It could not be decoded, which was reported.
  }
}
