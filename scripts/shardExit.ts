/**
 * Loaded before Jest, and so in each of its shards (`node --import`): a shard that does not end after its last test says what keeps it, before Jest kills
 * it.
 */

/** Long enough for connections that a server keeps alive for five seconds. */
const endsWithinMs = 10_000;

// Node 24.9 can loop for ever when it frees what is left of connections that were cut (`Environment::CleanupHandles`); an explicit exit frees nothing.
process.once('beforeExit', () => process.once('exit', () => process.exit()));

// A shard of Jest stops listening for messages when it ends.
if (process.send !== undefined)
  process.on('removeListener', (event) => {
    if (event === 'message' && process.listenerCount('message') === 0)
      setTimeout(reportResources, endsWithinMs).unref();
  });

function reportResources(): void {
  console.error(`Still open after the last test of a shard: ${process.getActiveResourcesInfo().join(', ')}`);
}
