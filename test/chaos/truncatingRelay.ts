import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';

/** A TCP relay in front of a local port. While it truncates, the next part of each answer is its last one, and ends anywhere. */
export class TruncatingRelay {
  readonly #targetPort: number;
  readonly #server: Server;
  readonly #near = new Set<Socket>();
  #isTruncating = false;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = createServer((near) => this.#accept(near));
  }

  static async beforePort(
    targetPort: number,
  ): Promise<{ relay: TruncatingRelay; address: string; close: () => Promise<void> }> {
    const relay = new TruncatingRelay(targetPort);
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    const { port } = relay.#server.address() as AddressInfo;
    const close = async () => {
      for (const near of relay.#near) near.destroy();
      await new Promise((resolve) => relay.#server.close(resolve));
    };
    return { relay, address: `127.0.0.1:${port}`, close };
  }

  begin(): void {
    this.#isTruncating = true;
  }

  end(): void {
    this.#isTruncating = false;
  }

  #accept(near: Socket): void {
    this.#near.add(near);
    // A connection that is reset on one side is reset on the other.
    const far = connect(this.#targetPort, '127.0.0.1').on('error', () => near.resetAndDestroy());
    near.on('error', () => far.resetAndDestroy());
    near.on('close', () => {
      this.#near.delete(near);
      far.destroy();
    });
    far.on('close', () => near.destroySoon());
    near.pipe(far);
    const transform = (part: Buffer, _: string, done: (error: null, part: Buffer) => void) => {
      if (this.#isTruncating) near.write(part.subarray(0, randomInt(part.length)), () => near.destroy());
      else done(null, part);
    };
    far.pipe(new Transform({ transform })).pipe(near);
  }
}
