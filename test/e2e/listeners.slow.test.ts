import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { paths } from '../../admission/registration.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually } from '../kit/eventually.ts';
import { malformedRequests } from '../kit/malformedRequests.ts';
import { connectRaw, exchange, type RawConnection, statusesOf } from '../kit/rawConnection.ts';
import { selectNodes } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// What peers without any credentials can send to the ports of a worker.

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 1 });
  worker = startWorker(world.sandbox, { args: ['--metrics-bind-address', '127.0.0.1'] });
  await worker.ready();
  const binding = ['clusterrolebinding', 'listeners-mallory', '--user', 'mallory'];
  const kubectl = kubectlOf(world.sandbox);
  await succeeds(kubectl(['create', ...binding, '--clusterrole', 'node-maintenance-operator']));
  await eventually('the webhooks to be registered', expectReviews);
  for (const server of servers) answersToSlow.set(server, answerToSlow(server));
});

afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

type Server = 'health' | 'metrics' | 'webhook';
const servers: readonly Server[] = ['health', 'metrics', 'webhook'];
/** The answers to connections that are slow while the other tests run. */
const answersToSlow = new Map<Server, Promise<string>>();
const overOf = (server: Server) => (server === 'webhook' ? 'tls' : 'tcp');

function portOf(server: Server): number {
  return Number(new RegExp(`"${server}":(\\d+)`).exec(worker.log())?.[1]);
}

const page = async (server: Server, path: string) =>
  (await fetch(`http://127.0.0.1:${portOf(server)}${path}`)).text();

/** Proves that the apiserver gets its reviews: it would reject the request with another message if it did not. */
async function expectReviews(): Promise<void> {
  const kubectl = kubectlOf(world.sandbox);
  const maintenance = {
    apiVersion: 'nodemaintenance.k8s.io/v1alpha1',
    kind: 'NodeMaintenance',
    metadata: { name: 'listeners' },
    spec: { stage: 'Idle', nodeSelector: selectNodes(['node-1']) },
  };
  const { stderr } = await kubectl(['create', '--as', 'mallory', '-f', '-'], maintenance);
  expect(stderr).toContain('user "mallory" may not delete node "node-1"');
}

async function expectAllServed(): Promise<void> {
  expect(await page('health', '/healthz')).toBe('ok\n');
  expect(await page('health', '/readyz')).toBe('ok\n');
  const metrics = await page('metrics', '/metrics');
  expect(metrics).toContain('node_maintenance_maintenances');
  expect(metrics).toContain('temporal_');
  await expectReviews();
}

/** Opens two connections that send no whole request, and resolves with the answer when both are closed. */
async function answerToSlow(server: Server): Promise<string> {
  const port = portOf(server);
  const silent = await connectRaw(port);
  const slow = await connectRaw(port, { over: overOf(server) });
  slow.socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n');
  const writing = setInterval(() => slow.socket.write('X-Slow: x\r\n'), 500);
  const answer = await slow.closed;
  clearInterval(writing);
  await silent.closed;
  return answer;
}

describe.each(servers)('the %s server', (server) => {
  let port: number;
  const over = overOf(server);

  beforeEach(() => {
    port = portOf(server);
  });

  test.each(['//', '///', 'http://[', '/%zz', '*'])('answers GET %s with 404, and lives', async (target) => {
    const connection = await connectRaw(port, { over });
    expect(await statusesOf(connection, `GET ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)).toEqual([404]);
    connection.socket.destroy();
    await expectAllServed();
  });

  test('lives through any bytes', async () => {
    const attack = async (batch: Uint8Array[]) => {
      await Promise.all(batch.map((bytes) => exchange(port, bytes, { over })));
      await Promise.all(batch.map((bytes) => exchange(port, bytes)));
    };
    const batches = fc.array(malformedRequests, { minLength: 20, maxLength: 20 });
    await fc.assert(fc.asyncProperty(batches, attack), { numRuns: 15 });
    await expectAllServed();
  });

  test('closes slow connections, with 408', async () => {
    expect(await answersToSlow.get(server)).toMatch(/^HTTP\/1\.1 408 /);
  });

  test('serves its clients while one peer opens 3,334 connections and keeps them', async () => {
    const strangers: RawConnection[] = [];
    while (strangers.length < 3_334) {
      const batch = Array.from({ length: 200 }, () => connectRaw(port, { from: '127.0.0.2' }));
      strangers.push(...(await Promise.all(batch)));
      if (strangers.length % 1_000 === 0) await expectAllServed();
    }
    const metrics = await page('metrics', '/metrics');
    expect(metrics).toContain(
      `node_maintenance_http_rejections_total{server="${server}",reason="ConnectionLimit"}`,
    );
    for (const { socket } of strangers) socket.destroy();
    await expectAllServed();
  });
});

describe('the webhook server', () => {
  const head = (...lines: string[]) =>
    [
      `POST ${paths.authorization} HTTP/1.1`,
      'Host: x',
      'Content-Type: application/json',
      ...lines,
      '',
      '',
    ].join('\r\n');

  test('answers a body of 9 MiB with 413', async () => {
    const bytes = 9 * 1024 * 1024;
    const connection = await connectRaw(portOf('webhook'), { over: 'tls' });
    const text = `${head(`Content-Length: ${bytes}`)}${'x'.repeat(bytes)}`;
    expect(await statusesOf(connection, text)).toEqual([413]);
    connection.socket.destroy();
    await expectReviews();
  });

  test('answers 8 MiB of nested arrays with 400, without running out of memory', async () => {
    const half = 4 * 1024 * 1024;
    const connections = await Promise.all(
      Array.from({ length: 10 }, () => connectRaw(portOf('webhook'), { over: 'tls' })),
    );
    const text = `${head(`Content-Length: ${2 * half}`)}${'['.repeat(half)}${']'.repeat(half)}`;
    for (const connection of connections) {
      expect(await statusesOf(connection, text)).toEqual([400]);
      connection.socket.destroy();
    }
    await expectReviews();
  });

  test('serves the apiserver while peers send large bodies slowly', async () => {
    const port = portOf('webhook');
    const strangers = await Promise.all(
      Array.from({ length: 20 }, () => connectRaw(port, { over: 'tls', from: '127.0.0.2' })),
    );
    for (const { socket } of strangers)
      socket.write(`${head('Content-Length: 8000000')}${' '.repeat(4_000_000)}`);
    await eventually('most of them to be given up', async () => {
      expect(strangers.filter((one) => !one.isClosed()).length).toBeLessThanOrEqual(6);
      await expectReviews();
    });
    expect(await page('metrics', '/metrics')).toContain('{server="webhook",reason="MemoryLimit"}');
    for (const { socket } of strangers) socket.destroy();
  });
});

test('a server listens only on the address that is set, and on all if none is', async () => {
  const status = async (host: string, server: Server, path: string) =>
    (await fetch(`http://${host}:${portOf(server)}${path}`)).status;
  expect(await status('127.0.0.1', 'metrics', '/metrics')).toBe(200);
  await expect(status('127.0.0.2', 'metrics', '/metrics')).rejects.toThrow('fetch failed');
  expect(await status('127.0.0.2', 'health', '/healthz')).toBe(200);
});

test('no bytes of all these made the worker log a fatal error', () => {
  expect(worker.log()).not.toMatch(/"level":60/);
});
