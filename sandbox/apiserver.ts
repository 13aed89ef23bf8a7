import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { errorMessage, SandboxError } from './errors.ts';

/** The address of a kube-apiserver, and the credentials of a user. */
export interface ApiServer {
  host: string;
  port: number;
  /** Certificate authorities of the server, as PEM. */
  ca: string;
  /** Bearer token. */
  token: string;
}

export interface Answer {
  status: number;
  /** The body as received; JSON for every object. */
  body: string;
}

/** Keeps connections alive: a new one costs both sides more than the requests sent here. */
const connections = new Agent({ keepAlive: true, maxSockets: 16 });

/**
 * Sends one request to the sandbox's apiserver. Uses plain https, because it runs before a client library can be configured,
 * and many times a second while servers start. A PATCH is a server-side apply.
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
        host: server.host,
        port: server.port,
        ca: server.ca,
        method,
        path,
        agent: connections,
        timeout: requestTimeoutMs,
        headers: { authorization: `Bearer ${server.token}`, 'content-type': contentType },
      },
      (incoming) => {
        text(incoming).then((body) => resolve({ status: incoming.statusCode ?? 0, body }), reject);
      },
    );
    outgoing.once('timeout', () => outgoing.destroy(new Error('no answer')));
    outgoing.once('error', (error: NodeJS.ErrnoException) => {
      // The server was restarted since this connection was last used.
      const isStale = outgoing.reusedSocket && error.code === 'ECONNRESET';
      if (isStale) ask(server, method, path, object).then(resolve, reject);
      else reject(error);
    });
    outgoing.end(object === undefined ? undefined : JSON.stringify(object));
  });
}

/** Reads the object at a path. Throws SandboxError when the apiserver does not return it. */
export async function get<T>(server: ApiServer, path: string): Promise<T> {
  const answer = await ask(server, 'GET', path);
  if (answer.status !== 200)
    throw new SandboxError(`GET ${path} answered ${answer.status}: ${answer.body.slice(0, 200)}`);
  return JSON.parse(answer.body) as T;
}

/** A probe for `until`: returns undefined when the apiserver is ready. */
export async function readiness(server: ApiServer): Promise<string | undefined> {
  try {
    const answer = await ask(server, 'GET', '/readyz');
    return answer.status === 200 ? undefined : `/readyz answers ${answer.status}`;
  } catch (error) {
    return errorMessage(error);
  }
}

/** Limits the wait for a paused server, which accepts connections and never answers. */
const requestTimeoutMs = 30_000;
