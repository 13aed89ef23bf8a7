import { defaultPayloadConverter, type Payload, RawValue } from '@temporalio/common';

/** Metadata by which the codec recognizes a payload that stays readable. It is not sent. */
const mark = 'readable';

/**
 * Marks the entries of a memo, which are not encrypted: clients without keys recognize by them whose a run or Schedule is, in lists that contain
 * runs of several clusters. So a memo must not contain what others wrote, such as reasons.
 */
export function readableMemo(memo: Readonly<Record<string, string>>): Record<string, RawValue> {
  return Object.fromEntries(Object.entries(memo).map(([name, value]) => [name, readable(value)]));
}

function readable(value: string): RawValue {
  const { metadata, ...payload } = defaultPayloadConverter.toPayload(value);
  return RawValue.fromPayload({ ...payload, metadata: { ...metadata, [mark]: new Uint8Array() } });
}

/** Removes the mark. Returns the same payload if there is none. */
export function withoutReadableMark(payload: Payload): Payload {
  if (payload.metadata?.[mark] === undefined) return payload;
  const { [mark]: _, ...metadata } = payload.metadata;
  return { ...payload, metadata };
}
