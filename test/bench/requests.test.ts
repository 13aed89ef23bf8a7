import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AuditLog, countRequests } from '../../bench/requests.ts';

const user = 'system:serviceaccount:bench-identities:floor';

function lineOf(verb: string, resource: string, code: number, other: object = {}): string {
  const [name, subresource] = resource.split('/');
  const objectRef = { resource: name, subresource };
  const event = { stage: 'ResponseComplete', verb, user: { username: user }, objectRef };
  return JSON.stringify({ ...event, responseStatus: { code }, ...other });
}

test('Requests are counted by verb, resource and code, most first', async () => {
  const lines = [
    lineOf('patch', 'nodes', 200),
    lineOf('create', 'pods/eviction', 201),
    lineOf('create', 'pods/eviction', 429),
    lineOf('create', 'pods/eviction', 201),
    lineOf('get', '', 200, { objectRef: undefined, requestURI: '/version?timeout=32s' }),
  ];
  expect(await countRequests(user, lines)).toEqual({
    total: 5,
    byKind: {
      'create pods/eviction 201': 2,
      'create pods/eviction 429': 1,
      'get /version 200': 1,
      'patch nodes 200': 1,
    },
    rejected: 1,
  });
});

test('A watch counts once, when it starts', async () => {
  const lines = [
    lineOf('watch', 'pods', 200, { stage: 'ResponseStarted' }),
    lineOf('watch', 'pods', 200),
    lineOf('get', 'pods/log', 200, { stage: 'ResponseStarted' }),
  ];
  expect(await countRequests(user, lines)).toMatchObject({ total: 1, byKind: { 'watch pods 200': 1 } });
});

test('The requests of other users do not count, even if they name this one', async () => {
  const line = lineOf('create', 'serviceaccounts/token', 201, {
    user: { username: 'admin' },
    requestURI: `/${user}`,
  });
  expect(await countRequests(user, [line])).toEqual({ total: 0, byKind: {}, rejected: 0 });
});

test('Only the requests between two ends of the log count', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'nm-audit-'));
  const file = join(dir, 'one.log');
  try {
    await appendFile(file, `${lineOf('get', 'nodes', 200)}\n`);
    const log = new AuditLog(dir);
    const from = log.end();
    expect(await log.requests(user, { from, to: log.end() })).toMatchObject({ total: 0 });
    await appendFile(file, `${lineOf('patch', 'nodes', 200)}\n`);
    const to = log.end();
    await appendFile(file, `${lineOf('delete', 'nodes', 200)}\n`);
    expect((await log.requests(user, { from, to })).byKind).toEqual({ 'patch nodes 200': 1 });
  } finally {
    await rm(dir, { recursive: true });
  }
});
