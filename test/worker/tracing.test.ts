import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { context, diag, propagation, trace } from '@opentelemetry/api';
import type { NodeMaintenance } from '../../api/nodeMaintenance.ts';
import type { Cluster } from '../../kube/cluster.ts';
import { startTracing } from '../../worker/tracing.ts';
import { recordedLog } from '../kube/fixtures.ts';

// Collectors that do not work. test/e2e/observability.slow.test.ts has one that does.

const endpoint = 'OTEL_EXPORTER_OTLP_ENDPOINT';
let collector: Server;
let connected: Promise<unknown[]>;

beforeEach(async () => {
  collector = createServer();
  connected = once(collector, 'connection');
  await once(collector.listen(0, '127.0.0.1'), 'listening');
  process.env[endpoint] = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`;
});
afterEach(() => {
  delete process.env[endpoint];
  collector.close();
  for (const api of [trace, context, propagation, diag]) api.disable();
});

/** Returns what exports the span of a maintenance that has completed. */
async function tracingOf(log: ReturnType<typeof recordedLog>, timeoutMs: number) {
  const tracing = startTracing(log, timeoutMs);
  const metadata = { name: 'rack-7', uid: crypto.randomUUID(), creationTimestamp: new Date().toISOString() };
  const object = { metadata, spec: { stage: 'Complete' } } as NodeMaintenance;
  type Subscriber = Parameters<Cluster['maintenances']['subscribe']>[0];
  const maintenances = {
    list: () => [],
    subscribe: (subscriber: Subscriber) => {
      subscriber({ type: 'Deleted', key: 'rack-7', object });
      return () => undefined;
    },
  } as unknown as Cluster['maintenances'];
  await tracing.observe({ maintenances }, AbortSignal.abort());
  return tracing;
}

test('a collector that refuses connections fails nothing, and is logged once', async () => {
  collector.close();
  const log = recordedLog();
  const tracing = await tracingOf(log, 60_000);
  await tracing.close();
  await tracing.close();
  expect(log.lines).toEqual([
    {
      level: 'warn',
      message: 'Traces could not be exported',
      fields: { error: expect.stringContaining('ECONNREFUSED') },
    },
  ]);
});

test('a collector that never answers delays the end of the process for a limited time, and is logged', async () => {
  const log = recordedLog();
  const tracing = await tracingOf(log, 100);
  await tracing.close();
  const [socket] = (await connected) as [Socket];
  // The request has not failed yet.
  expect(socket.closed).toBe(false);
  expect(log.lines.map(({ fields }) => fields)).toEqual([{ error: 'no response within 0.1 s' }]);
  socket.destroy();
});
