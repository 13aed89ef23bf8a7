import { defaultPayloadConverter, type PayloadConverter } from '@temporalio/common';

/**
 * Any client may send a payload that cannot be decoded, such as text that is not JSON. The default converter throws in the middle of a workflow
 * task, which is retried for ever: the run would never act again. This one returns an object instead, which no guard accepts.
 */
export const payloadConverter: PayloadConverter = {
  toPayload: (value, context, hint) => defaultPayloadConverter.toPayload(value, context, hint),
  fromPayload: (payload, context, hint) => {
    try {
      return defaultPayloadConverter.fromPayload(payload, context, hint);
    } catch (error) {
      return { undecodable: error instanceof Error ? error.message : String(error) } as never;
    }
  },
};
