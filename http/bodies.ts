import type { IncomingMessage } from 'node:http';

const initialBytes = 16 * 1024;

/** A body that grows as it is received: peers choose the size of chunks, and a list of them would cost more than their content. */
class Body {
  readonly request: IncomingMessage;
  #buffer = Buffer.alloc(0);
  #length = 0;

  constructor(request: IncomingMessage) {
    this.request = request;
  }

  get length(): number {
    return this.#length;
  }

  get allocatedBytes(): number {
    return this.#buffer.length;
  }

  append(chunk: Buffer): void {
    const length = this.#length + chunk.length;
    if (length > this.#buffer.length) this.#grow(length);
    chunk.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  #grow(length: number): void {
    let bytes = Math.max(initialBytes, this.#buffer.length);
    while (bytes < length) bytes *= 2;
    const larger = Buffer.alloc(bytes);
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }

  text(): string {
    return this.#buffer.toString('utf8', 0, this.#length);
  }
}

export type ReadResult = { kind: 'Whole'; text: string } | { kind: 'TooLarge' };

interface BodyLimits {
  /** Size of one body. */
  readonly maxBodyBytes: number;
  /** Memory of all bodies from their first byte until their requests are answered. */
  readonly maxBufferedBytes: number;
}

/**
 * Reads the bodies of a server's requests. When all together need too much memory, the connection of the largest one that is still
 * being received is closed: many small requests proceed while few large ones are sent slowly.
 */
export class Bodies {
  readonly #limits: BodyLimits;
  readonly #onGivenUp: () => void;
  /** Bodies whose memory counts, and whether they are still being received. */
  readonly #held = new Map<Body, { isReceiving: boolean }>();

  constructor(limits: BodyLimits, onGivenUp: () => void) {
    this.#limits = limits;
    this.#onGivenUp = onGivenUp;
  }

  /** Its memory counts until `exchange` aborts. Rejects when the connection closes before the end of the body. */
  async read(request: IncomingMessage, exchange: AbortSignal): Promise<ReadResult> {
    const { maxBodyBytes } = this.#limits;
    if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) return { kind: 'TooLarge' };
    const body = new Body(request);
    const state = { isReceiving: true };
    this.#held.set(body, state);
    exchange.addEventListener('abort', () => this.#held.delete(body), { once: true });
    const isWhole = await this.#receive(body);
    state.isReceiving = false;
    if (isWhole) return { kind: 'Whole', text: body.text() };
    this.#held.delete(body);
    return { kind: 'TooLarge' };
  }

  /** Resolves with false if the body is too large: the rest is then received and discarded, until the request times out. */
  #receive(body: Body): Promise<boolean> {
    const { request } = body;
    return new Promise((resolve, reject) => {
      request.on('data', (chunk: Buffer) => {
        if (!this.#held.has(body)) return;
        if (body.length + chunk.length <= this.#limits.maxBodyBytes) this.#append(body, chunk);
        else resolve(false);
      });
      request.once('end', () => resolve(this.#held.has(body)));
      request.once('close', () => reject(new Error('the connection closed before the end of the body')));
    });
  }

  #append(body: Body, chunk: Buffer): void {
    const before = body.allocatedBytes;
    body.append(chunk);
    if (body.allocatedBytes > before) this.#limitMemory();
  }

  #limitMemory(): void {
    const held = [...this.#held.keys()];
    const total = held.reduce((sum, { allocatedBytes }) => sum + allocatedBytes, 0);
    if (total <= this.#limits.maxBufferedBytes) return;
    // The body that has just grown is one of these, so that closing one always suffices.
    const [largest] = held
      .filter((body) => this.#held.get(body)?.isReceiving)
      .toSorted((a, b) => b.allocatedBytes - a.allocatedBytes);
    if (largest === undefined) return;
    this.#held.delete(largest);
    largest.request.socket.destroy();
    this.#onGivenUp();
  }
}
