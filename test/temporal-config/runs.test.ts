import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { RawValue } from '@temporalio/common';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { describeRun, listRuns, type Run } from '../../temporal-config/runs.ts';
import { readableMemo } from '../../temporal-config/readableMemo.ts';
import { eventually } from '../kit/eventually.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';

let sandbox: Sandbox;
let connection: Connection;
let client: Client;
/** No worker polls it. */
const taskQueue = `runs-${randomUUID()}`;
const ids: string[] = [];

beforeAll(async () => {
  sandbox = await testSandbox();
  connection = await Connection.connect({ address: sandbox.temporalAddress });
  client = new Client({ connection, namespace: sandbox.temporalNamespace });
});

afterAll(async () => {
  for (const id of ids) await client.workflow.getHandle(id).terminate();
  await connection?.close();
  await releaseSandbox(sandbox);
});

async function started(memo: Record<string, RawValue>): Promise<string> {
  const workflowId = randomUUID();
  await client.workflow.start('any', { workflowId, taskQueue, memo });
  ids.push(workflowId);
  return workflowId;
}

const encoded = (encoding: string) =>
  RawValue.fromPayload({ metadata: { encoding: Buffer.from(encoding) }, data: Buffer.from('{') });

test('a memo that another writer chose hides no run, and its entries are read as empty', async () => {
  const own = await started(readableMemo({ clusterUid: 'u-1' }));
  const foreign = await started({
    clusterUid: encoded('binary/encrypted'),
    cluster: encoded('no/such'),
    broken: encoded('json/plain'),
    list: new RawValue(['u-1']),
  });
  const runs = await eventually('both runs to be listed', async () => {
    const found: Run[] = [];
    for await (const run of listRuns(client, `TaskQueue = "${taskQueue}"`)) found.push(run);
    expect(found).toHaveLength(2);
    return new Map(found.map((run) => [run.workflowId, run]));
  });
  expect(runs.get(own)).toMatchObject({ status: 'RUNNING', memo: { clusterUid: 'u-1' } });
  expect(runs.get(own)?.closeTime).toBeUndefined();
  const unreadable = { clusterUid: '', cluster: '', broken: '', list: '' };
  expect(runs.get(foreign)?.memo).toEqual(unreadable);
  expect((await describeRun(client, { workflowId: foreign }))?.memo).toEqual(unreadable);
});

test('every page of a list is read', async () => {
  const wanted = new Set(await Promise.all([1, 2, 3].map(() => started({}))));
  await eventually('all runs to be listed', async () => {
    const found = new Set<string>();
    for await (const { workflowId } of listRuns(client, `TaskQueue = "${taskQueue}"`, 2))
      found.add(workflowId);
    expect([...wanted].filter((id) => !found.has(id))).toEqual([]);
  });
});

test('the status of a run that has ended is that of the SDK, and a run that does not exist is none', async () => {
  const workflowId = randomUUID();
  const handle = await client.workflow.start('any', { workflowId, taskQueue });
  await handle.terminate();
  const run = await describeRun(client, { workflowId, runId: handle.firstExecutionRunId });
  expect(run).toMatchObject({ workflowId, runId: handle.firstExecutionRunId, memo: {} });
  expect(run?.status).toBe((await handle.describe()).status.name);
  expect(run?.closeTime).toBeInstanceOf(Date);
  expect(await describeRun(client, { workflowId: randomUUID() })).toBeUndefined();
});
