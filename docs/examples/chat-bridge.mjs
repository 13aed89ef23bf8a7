// Hands notices on to a chat that takes {"text": "..."}, as Slack and Mattermost do (incoming webhooks):
//   CHAT_URL=https://hooks.slack.com/services/... PORT=8080 node chat-bridge.mjs
// What the chat answers is what the worker hears, which so tries again while the chat is down.
import { createServer } from 'node:http';
import { env } from 'node:process';

async function handOn(request) {
  let body = '';
  for await (const chunk of request.setEncoding('utf8')) body += chunk;
  const { source, data } = JSON.parse(body);
  const text = `${data.severity === 'warning' ? ':warning: ' : ''}${data.message} (${source})`;
  return fetch(env.CHAT_URL, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ text }),
  });
}

createServer((request, response) => {
  handOn(request)
    .then(({ status, headers }) => {
      const retryAfter = headers.get('retry-after');
      response.writeHead(status, retryAfter === null ? {} : { 'retry-after': retryAfter }).end();
    })
    .catch(() => response.writeHead(502).end());
}).listen(Number(env.PORT ?? 8080));
