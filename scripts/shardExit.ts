/**
 * Loaded before Jest, and so in each of its shards (`node --import`): a shard that does not end after its last test says what keeps it, and ends.
 * What it prints begins with {@link stillRunning}.
 */

/** Long enough for connections that a server keeps alive for five seconds. */
const endsWithinMs = 10_000;

export const stillRunning = 'Still running after the last test of a shard:';

// Node 24.9 can loop for ever when it frees what is left of connections that were cut (`Environment::CleanupHandles`); an explicit exit frees nothing.
process.once('beforeExit', () => process.once('exit', () => process.exit()));

// A shard of Jest stops listening for messages when it is told to end.
if (process.send !== undefined)
  process.on('removeListener', (event) => {
    if (event === 'message' && process.listenerCount('message') === 0)
      setTimeout(reportAndExit, endsWithinMs).unref();
  });

function reportAndExit(): never {
  console.error(`${stillRunning} ${process.getActiveResourcesInfo().join(', ')}`);
  process.exit();
}
