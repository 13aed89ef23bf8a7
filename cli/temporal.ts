/** Milliseconds. */
export const answersWithin = 5_000;

/** Connects to the Temporal that the usual settings name; its histories keep `identity`. Rejects with an Error of one line. */
export async function connectTemporal({ identity }: { identity?: string } = {}) {
  // It is large, and most verbs do without it.
  const [{ Connection, Client, ...errors }, { temporalSettings }, { explained }] = await Promise.all([
    import('@temporalio/client'),
    import('../temporal-config/connection.ts'),
    import('../temporal-config/reach.ts'),
  ]);
  try {
    const settings = temporalSettings();
    const { connectionOptions, namespace, address } = settings;
    const connection = await explained(settings, () =>
      Connection.connect({ ...connectionOptions, connectTimeout: answersWithin }),
    );
    const client = new Client({ connection, namespace, ...(identity !== undefined && { identity }) });
    return { connection, client, namespace, address, errors };
  } catch (error) {
    throw new Error(`Temporal: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

export type Temporal = Awaited<ReturnType<typeof connectTemporal>>;
