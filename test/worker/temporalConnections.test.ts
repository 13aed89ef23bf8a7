import { getEventListeners } from 'node:events';
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import type { ConnectionSettings } from '../../temporal-config/connection.ts';
import { TemporalConnections } from '../../worker/temporalConnections.ts';
import { eventuallyHolds } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { type LogRecorder, recordedLog } from '../kube/fixtures.ts';

let sandbox: Sandbox;
let connections: TemporalConnections;
let stop: AbortController;
let reloading: Promise<void>;

beforeAll(async () => {
  sandbox = await testSandbox();
});
afterEach(async () => {
  stop.abort();
  await reloading;
  await connections.close();
});
afterAll(() => releaseSandbox(sandbox));

/** Settings for the Temporal of the sandbox, which accepts every key. */
const withKey = (apiKey: string, differs: Partial<ConnectionSettings> = {}): ConnectionSettings => ({
  connectionOptions: { address: sandbox.temporalAddress, tls: false, apiKey },
  address: sandbox.temporalAddress,
  namespace: 'default',
  source: 'the environment',
  ...differs,
});

/** Reloads what `read` returns, and counts how often. */
function reload(read: () => ConnectionSettings): { log: LogRecorder; readings: () => number } {
  const log = recordedLog();
  let readings = 0;
  stop = new AbortController();
  const counted = () => {
    readings += 1;
    return read();
  };
  reloading = connections.reload(log, stop.signal, { read: counted, everyMs: 100 });
  return { log, readings: () => readings };
}

test('a key that the workers could not take is tried again', async () => {
  connections = new TemporalConnections(withKey('key-1'));
  const native = await connections.connectWorkers();
  const setApiKey = jest.spyOn(native, 'setApiKey').mockRejectedValueOnce(new Error('not now'));
  const { log } = reload(() => withKey('key-2'));
  await eventuallyHolds(
    'the key to be in use',
    () => log.lines.map(({ message }) => message),
    (messages) => messages.includes('Temporal credentials reloaded'),
  );
  expect(log.lines[0]).toEqual({
    level: 'warn',
    message: 'Temporal credentials could not be reloaded, and the former ones stay in use',
    fields: { reason: 'not now' },
  });
  expect(setApiKey.mock.calls).toEqual([['key-2'], ['key-2']]);
  expect(connections.settings.connectionOptions.apiKey).toBe('key-2');
});

test('another address or namespace is logged once, and again after another change', async () => {
  connections = new TemporalConnections(withKey('key-1'));
  let next = withKey('key-1');
  const { log, readings } = reload(() => next);
  const read = async (settings: ConnectionSettings, times: number) => {
    next = settings;
    const before = readings();
    await eventuallyHolds('the settings to be read', readings, (count) => count >= before + times);
  };
  await read(withKey('key-1', { address: 'other.example.com:7233' }), 2);
  await read(withKey('key-1'), 1);
  await read(withKey('key-1', { namespace: 'other' }), 1);
  stop.abort();
  await reloading;
  expect(log.lines.map(({ fields }) => fields)).toEqual([
    { address: 'other.example.com:7233', namespace: 'default', source: 'the environment' },
    { address: sandbox.temporalAddress, namespace: 'other', source: 'the environment' },
  ]);
  expect(log.lines[0]?.message).toContain('restart the worker');
  expect(connections.settings).toEqual(withKey('key-1'));
});

test('requests leave nothing on the signal that may abort them, and it aborts those in progress', async () => {
  connections = new TemporalConnections(withKey('key-1'));
  reload(() => withKey('key-1'));
  const { client } = connections;
  const leading = new AbortController();
  const describe = () => client.workflowService.describeNamespace({ namespace: 'default' });
  for (let request = 0; request < 3; request += 1) await client.withAbortSignal(leading.signal, describe);
  expect(getEventListeners(leading.signal, 'abort')).toEqual([]);
  const polling = client.withAbortSignal(leading.signal, () =>
    client.workflowService.pollWorkflowTaskQueue({
      namespace: 'default',
      taskQueue: { name: 'nothing-to-do' },
    }),
  );
  leading.abort();
  await expect(polling).rejects.toThrow(/cancelled/i);
});
