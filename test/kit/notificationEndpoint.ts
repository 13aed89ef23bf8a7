import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { type CloudEvent as ParsedEvent, HTTP } from 'cloudevents';
import type { CloudEvent } from '../../api/notification.ts';

export interface Received {
  event: CloudEvent;
  headers: IncomingMessage['headers'];
  /** When it arrived, in milliseconds of `performance.now()`. */
  at: number;
}

/** `Hangs`: it accepts the request and never responds. */
export type EndpointReply = { status: number; headers?: Record<string, string> } | 'Hangs';

/** An endpoint for notifications. It reads events with the SDK of the CloudEvents project, which throws for invalid ones. */
export interface TestEndpoint {
  readonly url: string;
  /** Every request, oldest first, with any response. */
  readonly requests: Received[];
  /** Returns each accepted event once, by its time. */
  accepted(): CloudEvent[];
  /** Sets the responses from now on; `attempt` counts the requests with this id. */
  respondWith(respond: (event: CloudEvent, attempt: number) => EndpointReply): void;
  close(): Promise<void>;
}

const accepts = (): EndpointReply => ({ status: 204 });

export async function startTestEndpoint(tls?: { cert: string; key: string }): Promise<TestEndpoint> {
  const requests: Received[] = [];
  const accepted = new Map<string, CloudEvent>();
  let respond: (event: CloudEvent, attempt: number) => EndpointReply = accepts;

  const onRequest: RequestListener = (request, response) => {
    bodyOf(request)
      .then((body) => {
        const event = parsed(request.headers, body);
        requests.push({ event, headers: request.headers, at: performance.now() });
        const attempt = requests.filter((one) => one.event.id === event.id).length;
        const reply = respond(event, attempt);
        if (reply === 'Hangs') return;
        if (reply.status < 300) accepted.set(event.id, event);
        response.writeHead(reply.status, reply.headers).end();
      })
      .catch((error: unknown) => response.writeHead(400).end(String(error)));
  };
  const server: Server = tls ? createTlsServer(tls, onRequest) : createServer(onRequest);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `${tls ? 'https' : 'http'}://127.0.0.1:${port}/hooks/s3cret`,
    requests,
    accepted: () => [...accepted.values()].toSorted((a, b) => Date.parse(a.time) - Date.parse(b.time)),
    respondWith: (next) => {
      respond = next;
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
