import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { AcceptedClients } from '../http/server.ts';
import { sleep } from '../kube/abort.ts';
import { errorMessage } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';

/** The apiservers whose reviews are answered. */
export interface WebhookClients extends AcceptedClients {
  readonly caFile: string;
  /** The content of the file when the process started: authorities of their certificates, as PEM. */
  readonly ca: string;
}

/** A change of the file takes effect within this time. Polled, because a mounted Secret changes by a new symbolic link. */
const defaultPollMs = 5_000;

/** Reads authorities of client certificates. Throws an Error that names the setting and the remedy. */
export async function readClientCa(caFile: string): Promise<string> {
  const text = await readFile(caFile, 'utf8').catch((error: unknown) => {
    throw new Error(`--webhook-client-ca: ${caFile} could not be read: ${errorMessage(error)}`, {
      cause: error,
    });
  });
  const problem = clientCaProblem(text);
  if (problem === undefined) return text;
  throw new Error(
    `--webhook-client-ca: ${caFile} ${problem}: expected the certificates, in PEM, of the authorities that sign the client certificates of the apiservers`,
  );
}

const certificate = /-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gs;

function clientCaProblem(text: string): string | undefined {
  const blocks = text.match(certificate) ?? [];
  if (blocks.length === 0) return 'contains no certificate';
  const found = blocks.map((pem) => parsed(pem));
  const damaged = found.indexOf(undefined);
  if (damaged !== -1) return `contains a damaged certificate (number ${damaged + 1})`;
  const leaf = found.find((one) => one?.ca === false);
  return leaf && `contains a certificate that is no authority (${leaf.subject.replaceAll('\n', ', ')})`;
}

function parsed(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

/** Calls back with the new content of the file after each change, until the signal aborts. While the file is not valid, the last content counts. */
export async function watchClientCa(
  { caFile, ca }: WebhookClients,
  { onChange, log, pollMs = defaultPollMs }: { onChange: (ca: string) => void; log: Log; pollMs?: number },
  signal: AbortSignal,
): Promise<void> {
  let current = ca;
  let reported: string | undefined;
  for (;;) {
    await sleep(pollMs, signal);
    if (signal.aborted) return;
    try {
      const next = await readClientCa(caFile);
      reported = undefined;
      if (next === current) continue;
      onChange(next);
      current = next;
      log.info('Client authorities loaded', { file: caFile });
    } catch (error) {
      const message = errorMessage(error);
      if (message !== reported) log.error('Client authorities could not be loaded', { error: message });
      reported = message;
    }
  }
}
