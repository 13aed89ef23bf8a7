import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { wordsOf } from '../kube/errors.ts';
import type { Log } from '../kube/log.ts';
import type { Webhook } from './review.ts';

/** Two objects of the largest size that the apiserver takes, and what is around them. */
const largestBody = 8 * 1024 * 1024;
/** Milliseconds; the apiserver waits for 30 s at most. */
const longestRequest = 30_000;

interface Reply {
  status: number;
  body: string;
  headers?: Record<string, string>;
}

/**
 * Answers AdmissionReviews, each path by its webhook. It has no certificate yet (`setSecureContext`): until then nobody
 * can speak to it. Whatever comes in, it answers, and lives on.
 */
export function createAdmissionServer(webhooks: Readonly<Record<string, Webhook>>, log: Log): Server {
  const server = createServer({ requestTimeout: longestRequest }, (request, response) => {
    const abandoned = new AbortController();
    response.once('close', () => abandoned.abort(new Error('nobody waits for the answer any more')));
    replyTo(request, webhooks, abandoned.signal)
      .catch((error: unknown) => failed(error, abandoned.signal, log))
      .then((reply) => send(response, reply))
      .catch(() => response.destroy());
  });
  return server;
}

async function replyTo(
  request: IncomingMessage,
  webhooks: Readonly<Record<string, Webhook>>,
  signal: AbortSignal,
): Promise<Reply> {
  const { pathname } = new URL(request.url ?? '/', 'https://localhost');
  const webhook = Object.hasOwn(webhooks, pathname) ? webhooks[pathname] : undefined;
  if (webhook === undefined) return refused(404, `no webhook is served at ${pathname}`);
  if (request.method !== 'POST')
    return { ...refused(405, 'expected POST'), headers: { allow: 'POST', connection: 'close' } };
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? ''))
    return refused(415, 'expected content-type application/json');
  const text = await readBody(request);
  if (text === undefined) return refused(413, `expected at most ${largestBody} bytes`);
  const answer = await webhook(text, signal);
  if (!answer.ok) return refused(400, answer.problem);
  const headers = { 'content-type': 'application/json' };
  return { status: 200, body: JSON.stringify(answer.review), headers };
}

/** What is left of a body that was not read ends with its connection. */
function refused(status: number, problem: string): Reply {
  return { status, body: `${problem}\n`, headers: { connection: 'close' } };
}

function failed(error: unknown, signal: AbortSignal, log: Log): Reply {
  if (!signal.aborted) log.error('Admission request failed', { error: wordsOf(error) });
  return { status: 500, body: `${wordsOf(error)}\n` };
}

function send(response: ServerResponse, { status, body, headers }: Reply): void {
  response.writeHead(status, { 'content-type': 'text/plain', ...headers }).end(body);
}

/** Undefined when there is too much of it. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > largestBody) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
