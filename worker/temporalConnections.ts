import { isDeepStrictEqual } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type ConnectionLike } from '@temporalio/client';
import { NativeConnection, type Worker } from '@temporalio/worker';
import { repeat } from '../controllers/repeat.ts';
import { anySignal } from '../kube/abort.ts';
import type { Log } from '../kube/log.ts';
import { type ConnectionSettings, connectionSettings } from '../temporal-config/connection.ts';
import { explainFailure } from '../temporal-config/connectionErrors.ts';

/** The kubelet updates mounted Secrets about once a minute. */
const defaultReloadMs = 5_000;
const answerTimeoutMs = 5_000;
/** The default of gRPC, two minutes, would delay the end of every long outage. */
const maxReconnectMs = 5_000;
/** Calls that have started end on the former connection. */
const closeAfterMs = 60_000;

interface ReloadOptions {
  /** Reads the settings; from the environment and the files that it names unless given. */
  read?: () => ConnectionSettings;
  /** How often they are read. */
  everyMs?: number;
}

/**
 * The connections of this process to Temporal: one of the client, one of the workers. When an API key or a certificate changes, they are
 * replaced while everything that uses them continues.
 */
export class TemporalConnections {
  /** Uses the newest connection for each call. */
  readonly client: ConnectionLike;
  readonly #workers = new Set<Worker>();
  readonly #closing = new AbortController();
  #settings: ConnectionSettings;
  #connection: Connection;
  #native: NativeConnection | undefined;

  /** Sends nothing before the first request. */
  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
    this.#connection = lazyConnection(settings);
    this.client = delegating(() => this.#connection);
  }

  /** The credentials in use. */
  get settings(): ConnectionSettings {
    return this.#settings;
  }

