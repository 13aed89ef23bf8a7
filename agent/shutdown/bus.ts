import dbus from '@homebridge/dbus-native';
import { Deadline, abortable } from '../../kube/abort.ts';

/** The parts of the library that this file uses, as its own types lack them. */
interface Library {
  createClient(options: { busAddress: string; authMethods: string[] }): Client;
}

interface Client {
  connection: {
    stream: NodeJS.EventEmitter & { destroy(): void };
    on(event: 'message', listener: (message: Message) => void): void;
    on(event: 'error' | 'end', listener: (error?: unknown) => void): void;
  };
  invoke(message: object, callback: (error: Failure | null, ...values: unknown[]) => void): void;
  sendSignal(path: string, iface: string, member: string, signature: string, args: unknown[]): void;
}

interface Message {
  type: number;
  interface?: string;
  member?: string;
}

interface Failure {
  name?: string;
  message?: unknown;
}

export interface MethodCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly unknown[];
}

/** A bus that answers, answers at once. */
const answerMs = 5_000;
const signalType = 4;
/** Flag of RequestName: do not wait in its queue for a name that another process owns. */
const doNotQueue = 4;
const primaryOwner = 1;
const alreadyOwner = 4;

const daemon = {
  destination: 'org.freedesktop.DBus',
  path: '/org/freedesktop/DBus',
  interface: 'org.freedesktop.DBus',
} as const;

/** A connection to a D-Bus message bus. It ends with the bus, and cannot be used again then. */
export class Bus {
  readonly #client: Client;
  readonly #closed = new AbortController();

  private constructor(client: Client) {
    this.#client = client;
    const { connection } = client;
    connection.on('error', (error) => this.#end(error));
    connection.on('end', () => this.#end(undefined));
    connection.stream.on('close', () => this.#end(undefined));
  }

  /** Rejects if nothing answers at the address, for example `unix:path=/run/dbus/system_bus_socket`. */
  static async connect(busAddress: string): Promise<Bus> {
    const library = dbus as unknown as Library;
    const bus = new Bus(library.createClient({ busAddress, authMethods: ['EXTERNAL'] }));
    try {
      await bus.call({ ...daemon, member: 'GetId' });
      return bus;
    } catch (error) {
      bus.close();
      throw error;
    }
  }

  /** Aborts when the connection ends. */
  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** Resolves with the values of the reply. */
  async call(message: MethodCall): Promise<unknown[]> {
    this.closed.throwIfAborted();
    const name = `${message.interface}.${message.member}`;
    const deadline = new Deadline(answerMs, `${name}: no answer for ${answerMs / 1000} s`, this.closed);
    const reply = Promise.withResolvers<unknown[]>();
    this.#client.invoke({ ...message }, (error, ...values) => {
      if (error === null) reply.resolve(values);
      else reply.reject(new Error(`${name}: ${error.name ?? 'Error'}: ${String(error.message)}`));
    });
    try {
      return await abortable(reply.promise, deadline.signal);
    } finally {
      deadline.dispose();
    }
  }

  /** Resolves with the value of a property. */
  async property({ member, ...of }: Omit<MethodCall, 'signature' | 'body'>): Promise<unknown> {
    const body = [of.interface, member];
    const get = { ...of, interface: 'org.freedesktop.DBus.Properties', member: 'Get', signature: 'ss', body };
    const [variant] = await this.call(get);
    // A variant is a pair: its signature, and a list of one value.
    return Array.isArray(variant) && Array.isArray(variant[1]) ? variant[1][0] : undefined;
  }

  /** Receives the signals that match the rule. Anyone on the host may send a signal to this connection: read what it is about. */
  async listen(rule: string, onSignal: () => void): Promise<void> {
    const member = /member='(?<member>[^']*)'/.exec(rule)?.groups?.['member'];
    this.#client.connection.on('message', (message) => {
      if (message.type === signalType && message.member === member) onSignal();
    });
    await this.call({ ...daemon, member: 'AddMatch', signature: 's', body: [rule] });
  }

  /** Resolves with whether this connection owns the name now. */
  async own(name: string): Promise<boolean> {
    const body = [name, doNotQueue];
    const [result] = await this.call({ ...daemon, member: 'RequestName', signature: 'su', body });
    return result === primaryOwner || result === alreadyOwner;
  }

  /** Sends a signal to all that listen. Resolves when the bus has received it. */
  async broadcast({ path, member, signature = '', body = [], ...of }: Omit<MethodCall, 'destination'>) {
    this.closed.throwIfAborted();
    this.#client.sendSignal(path, of.interface, member, signature, [...body]);
    await this.call({ ...daemon, member: 'GetId' });
  }

  close(): void {
    this.#client.connection.stream.destroy();
    this.#end(undefined);
  }

  #end(cause: unknown): void {
    if (!this.closed.aborted) this.#closed.abort(new Error('the connection to D-Bus ended', { cause }));
  }
}
