/** Settings of Temporal's development server in this project: its namespace, and options that make it fast enough for draining nodes. */

/** Namespace of the sandbox's development server. */
export const defaultNamespace = 'default';

/** `temporal server start-dev --dynamic-config-value KEY=JSON`, with the reason for each. */
const dynamicConfig = {
  // start-dev has one history shard and 20 task loads a second per shard: two loads make every activity wait 97 ms.
  'history.transferProcessorMaxPollRPS': 1000,
  // The same limit for timers.
  'history.timerProcessorMaxPollRPS': 1000,
  // A worker receives the activities of its own workflow task with the response: one round trip less for each.
  'system.enableActivityEagerExecution': true,
  // Timers fire up to this much late; the default of a second turns a 1 ms sleep into 1,004 ms.
  'history.timerProcessorMaxTimeShift': '20ms',
  // Otherwise the deletion of a closed run waits until the server has saved how far its queue is, up to half a minute.
  'history.transferProcessorEnsureCloseBeforeDelete': false,
} as const;

/** `temporal server start-dev --sqlite-pragma KEY=VALUE`, with the reason for each. */
const sqlitePragmas = {
  // Readers and the writer do not block each other.
  journal_mode: 'WAL',
  // Survives a killed server, at a third of the cost of FULL; a power cut may lose the last transactions.
  synchronous: 'NORMAL',
} as const;

/** Returns `dynamicConfig` and `sqlitePragmas` as arguments of `temporal server start-dev`. */
export function tunedArguments(): string[] {
  const config = Object.entries(dynamicConfig).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  const pragmas = Object.entries(sqlitePragmas).map(([key, value]) => `${key}=${value}`);
  return [
    ...config.flatMap((setting) => ['--dynamic-config-value', setting]),
    ...pragmas.flatMap((pragma) => ['--sqlite-pragma', pragma]),
  ];
}