  /** Resolves with the connection to create workers with; pass them to `use`. Rejects while Temporal is unavailable. */
  async connectWorkers(): Promise<NativeConnection> {
    while (this.#native === undefined) {
      const settings = this.#settings;
      const native = await NativeConnection.connect(settings.connectionOptions);
      // The credentials may have been replaced during that.
      if (settings === this.#settings) this.#native = native;
      else await native.close();
    }
    return this.#native;
  }

  /** Gives the worker every later connection. */
  use(worker: Worker): Worker {
    this.#workers.add(worker);
    if (this.#native !== undefined) worker.connection = this.#native;
    return worker;
  }

  /** Reads the settings regularly, until the signal aborts, and replaces what has changed. */
  async reload(
    log: Log,
    signal: AbortSignal,
    { read = connectionSettings, everyMs = defaultReloadMs }: ReloadOptions = {},
  ): Promise<void> {
    let logged = serverOf(this.#settings);
    const pass = async () => {
      const next = read();
      const server = serverOf(next);
      if (!isDeepStrictEqual(server, logged)) this.#logServer(next, log);
      logged = server;
      if (await this.#replace(next)) log.info('Temporal credentials reloaded');
    };
    const failure = 'Temporal credentials could not be reloaded, and the former ones stay in use';
    await sleep(everyMs, undefined, { signal }).catch(() => undefined);
    await repeat(pass, { everyMs, failure, log, signal });
  }

  /** Another server needs a restart: the claim of the cluster is there. */
  #logServer(next: ConnectionSettings, log: Log): void {
    if (isDeepStrictEqual(serverOf(next), serverOf(this.#settings))) return;
    const { address, namespace, source } = next;
    log.warn('Address, namespace or headers of Temporal have changed: restart the worker to use them', {
      address,
      namespace,
      source,
    });
  }

  /** Resolves with whether a credential has changed. Rejects, and changes nothing, if Temporal does not accept the new ones. */
  async #replace({ connectionOptions: { tls, apiKey } }: ConnectionSettings): Promise<boolean> {
    const used = this.#settings.connectionOptions;
    const next = {
      ...this.#settings,
      connectionOptions: { ...used, tls, apiKey },
    } as ConnectionSettings;
    if (!isDeepStrictEqual(tls, used.tls)) await this.#reconnect(next);
    else if (apiKey !== used.apiKey) await this.#setApiKey(next);
    else return false;
    return true;
  }

  /** A certificate belongs to a connection. */
  async #reconnect(next: ConnectionSettings): Promise<void> {
    const connection = lazyConnection(next);
    const native = await open(next, connection).catch(async (error: unknown) => {
      await connection.close();
      throw error;
    });
    void this.#closeLater(this.#connection, this.#native);
    this.#settings = next;
    this.#connection = connection;
    this.#native = native;
    for (const worker of this.#workers) if (!hasEnded(worker)) worker.connection = native;
  }

  async #setApiKey(next: ConnectionSettings): Promise<void> {
    const { apiKey } = next.connectionOptions;
    if (apiKey === undefined)
      throw new Error('TEMPORAL_API_KEY: it was removed: restart the worker without it');
    await explainFailure(next, () => this.#connection.withApiKey(apiKey, () => ask(this.#connection, next)));
    // No await without a connection of workers: one that is being made would not notice the new settings.
    if (this.#native !== undefined) await this.#native.setApiKey(apiKey);
    this.#connection.setApiKey(apiKey);
    // Last: what has failed before is tried again.
    this.#settings = next;
  }

  async #closeLater(connection: Connection, native: NativeConnection | undefined): Promise<void> {
    await sleep(closeAfterMs, undefined, { signal: this.#closing.signal, ref: false }).catch(() => undefined);
    await closeBoth(connection, native);
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await closeBoth(this.#connection, this.#native);
  }
}

/** Returns the settings that a running process does not change. */
function serverOf({ address, namespace, connectionOptions: { metadata } }: ConnectionSettings): object {
  return { address, namespace, metadata };
}

function lazyConnection({ connectionOptions }: ConnectionSettings): Connection {
  const channelArgs = { 'grpc.max_reconnect_backoff_ms': maxReconnectMs };
  return Connection.lazy({ ...connectionOptions, channelArgs });
}

/** Asks Temporal with the client's connection first: its errors have codes. */
async function open(settings: ConnectionSettings, connection: Connection): Promise<NativeConnection> {
  await explainFailure(settings, () => ask(connection, settings));
  return explainFailure(settings, () => NativeConnection.connect(settings.connectionOptions));
}

/** Resolves if Temporal accepts the credentials for the namespace. */
async function ask(connection: Connection, { namespace }: ConnectionSettings): Promise<void> {
  const describe = () => connection.workflowService.describeNamespace({ namespace });
  await connection.withDeadline(Date.now() + answerTimeoutMs, describe);
}

async function closeBoth(connection: Connection, native: NativeConnection | undefined): Promise<void> {
  await connection.close();
  // A worker that was created, but never ran, or that had ended before still refers to it: the end of the process closes it.
  await native?.close().catch(() => undefined);
}

function hasEnded(worker: Worker): boolean {
  return ['DRAINED', 'STOPPED', 'FAILED'].includes(worker.getState());
}

function delegating(current: () => Connection): ConnectionLike {
  return {
    get workflowService() {
      return current().workflowService;
    },
    get operatorService() {
      return current().operatorService;
    },
    plugins: [],
    close: () => current().close(),
    ensureConnected: () => current().ensureConnected(),
    withDeadline: (deadline, call) => current().withDeadline(deadline, call),
    withMetadata: (metadata, call) => current().withMetadata(metadata, call),
    withAbortSignal: (signal, call) => withOwnSignal(current(), signal, call),
  };
}

/** Calls with a signal for this time only: the SDK leaves a listener, and with it each request, on the signal that it gets. */
async function withOwnSignal<R>(
  connection: Connection,
  signal: AbortSignal,
  call: () => Promise<R>,
): Promise<R> {
  const own = anySignal(signal);
  try {
    return await connection.withAbortSignal(own.signal, call);
  } finally {
    own.dispose();
  }
}
