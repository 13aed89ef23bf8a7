import { readFile } from 'node:fs/promises';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';
import type { Sandbox } from '../../sandbox/sandbox.ts';

export interface UserRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** With its query. */
  path: string;
  body?: object | undefined;
}

export interface Response {
  status: number;
  /** A Status, if the request failed. */
  body: {
    reason?: string;
    message?: string;
    details?: { causes?: { field?: string; message: string }[] };
  };
  /** Warnings of the apiserver and its admission. */
  warnings: string[];
}

export interface Impersonation {
  /**
   * Sends a request as this user, as `kubectl --as` does, or as the administrator. Resolves with the first bytes of a watch as with
   * an empty body.
   */
  send(user: string | undefined, request: UserRequest): Promise<Response>;
  close(): void;
}

/** Sends requests as any user. A process of kubectl for each of a thousand requests would take minutes. */
export async function impersonationIn(sandbox: Sandbox): Promise<Impersonation> {
  const {
    clusters: [{ cluster }],
    users: [{ user: administrator }],
  } = parse(await readFile(sandbox.kubeconfig, 'utf8')) as {
    clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
    users: [{ user: { token: string } }];
  };
  const ca = Buffer.from(cluster['certificate-authority-data'], 'base64');
  const agent = new Agent({ keepAlive: true, ca });
  const send: Impersonation['send'] = (user, { method, path, body }) => {
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const headers = {
      authorization: `Bearer ${administrator.token}`,
      ...(user !== undefined && { 'impersonate-user': user }),
      accept: 'application/json',
      ...(body !== undefined && { 'content-type': type }),
    };
    return new Promise((resolve, reject) => {
      const outgoing = request(new URL(path, cluster.server), { method, headers, agent }, (incoming) => {
        const status = incoming.statusCode ?? 0;
        const warnings = incoming.headersDistinct['warning'] ?? [];
        if (status < 300 && path.includes('watch=')) {
          outgoing.destroy();
          resolve({ status, body: {}, warnings });
          return;
        }
        text(incoming).then((answer) => resolve({ status, body: bodyOf(answer), warnings }), reject);
      });
      outgoing.once('error', reject);
      outgoing.end(body && JSON.stringify(body));
    });
  };
  return { send, close: () => agent.destroy() };
}

function bodyOf(answer: string): Response['body'] {
  try {
    return JSON.parse(answer) as Response['body'];
  } catch {
    return { message: answer };
  }
}
