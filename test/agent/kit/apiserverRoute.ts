import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** A way to the apiserver that a test can close and open. */
export interface ApiserverRoute {
  readonly url: string;
  /** Ends the connections, and refuses new ones. */
  close(): void;
  open(): void;
  dispose(): void;
}

export async function routeTo(server: string): Promise<ApiserverRoute> {
  const { hostname, port } = new URL(server);
  const sockets = new Set<Socket>();
  let isOpen = true;
  const listener = createServer((incoming) => {
    if (!isOpen) {
      incoming.destroy();
      return;
    }
    const outgoing = connect(Number(port), hostname);
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(one);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const disconnect = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `https://127.0.0.1:${(listener.address() as AddressInfo).port}`,
    close: () => {
      isOpen = false;
      disconnect();
    },
    open: () => {
      isOpen = true;
    },
    dispose: () => {
      disconnect();
      listener.close();
    },
  };
}
