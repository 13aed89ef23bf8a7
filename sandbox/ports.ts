import { once } from 'node:events';
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { PortConflictError, SandboxError } from './errors.ts';

/** The ports of a sandbox, with the command's option for each. */
export const portOptions = {
  apiserver: '--apiserver-port',
  etcd: '--etcd-port',
  etcdPeer: '--etcd-peer-port',
  temporal: '--temporal-port',
  temporalUi: '--temporal-ui-port',
  temporalMetrics: '--temporal-metrics-port',
} as const;
export type PortName = keyof typeof portOptions;
export type Ports = Record<PortName, number>;

export const loopback = '127.0.0.1';

/** Where the servers of a sandbox listen. etcd always listens on 127.0.0.1. */
export interface Addresses {
  /** 127.0.0.1, or the address of the bridge to which real nodes are connected. */
  host: string;
  ports: Ports;
}

/**
 * Chooses a free port of 127.0.0.1 for each name. A port in `requested` is used or refused with SandboxError; one in
 * `preferred` is used if it is free, so that a restarted sandbox keeps its addresses.
 */
export async function choosePorts(requested: Partial<Ports>, preferred: Partial<Ports> = {}): Promise<Ports> {
  const held: Server[] = [];
  try {
    const chosen: Partial<Ports> = {};
    for (const name of Object.keys(portOptions) as PortName[]) {
      chosen[name] = requested[name]
        ? await holdRequested(name, requested[name], held)
        : await holdAny(preferred[name], held);
    }
    return chosen as Ports;
  } finally {
    await Promise.all(held.map(close));
  }
}

/**
 * Calls `start` again when a server finds that another process took its port after it had been chosen; `start` chooses other
 * ports then. Throws SandboxError for a requested port, and after the last attempt.
 */
export async function retryOnPortConflict<T>(
  requested: Partial<Ports>,
  report: (line: string) => void,
  start: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof PortConflictError)) throw error;
      const name = (Object.keys(requested) as PortName[]).find((key) => requested[key] === error.port);
      if (name !== undefined) throw takenPort(name, error.port);
      if (attempt === maxAttempts) throw error;
      report(`Another process has taken port ${error.port}: starting again with other ports`);
    }
  }
}

const maxAttempts = 3;

async function holdRequested(name: PortName, port: number, held: Server[]): Promise<number> {
  const server = await tryListen(port);
  if (!server) throw takenPort(name, port);
  held.push(server);
  return port;
}

function takenPort(name: PortName, port: number): SandboxError {
  const remedy = 'name another, or leave the option out to get a free one';
  return new SandboxError(`Port ${port} (${portOptions[name]}) is taken: ${remedy}`);
}

async function holdAny(preferred: number | undefined, held: Server[]): Promise<number> {
  for (let attempt = 0; attempt < 1000; attempt++) {
    const port =
      attempt === 0 && preferred ? preferred : lowest + Math.floor(Math.random() * (highest - lowest));
    const server = await tryListen(port);
    if (!server) continue;
    held.push(server);
    return port;
  }
  throw new SandboxError(`No free port between ${lowest} and ${highest} on 127.0.0.1`);
}

// Below the range from which Linux assigns ports to outgoing connections (32768 and up), so that the port of a stopped server
// is still free when it starts again.
const lowest = 20_000;
const highest = 32_000;

async function tryListen(port: number): Promise<Server | undefined> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(undefined));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => resolve(server));
  });
}

async function close(server: Server): Promise<void> {
  await new Promise((resolve) => server.close(resolve));
}

/** Reports whether any process accepts connections to the port, at 127.0.0.1 or at the address of the sandbox. */
export async function acceptsConnections({ host }: Pick<Addresses, 'host'>, port: number): Promise<boolean> {
  return (await connects(loopback, port)) || (host !== loopback && (await connects(host, port)));
}

async function connects(host: string, port: number): Promise<boolean> {
  const socket = connect({ host, port });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

/** Returns true when the process listens on the port. The kernel takes long to list the sockets of a busy machine. */
export function listensOn(pid: number, port: number): boolean {
  const sockets = listeningSockets(port);
  return sockets.size > 0 && openFiles(pid).some((target) => sockets.has(target));
}

/** Returns the listening sockets of a port, as links in /proc/PID/fd name them. */
function listeningSockets(port: number): Set<string> {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const rows = ['tcp', 'tcp6'].flatMap((file) => readTable(`/proc/net/${file}`));
  // The columns are: sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode (proc(5)); state 0A is LISTEN.
  const listening = rows.filter(([, local, , state]) => local?.endsWith(suffix) && state === '0A');
  return new Set(listening.map((columns) => `socket:[${columns[9]}]`));
}

function readTable(file: string): string[][] {
  try {
    const lines = readFileSync(file, 'utf8').trim().split('\n');
    return lines.map((line) => line.trim().split(/\s+/));
  } catch {
    return []; // The kernel has no IPv6.
  }
}

function openFiles(pid: number): string[] {
  try {
    const dir = `/proc/${pid}/fd`;
    return readdirSync(dir).flatMap((fd) => linkTarget(`${dir}/${fd}`) ?? []);
  } catch {
    return []; // The process has ended.
  }
}

function linkTarget(file: string): string | undefined {
  try {
    return readlinkSync(file);
  } catch {
    return undefined; // The file has been closed.
  }
}
