import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { ApplicationFailure, type Payload, type PayloadCodec } from '@temporalio/common';
import proto from '@temporalio/proto';
import { DECRYPTION_ERROR } from '../api/names.ts';
import { oneLine } from '../domain/common/text.ts';
import type { PayloadKey, PayloadKeys } from './payloadKeys.ts';
import { withoutReadableMark } from './readableMemo.ts';

/**
 * The format of Temporal's samples, so that other tools recognize it: `data` is the nonce, the encrypted Payload as protobuf, and the
 * authentication tag.
 */
const encrypted = {
  encoding: 'binary/encrypted',
  cipher: 'aes-256-gcm',
  nonceBytes: 12,
  tagBytes: 16,
} as const;
const keyIdField = 'encryption-key-id';

const PayloadMessage = proto.temporal.api.common.v1.Payload;

/**
 * A payload cannot be decrypted with the keys of this process. The message is one line that names the key and the remedy; histories show the
 * type without the key that the message is encrypted with.
 */
export class DecryptionError extends ApplicationFailure {
  override readonly name = DECRYPTION_ERROR;

  constructor(message: string, cause?: unknown) {
    super(message, DECRYPTION_ERROR, false, undefined, cause instanceof Error ? cause : undefined);
  }
}

interface EncryptionOptions {
  /** Undefined: nothing is encrypted, and encrypted payloads are recognized. */
  keys: PayloadKeys | undefined;
  onFailure?: ((error: DecryptionError) => void) | undefined;
}

/**
 * Encrypts and decrypts payloads by AES-256-GCM (ADR 43). Contract:
 *
 * 1. Payloads that are not encrypted stay readable: those from before encryption was enabled, and those of clients without keys.
 * 2. A payload that names a key is decrypted or rejected with a DecryptionError. It never reaches a workflow or an activity encrypted:
 *    they would take it for invalid input, whereas a rejected task is retried until the key is there.
 * 3. Any other payload is passed on, and fails where it is read.
 */
export class EncryptionCodec implements PayloadCodec {
  readonly #options: EncryptionOptions;

  constructor(options: EncryptionOptions) {
    this.#options = options;
  }

  // oxlint-disable-next-line typescript/require-await -- the interface returns a promise
  async encode(payloads: Payload[]): Promise<Payload[]> {
    const { keys } = this.#options;
    return payloads.map((payload) => {
      const readable = withoutReadableMark(payload);
      return keys === undefined || readable !== payload ? readable : encrypt(payload, keys.current());
    });
  }

  // oxlint-disable-next-line typescript/require-await -- the interface returns a promise
  async decode(payloads: Payload[]): Promise<Payload[]> {
    return payloads.map((payload) => {
      const id = keyIdOf(payload);
      return id === undefined ? payload : this.#decrypt(payload, id);
    });
  }

  #decrypt(payload: Payload, id: string): Payload {
    const { keys, onFailure } = this.#options;
    try {
      const key = keys?.find(id);
      if (key === undefined) throw new DecryptionError(missing(id, keys));
      return decrypt(payload, key);
    } catch (error) {
      const failure =
        error instanceof DecryptionError ? error : new DecryptionError(damaged(id, keys), error);
      onFailure?.(failure);
      throw failure;
    }
  }
}

/** Returns the id of the key of an encrypted payload; undefined if it is not encrypted. */
export function keyIdOf({ metadata }: Payload): string | undefined {
  if (textOf(metadata?.['encoding']) !== encrypted.encoding) return undefined;
  return textOf(metadata?.[keyIdField]);
}

const maxIdLength = 100;

function textOf(bytes: Uint8Array | null | undefined): string | undefined {
  return bytes ? oneLine(Buffer.from(bytes).toString(), maxIdLength) : undefined;
}

function missing(id: string, keys: PayloadKeys | undefined): string {
  return keys === undefined
    ? `a payload is encrypted with key "${id}", and this process has no keys: set NODE_MAINTENANCE_PAYLOAD_KEYS to the folder of the keys`
    : `a payload is encrypted with key "${id}", which ${keys.folder} does not contain: add the file ${id} with the key; every process needs each key for as long as Temporal retains its payloads`;
}

function damaged(id: string, keys: PayloadKeys | undefined): string {
  return `a payload that names key "${id}" cannot be decrypted with it: it was changed, or ${keys?.folder ?? ''} contains another key of this name: restore the key`;
}

function encrypt(payload: Payload, { id, bytes }: PayloadKey): Payload {
  const nonce = randomBytes(encrypted.nonceBytes);
  const cipher = createCipheriv(encrypted.cipher, bytes, nonce);
  const content = [cipher.update(PayloadMessage.encode(payload).finish()), cipher.final()];
  return {
    metadata: { encoding: Buffer.from(encrypted.encoding), [keyIdField]: Buffer.from(id) },
    data: Buffer.concat([nonce, ...content, cipher.getAuthTag()]),
  };
}

function decrypt({ data }: Payload, { bytes }: PayloadKey): Payload {
  const { cipher, nonceBytes, tagBytes } = encrypted;
  const content = Buffer.from(data ?? []);
  const end = content.length - tagBytes;
  const decipher = createDecipheriv(cipher, bytes, content.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  });
  decipher.setAuthTag(content.subarray(end));
  const plain = [decipher.update(content.subarray(nonceBytes, end)), decipher.final()];
  return PayloadMessage.decode(Buffer.concat(plain));
}
