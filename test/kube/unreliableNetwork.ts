import { randomInt } from 'node:crypto';
import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';
import { changedKubeconfig, serverPortOf } from './fixtures.ts';

/** A TCP relay in front of a real server whose connections can be closed, rejected, delayed, frozen or truncated. */
export class UnreliableNetwork {
  readonly #targetPort: number;
  readonly #server: Server;
  readonly #links = new Set<{ near: Socket; far: Socket }>();
  #mode: 'Relay' | 'Refuse' | 'Swallow' = 'Relay';
  #lateMs = 0;
  #isTruncating = false;
  mostConnections = 0;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer((near) => this.#accept(near));
  }

  /** Creates a network in front of a local port, and returns its address. */
  static async beforePort(targetPort: number) {
    const network = new UnreliableNetwork(targetPort);
    const port = await network.#listen();
    const close = async () => {
      network.cut();
      await new Promise((resolve) => network.#server.close(resolve));
    };
    return { network, address: `127.0.0.1:${port}`, close };
  }

  /** Creates a network in front of an apiserver, and returns a kubeconfig that uses it. */
  static async before(kubeconfig: string) {
    const { network, address, close } = await UnreliableNetwork.beforePort(serverPortOf(kubeconfig));
    const copy = await changedKubeconfig(kubeconfig, { cluster: { server: `https://${address}` } });
    const closeAll = async () => {
      await close();
      await copy.remove();
    };
    return { network, kubeconfig: copy.path, close: closeAll };
  }

  /** Closes every connection; new ones are accepted immediately. */
  cut(): void {
    for (const { near, far } of this.#links) {
      near.resetAndDestroy();
      far.destroy();
    }
  }

  /** Closes every connection and accepts no new one. */
  down(): void {
    this.#mode = 'Refuse';
    this.cut();
  }

  /** Accepts new connections and forwards nothing. */
  swallow(): void {
    this.#mode = 'Swallow';
  }

  /** From now on the next part of each response is its last one, and ends anywhere. */
  truncate(): void {
    this.#isTruncating = true;
  }

  up(): void {
    this.#mode = 'Relay';
    this.#isTruncating = false;
  }

  /** Forwards requests immediately, and delays each part of a response. */
  late(ms: number): void {
    this.#lateMs = ms;
  }

  /** Freezes the existing connections, which stay open; new ones work. */
  freeze(): void {
    for (const { near, far } of this.#links) {
      far.unpipe();
      near.unpipe(far);
    }
  }

  #accept(near: Socket): void {
    near.on('error', () => undefined);
    if (this.#mode === 'Refuse') {
      near.resetAndDestroy();
      return;
    }
    const far = dial(this.#targetPort, '127.0.0.1').on('error', () => near.destroy());
    const link = { near, far };
    this.#links.add(link);
    this.mostConnections = Math.max(this.mostConnections, this.#links.size);
    const forget = () => {
      this.#links.delete(link);
      near.destroy();
      far.destroy();
    };
    near.on('close', forget);
    far.on('close', forget);
    if (this.#mode === 'Swallow') return;
    near.pipe(far);
    const transform = (part: Buffer, _: string, done: (error: null, part: Buffer) => void) => {
      if (this.#isTruncating) near.write(part.subarray(0, randomInt(part.length)), () => near.destroy());
      else if (this.#lateMs === 0) done(null, part);
      else setTimeout(done, this.#lateMs, null, part);
    };
    far.pipe(new Transform({ transform })).pipe(near);
  }

  #listen(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(0, '127.0.0.1', () => {
        const address = this.#server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : 0);
      });
    });
  }
}
