export const temporalTimeoutMs = 5_000;

/** Connects to the Temporal of the default settings; `identity` is recorded in workflow histories. Rejects with a one-line Error. */
export async function connectTemporal({ identity }: { identity?: string } = {}) {
  // Imported on demand because it is large and most commands do not need it.
  const [{ Connection, Client, ...errors }, { temporalSettings }, { explainFailure }] = await Promise.all([
    import('@temporalio/client'),
    import('../temporal-config/connection.ts'),
    import('../temporal-config/connectionErrors.ts'),
  ]);
  try {
    const settings = temporalSettings();
    const { connectionOptions, namespace, address } = settings;
    const connection = await explainFailure(settings, () =>
      Connection.connect({ ...connectionOptions, connectTimeout: temporalTimeoutMs }),
    );
    const client = new Client({ connection, namespace, ...(identity !== undefined && { identity }) });
    return { connection, client, namespace, address, errors };
  } catch (error) {
    throw new Error(`Temporal: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

export type Temporal = Awaited<ReturnType<typeof connectTemporal>>;
