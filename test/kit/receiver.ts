import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type CloudEvent as ParsedEvent, HTTP } from 'cloudevents';
import type { CloudEvent } from '../../api/notice.ts';

export interface Received {
  event: CloudEvent;
  headers: IncomingMessage['headers'];
  /** Milliseconds of `performance.now()`. */
  at: number;
}

/** `Hangs`: it takes the request, and never answers. */
export type ReceiverAnswers = { status: number; headers?: Record<string, string> } | 'Hangs';

/** The other end: a server that reads events with the SDK of the CloudEvents project, which throws for what is none. */
export interface TestReceiver {
  readonly url: string;
  /** Every request, oldest first, whatever was answered. */
  readonly requests: Received[];
  /** Each event that was taken, once, by its time. */
  taken(): CloudEvent[];
  /** From now on; `attempt` counts the requests with this id. */
  answersWith(answer: (event: CloudEvent, attempt: number) => ReceiverAnswers): void;
  close(): Promise<void>;
}

const accepts = (): ReceiverAnswers => ({ status: 204 });

export async function startReceiver(tls?: { cert: string; key: string }): Promise<TestReceiver> {
  const requests: Received[] = [];
  const taken = new Map<string, CloudEvent>();
  let answer: (event: CloudEvent, attempt: number) => ReceiverAnswers = accepts;

  const onRequest: RequestListener = (request, response) => {
    bodyOf(request)
      .then((body) => {
        const event = parsed(request.headers, body);
        requests.push({ event, headers: request.headers, at: performance.now() });
        const attempt = requests.filter((one) => one.event.id === event.id).length;
        const given = answer(event, attempt);
        if (given === 'Hangs') return;
        if (given.status < 300) taken.set(event.id, event);
        response.writeHead(given.status, given.headers).end();
      })
      .catch((error: unknown) => response.writeHead(400).end(String(error)));
  };
  const server: Server = tls ? createTlsServer(tls, onRequest) : createServer(onRequest);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}/hooks/s3cret`,
    requests,
    taken: () => [...taken.values()].toSorted((a, b) => Date.parse(a.time) - Date.parse(b.time)),
    answersWith: (given) => {
      answer = given;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += String(chunk);
  return body;
}

function parsed(headers: IncomingMessage['headers'], body: string): CloudEvent {
  (HTTP.toEvent({ headers, body }) as ParsedEvent).validate();
  return JSON.parse(body) as CloudEvent;
}
