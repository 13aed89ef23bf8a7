import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { messageOf, SandboxError } from './errors.ts';

/** Where a kube-apiserver answers, and who asks. */
export interface ApiServer {
  /** Port of 127.0.0.1. */
  port: number;
  /** Certificates that it is trusted by, as PEM. */
  ca: string;
  /** Bearer token. */
  token: string;
}

export interface Answer {
  status: number;
  /** The body as it came; JSON for every object. */
  body: string;
}

/** Kept: a new one costs both sides more than the requests that are asked here. */
const connections = new Agent({ keepAlive: true, maxSockets: 16 });

/**
 * One request to the sandbox's own apiserver. Bare https, because this runs before there is anything that a client
 * library could be configured with, and many times a second while servers come up. A PATCH is a server-side apply.
 */
export async function ask(
  server: ApiServer,
  method: string,
  path: string,
  object?: unknown,
): Promise<Answer> {
  const contentType = method === 'PATCH' ? 'application/apply-patch+yaml' : 'application/json';
  return new Promise((resolve, reject) => {
    const outgoing = request(
      {
        host: '127.0.0.1',
        port: server.port,
        ca: server.ca,
        method,
        path,
        agent: connections,
        timeout: answersWithin,
        headers: { authorization: `Bearer ${server.token}`, 'content-type': contentType },
      },
      (incoming) => {
        text(incoming).then((body) => resolve({ status: incoming.statusCode ?? 0, body }), reject);
      },
    );
    outgoing.once('timeout', () => outgoing.destroy(new Error('no answer')));
    outgoing.once('error', (error: NodeJS.ErrnoException) => {
      // The server was stopped since this connection was used last.
      const isStale = outgoing.reusedSocket && error.code === 'ECONNRESET';
      if (isStale) ask(server, method, path, object).then(resolve, reject);
      else reject(error);
    });
    outgoing.end(object === undefined ? undefined : JSON.stringify(object));
  });
}

/** The object at a path. Throws SandboxError when the apiserver does not give it. */
export async function get<T>(server: ApiServer, path: string): Promise<T> {
  const answer = await ask(server, 'GET', path);
  if (answer.status !== 200)
    throw new SandboxError(`GET ${path} answered ${answer.status}: ${answer.body.slice(0, 200)}`);
  return JSON.parse(answer.body) as T;
}

/** undefined when the apiserver is ready, or what it says instead: a probe for `until`. */
export async function readiness(server: ApiServer): Promise<string | undefined> {
  try {
    const answer = await ask(server, 'GET', '/readyz');
    return answer.status === 200 ? undefined : `/readyz answers ${answer.status}`;
  } catch (error) {
    return messageOf(error);
  }
}

/** Milliseconds; a paused server accepts connections and answers none. */
const answersWithin = 5_000;
