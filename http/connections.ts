import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

export interface Connection {
  /** IP address of the peer. */
  readonly address: string;
  /** A handler works on its request. */
  isHandled: boolean;
}

/**
 * Returns the connection to close when there are too many. Rules, so that no peer keeps another one out:
 *
 * 1. A connection whose request is being handled stays.
 * 2. Of the others, one of the address with the most connections is closed.
 * 3. Of those, the one that has waited longest since it was opened or since its last request was handled.
 *
 * `connections` is in the order of rule 3.
 */
export function connectionToClose<C extends Connection>(connections: readonly C[]): C | undefined {
  const counts = new Map<string, number>();
  const countOf = ({ address }: Connection) => counts.get(address) ?? 0;
  for (const connection of connections) counts.set(connection.address, countOf(connection) + 1);
  let chosen: C | undefined;
  for (const connection of connections)
    if (!connection.isHandled && (chosen === undefined || countOf(connection) > countOf(chosen)))
      chosen = connection;
  return chosen;
}

export interface OpenConnection extends Connection {
  readonly socket: Socket;
  /** The response to its current request, until it is sent. */
  response?: ServerResponse | undefined;
  deadline?: NodeJS.Timeout;
}

/** Closes the connection after this time, unless it is called again before. */
export function closeAfter(
  connection: OpenConnection,
  ms: number,
  onClose: () => void = () => undefined,
): void {
  clearTimeout(connection.deadline);
  connection.deadline = setTimeout(() => {
    onClose();
    connection.socket.destroy();
  }, ms).unref();
}

/** The open connections of a server. Beyond the limit each new one closes one, perhaps itself. */
export class Connections {
  readonly #limit: number;
  /** Open connections in the order of rule 3 above. */
  readonly #open = new Map<string, OpenConnection>();

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Adds a connection, and returns whether that closed one. */
  add(socket: Socket): boolean {
    const key = keyOf(socket);
    if (key === undefined) {
      // The peer has gone already.
      socket.destroy();
      return false;
    }
    const connection: OpenConnection = { address: socket.remoteAddress ?? '', socket, isHandled: false };
    this.#open.set(key, connection);
    socket.once('close', () => {
      clearTimeout(connection.deadline);
      this.#remove(key, connection);
    });
    return this.#open.size > this.#limit && this.#closeOne();
  }

  /** Returns the connection of a request: its socket is that of the connection, or the TLS socket on top of it. */
  of(socket: Socket): OpenConnection | undefined {
    const key = keyOf(socket);
    return key === undefined ? undefined : this.#open.get(key);
  }

  /** Records that a request was handled: the connection has waited less than all others. */
  handled(connection: OpenConnection): void {
    connection.isHandled = false;
    const key = keyOf(connection.socket);
    if (key === undefined || this.#open.get(key) !== connection) return;
    this.#open.delete(key);
    this.#open.set(key, connection);
  }

  #closeOne(): boolean {
    const connection = connectionToClose([...this.#open.values()]);
    if (connection === undefined) return false;
    this.#remove(keyOf(connection.socket), connection);
    connection.socket.destroy();
    return true;
  }

  #remove(key: string | undefined, connection: OpenConnection): void {
    if (key !== undefined && this.#open.get(key) === connection) this.#open.delete(key);
  }
}

function keyOf({ remoteAddress, remotePort, localAddress }: Socket): string | undefined {
  return remoteAddress === undefined ? undefined : `${remoteAddress} ${remotePort} ${localAddress}`;
}
