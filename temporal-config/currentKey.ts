import type { ScheduleDescription } from '@temporalio/client';
import { type DataConverter, defaultPayloadConverter } from '@temporalio/common';
import { keyIdOf } from './encryptionCodec.ts';

/**
 * Returns lines for a Schedule whose input was written with another key than payloads are now, like those of `difference`. A Schedule is kept
 * longer than any history, so it is written again before its key is removed.
 */
export async function keyDifference(
  { raw }: Pick<ScheduleDescription, 'raw'>,
  converter: Pick<DataConverter, 'payloadCodecs'>,
): Promise<string[]> {
  const [input = {}] = raw.schedule?.action?.startWorkflow?.input?.payloads ?? [];
  const [before, after] = [keyIdOf(input), await currentKeyId(converter)];
  if (before === after) return [];
  return [`- key: ${before ?? 'none'}`, `+ key: ${after ?? 'none'}`];
}

async function currentKeyId({
  payloadCodecs = [],
}: Pick<DataConverter, 'payloadCodecs'>): Promise<string | undefined> {
  let payloads = [defaultPayloadConverter.toPayload('')];
  for (const codec of payloadCodecs) payloads = await codec.encode(payloads);
  return keyIdOf(payloads[0] ?? {});
}
