import { readFile } from 'node:fs/promises';
import { request as overHttp, validateHeaderName, validateHeaderValue } from 'node:http';
import { request as overHttps } from 'node:https';
import type { CloudEvent } from '../api/notice.ts';
import type { ReceiverAnswer } from '../domain/delivery.ts';
import type { Notifications } from './noticeConfig.ts';

/** As much of the configuration as a request needs. */
export type Receiver = Pick<Notifications, 'url' | 'headersFile' | 'caFile' | 'timeoutSeconds'>;

/**
 * Sends one event, in the structured mode of CloudEvents over HTTP, and resolves with the answer, whatever it is. Rejects when
 * there is none in time. The files are read anew, so that secrets may be rotated; redirects are not followed.
 */
export async function post(
  receiver: Receiver,
  event: CloudEvent,
  signal?: AbortSignal,
): Promise<ReceiverAnswer> {
  const { headers, ca } = await readFiles(receiver);
  const url = new URL(receiver.url);
  const body = JSON.stringify(event);
  const { timeoutSeconds } = receiver;
  const timeout = AbortSignal.timeout(timeoutSeconds * 1_000);
  const options = {
    method: 'POST',
    headers: {
      ...headers,
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'content-length': Buffer.byteLength(body),
      'user-agent': 'node-maintenance',
    },
    signal: AbortSignal.any([timeout, ...(signal ? [signal] : [])]),
    ...(ca !== undefined && { ca }),
  };
  return new Promise((resolve, reject) => {
    const request = (url.protocol === 'https:' ? overHttps : overHttp)(url, options, (response) => {
      // What else it says is of no interest, and its connection serves the next one.
      response.on('error', () => undefined).resume();
      resolve({ status: response.statusCode ?? 0, retryAfter: response.headers['retry-after'] });
    });
    request.on('error', (error) =>
      reject(timeout.aborted ? new Error(`none within ${timeoutSeconds} s`, { cause: error }) : error),
    );
    request.end(body);
  });
}

/** Throws an Error that names option and remedy, and nothing of what is in the files. */
export async function readFiles({
  headersFile,
  caFile,
}: Pick<Receiver, 'headersFile' | 'caFile'>): Promise<{ headers: Record<string, string>; ca?: string }> {
  const headers = headersFile === undefined ? {} : await headersIn(headersFile);
  if (caFile === undefined) return { headers };
  const ca = await textOf(caFile, '--notify-ca-file (NOTIFY_CA_FILE)');
  if (!ca.includes('-----BEGIN CERTIFICATE-----'))
    throw new Error(`--notify-ca-file (NOTIFY_CA_FILE): expected certificates in PEM in ${caFile}`);
  return { headers, ca };
}

async function headersIn(file: string): Promise<Record<string, string>> {
  const flag = '--notify-headers-file (NOTIFY_HEADERS_FILE)';
  const lines = (await textOf(file, flag)).split('\n').map((line) => line.trim());
  const headers: Record<string, string> = {};
  for (const [index, line] of lines.entries()) {
    if (line === '' || line.startsWith('#')) continue;
    const [, name = '', value = ''] = /^([^:]*):\s*(.*)$/.exec(line) ?? [];
    if (!isHeader(name, value))
      throw new Error(`${flag}: expected "Name: value" in line ${index + 1} of ${file}`);
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

function isHeader(name: string, value: string): boolean {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
    return value !== '';
  } catch {
    return false;
  }
}

async function textOf(file: string, flag: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code = 'unreadable' } = error as NodeJS.ErrnoException;
    throw new Error(`${flag}: cannot read ${file} (${code}); mount it, or give another path`, {
      cause: error,
    });
  }
}
