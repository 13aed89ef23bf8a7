import { connect, createServer, type Server } from 'node:net';
import { SandboxError } from './errors.ts';

/** The ports of a sandbox, with the command's option for each. */
export const portOptions = {
  apiserver: '--apiserver-port',
  etcd: '--etcd-port',
  etcdPeer: '--etcd-peer-port',
  temporal: '--temporal-port',
  temporalUi: '--temporal-ui-port',
} as const;
export type PortName = keyof typeof portOptions;
export type Ports = Record<PortName, number>;

/**
 * One free port of 127.0.0.1 for each name. A port in `asked` is taken or refused with SandboxError; one in
 * `preferred` is taken if it is free, so that a sandbox which comes up again keeps its addresses.
 */
export async function choosePorts(asked: Partial<Ports>, preferred: Partial<Ports> = {}): Promise<Ports> {
  const held: Server[] = [];
  try {
    const chosen: Partial<Ports> = {};
    for (const name of Object.keys(portOptions) as PortName[]) {
      chosen[name] = asked[name]
        ? await holdAsked(name, asked[name], held)
        : await holdAny(preferred[name], held);
    }
    return chosen as Ports;
  } finally {
    await Promise.all(held.map(close));
  }
}

async function holdAsked(name: PortName, port: number, held: Server[]): Promise<number> {
  const server = await tryListen(port);
  if (!server) {
    const remedy = 'name another, or leave the option out to get a free one';
    throw new SandboxError(`Port ${port} (${portOptions[name]}) is taken: ${remedy}`);
  }
  held.push(server);
  return port;
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

// Below the range from which Linux gives ports to outgoing connections (32768 and up): a stopped server finds its port
// free when it starts again.
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

/** True when something on 127.0.0.1 accepts connections on the port. */
export async function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' });
    const answer = (yes: boolean) => {
      socket.destroy();
      resolve(yes);
    };
    socket.once('connect', () => answer(true));
    socket.once('error', () => answer(false));
  });
}
