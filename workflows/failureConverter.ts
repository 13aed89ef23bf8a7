import { DefaultFailureConverter } from '@temporalio/common';

/** Workflows have no settings, and their bundle is built in advance: `withEncodedFailures` of worker/bundle.ts defines this before it is loaded. */
declare const encodesFailures: boolean | undefined;

/** Makes payloads of messages and stack traces if the worker encrypts payloads. */
export const failureConverter = new DefaultFailureConverter({
  encodeCommonAttributes: typeof encodesFailures === 'boolean' && encodesFailures,
});
