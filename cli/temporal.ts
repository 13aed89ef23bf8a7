export const temporalTimeoutMs = 5_000;
/** Timeout of what a command asks Temporal: a server that hangs must not hang the command. */
const answerTimeoutMs = 30_000;

interface ConnectOptions {
  /** Recorded in workflow histories. */
  readonly identity?: string;
  /** The command that cannot do without Temporal, for its error. */
  readonly command?: string;
}

/** Connects to the Temporal of the default settings. Rejects with a one-line Error that names the remedy. */
export async function connectTemporal({ identity, command }: ConnectOptions = {}) {
  const subject = command === undefined ? 'Temporal' : `${command} needs Temporal`;
  // Imported on demand because it is large and most commands do not need it.
  const [{ Connection, Client, ...errors }, { temporalSettings }, { Code, explainFailure, grpcStatusOf }] =
    await Promise.all([
      import('@temporalio/client'),
      import('../temporal-config/connection.ts'),
      import('../temporal-config/connectionErrors.ts'),
    ]);
  try {
    const settings = temporalSettings();
    const { connectionOptions, namespace, address, dataConverter } = settings;
    const connection = await explainFailure(settings, () =>
      Connection.connect({ ...connectionOptions, connectTimeout: temporalTimeoutMs }),
    );
    const options = { connection, namespace, dataConverter };
    const client = new Client({ ...options, ...(identity !== undefined && { identity }) });
    /** Makes requests that must be answered soon. Rejects with a one-line Error if Temporal has become unavailable. */
    const answered = async <T>(requests: () => Promise<T>): Promise<T> => {
      try {
        return await connection.withDeadline(Date.now() + answerTimeoutMs, requests);
      } catch (error) {
        const code = grpcStatusOf(error)?.code;
        if (code !== Code.DeadlineExceeded && code !== Code.Unavailable) throw error;
        const reason = `no response from ${address}: check that Temporal works there, and retry`;
        throw new Error(`${subject}: ${reason}`, { cause: error });
      }
    };
    return { connection, client, namespace, address, dataConverter, errors, answered };
  } catch (error) {
    throw new Error(`${subject}: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    });
  }
}

export type Temporal = Awaited<ReturnType<typeof connectTemporal>>;
