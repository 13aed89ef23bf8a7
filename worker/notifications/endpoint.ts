import { readFile } from 'node:fs/promises';
import { validateHeaderName, validateHeaderValue } from 'node:http';
import { Agent, request } from 'undici';
import type { CloudEvent } from '../../api/notification.ts';
import type { EndpointResponse } from '../../domain/notifications/delivery.ts';
import type { NotificationSettings } from './settings.ts';

/** The settings that a request needs. */
export type Endpoint = Pick<NotificationSettings, 'url' | 'headersFile' | 'caFile' | 'timeoutSeconds'>;

/** The body of a response is not used; this much of it is read, so that the endpoint can finish it. */
const maxResponseBytes = 16_384;

/**
 * Sends one event in the structured mode of CloudEvents over HTTP and resolves with the response, whatever its status. Rejects when
 * there is none in time. Reads the files for each request, so that secrets can be rotated. Does not follow redirects.
 */
export async function post(
  endpoint: Endpoint,
  event: CloudEvent,
  cancelled?: AbortSignal,
): Promise<EndpointResponse> {
  const { headers, ca } = await readFiles(endpoint);
  const timeout = AbortSignal.timeout(endpoint.timeoutSeconds * 1_000);
  const signal = AbortSignal.any([timeout, ...(cancelled ? [cancelled] : [])]);
  // An agent for each request: the certificates may have changed.
  const dispatcher = new Agent({ connect: { ...(ca !== undefined && { ca }) } });
  try {
    const response = await request(endpoint.url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/cloudevents+json; charset=utf-8',
        'user-agent': 'node-maintenance',
      },
      body: JSON.stringify(event),
      signal,
      dispatcher,
    });
    await response.body.dump({ limit: maxResponseBytes, signal }).catch(() => undefined);
    const retryAfter = response.headers['retry-after'];
    return { status: response.statusCode, retryAfter: [retryAfter].flat()[0] };
  } catch (error) {
    if (!timeout.aborted) throw error;
    throw new Error(`timeout after ${endpoint.timeoutSeconds} s`, { cause: error });
  } finally {
    await dispatcher.destroy();
  }
}

/** Throws an Error that names the option and how to fix it, and does not repeat the content of the files. */
export async function readFiles({
  headersFile,
  caFile,
}: Pick<Endpoint, 'headersFile' | 'caFile'>): Promise<{ headers: Record<string, string>; ca?: string }> {
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
    throw new Error(`${flag}: cannot read ${file} (${code}); mount it or set another path`, {
      cause: error,
    });
  }
}
