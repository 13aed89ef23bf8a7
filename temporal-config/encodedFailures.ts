import { DefaultFailureConverter } from '@temporalio/common';

/** Makes payloads of messages and stack traces, so that they are encrypted. The SDK loads this file by its path. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
