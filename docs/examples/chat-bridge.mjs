// Forwards notifications to an incoming webhook that accepts {"text": "..."}, such as those of Slack and Mattermost:
//   CHAT_URL=https://hooks.slack.com/services/... PORT=8080 node chat-bridge.mjs
// The response of the chat is returned to the worker, which retries while the chat is unavailable.
import { createServer } from 'node:http';
import { env } from 'node:process';

/** The chat reads these three characters as links and mentions; node maintenance sends plain text of one line. */
const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;' };

async function forward(request) {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  const { source, data } = JSON.parse(body);
  const text = `${data.severity === 'warning' ? ':warning: ' : ''}${data.message} (${source})`.replaceAll(/[&<>]/g, (one) => escapes[one]);
  return fetch(env.CHAT_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ text }),
  });
}

createServer((request, response) => {
  forward(request)
    .then(({ status, headers }) => {
      const retryAfter = headers.get('retry-after');
      response.writeHead(status, retryAfter === null ? {} : { 'retry-after': retryAfter }).end();
    })
    .catch(() => response.writeHead(502).end());
}).listen(Number(env.PORT ?? 8080));
