/** Milliseconds. */
export const answersWithin = 5_000;

/** Connects to the Temporal that the usual settings name; its histories keep `identity`. Rejects with an Error of one line. */
export async function connectTemporal({ identity }: { identity?: string } = {}) {
  // It is large, and most verbs do without it.
  const [{ Connection, Client, ...errors }, { loadClientConnectConfig }] = await Promise.all([
    import('@temporalio/client'),
    import('@temporalio/envconfig'),
  ]);
  const { connectionOptions, namespace = 'default' } = loadClientConnectConfig();
  const address = connectionOptions.address ?? 'localhost:7233';
  try {
    const connection = await Connection.connect({ ...connectionOptions, connectTimeout: answersWithin });
    return {
      connection,
      client: new Client({ connection, namespace, ...(identity !== undefined && { identity }) }),
      namespace,
      address,
      errors,
    };
  } catch (error) {
    throw new Error(`Temporal at ${address} does not answer: check TEMPORAL_ADDRESS`, { cause: error });
  }
}

export type Temporal = Awaited<ReturnType<typeof connectTemporal>>;
