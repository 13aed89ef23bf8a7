import fc from 'fast-check';
import { anyText } from './anyText.ts';

const method = fc.oneof(
  fc.constantFrom('GET', 'HEAD', 'POST', 'OPTIONS', 'CONNECT', 'TRACE', 'PRI', 'get', 'G\0T', ''),
  fc.string({ maxLength: 8 }),
);

const target = fc.oneof(
  fc.constantFrom(
    '//',
    '/page',
    '/echo',
    '/healthz',
    '/readyz',
    '/metrics',
    '/authorization',
    '*',
    '',
    '?',
    '#',
    '/%',
    '/%zz',
    '/%00',
    '/\0',
    '///../..',
    '\\\\',
    'http://[',
    'http://localhost:99999/',
    'http://localhost/healthz',
    'localhost:80',
    '/constructor',
    '/__proto__',
    `/${'x'.repeat(20_000)}`,
  ),
  anyText().map((text) => `/${text}`),
);

const version = fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/9.9', 'HTTP/', '');

const header = fc.oneof(
  fc.constantFrom(
    'Host: x',
    'Host:',
    'Host: x\0',
    'Content-Length: 5',
    'Content-Length: 5, 6',
    'Content-Length: -1',
    'Content-Length: 99999999999999999999',
    'Content-Type: application/json',
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: chunked, gzip',
    'Expect: 100-continue',
    'Expect: nothing',
    'Connection: upgrade',
    'Upgrade: websocket',
    'Upgrade: h2c',
    'Connection: close',
    ': nothing',
    ' folded',
    `X: ${'x'.repeat(20_000)}`,
  ),
  anyText(),
);

const body = fc.oneof(
  fc.constantFrom(
    '',
    'hello',
    '0\r\n\r\n',
    '5\r\nhello\r\n0\r\n\r\n',
    'ffffffffffffffff\r\n',
    '-1\r\n',
    '5;x=y\r\nhe',
  ),
  anyText(),
);

const request = fc
  .tuple(
    fc.tuple(method, target, version),
    fc.array(header, { maxLength: 4 }),
    body,
    fc.constantFrom('\r\n', '\r\n', '\r\n', '\n', '\r'),
  )
  .map(([line, headers, content, end]) => [line.join(' '), ...headers, '', content].join(end));

/** Bytes that a peer sends that is no client of ours: requests that are almost valid, several of them at once, or any bytes. */
export const malformedRequests: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 4, arbitrary: request.map((text) => Buffer.from(text)) },
  {
    weight: 1,
    arbitrary: fc.array(request, { minLength: 2, maxLength: 5 }).map((all) => Buffer.from(all.join(''))),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 2_000 }) },
);
