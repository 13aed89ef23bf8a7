import { readFileSync } from 'node:fs';
import type { Server } from 'node:https';
import { errorMessage } from '../../kube/errors.ts';
import type { Log } from '../../kube/log.ts';
import type { CodecServerConfig } from './settings.ts';

const reloadEveryMs = 10_000;

/**
 * Sets the certificate of a server, and sets it again when a file has changed. Returns a function that stops that. Throws an Error of one line
 * if the files are invalid; later the former certificate stays in use.
 */
export function keepCertificate(
  server: Server,
  { certificateFile, keyFile }: NonNullable<CodecServerConfig['tls']>,
  log: Log,
): () => void {
  const read = () => ({ cert: readFileSync(certificateFile, 'utf8'), key: readFileSync(keyFile, 'utf8') });
  let used = read();
  try {
    server.setSecureContext(used);
  } catch (error) {
    const remedy = 'use PEM, and the key that belongs to the certificate';
    throw new Error(`--tls-cert-file: ${errorMessage(error)}: ${remedy}`, { cause: error });
  }
  let loggedReason: string | undefined;
  const timer = setInterval(() => {
    try {
      const next = read();
      if (next.cert === used.cert && next.key === used.key) return;
      server.setSecureContext(next);
      used = next;
      loggedReason = undefined;
      log.info('Certificate reloaded');
    } catch (error) {
      const reason = errorMessage(error);
      if (reason !== loggedReason)
        log.warn('Certificate could not be reloaded, and the former one stays in use', { reason });
      loggedReason = reason;
    }
  }, reloadEveryMs).unref();
  return () => clearInterval(timer);
}
