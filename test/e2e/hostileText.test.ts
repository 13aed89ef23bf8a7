import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { Lease } from '../../api/core.ts';
import { NODE_LEASE_NAMESPACE } from '../../api/names.ts';
import { workflowIdOf } from '../kit/temporalNames.ts';
import { microTime } from '../../kube/leaseRecord.ts';
import { resources } from '../../kube/resources.ts';
import { kubectlOf, succeeds } from '../api/kubectl.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { interpretedMarkdown, unprintable } from '../kit/hostileText.ts';
import { selectNodes } from '../kit/resources.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, type World } from '../kit/world.ts';

// The texts of a user, of the holder of a Lease and of an evacuator, on their way to the readers: that every path is connected.
// Which texts are escaped, and how: test/domain/hostileText.test.ts, test/cli/hostileText.test.ts.

const hostile = '\u001b]0;owned\u0007\u202e[evil](https://evil.example)<b>\n| x |\n# Drained';
const name = 'hostile';

let world: World;
let worker: WorkerProcess;

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
  worker = startWorker(world.sandbox);
  await worker.ready();
  await eventuallyHolds('the Lease of node-2', leaseOfNode2, (lease) => lease !== undefined);
  const spec = { holderIdentity: hostile, renewTime: microTime(new Date()), leaseDurationSeconds: 3_600 };
  await world.kube.mergePatch(
    resources.leases,
    { namespace: NODE_LEASE_NAMESPACE, name: 'node-2' },
    { spec },
  );
  const annotations = { 'evacuation.coordination.k8s.io/priority_evil.example.com': '10/evil' };
  await world.placePods('node-1', 1, { annotations });
  await world.apply(name, { nodes: ['node-1', 'node-2'], stage: 'Drain', reason: hostile });
  const [evacuation] = await eventuallyHolds(
    'the evacuator to be active',
    async () => (await world.kube.list(resources.evacuations, { namespace: 'default' })).items,
    ([one]) => one?.status?.activeEvacuatorClass === 'evil.example.com',
  );
  const key = { namespace: 'default', name: evacuation?.metadata.name ?? '' };
  const status = { message: hostile };
  await world.kube.mergePatch(resources.evacuations, key, { status }, { subresource: 'status' });
  await world.eventually(name, 'the Lease to be waited for', ({ status: found }) =>
    JSON.stringify(found?.conditions).includes('held by'),
  );
});

afterAll(async () => {
  await worker?.kill();
  await world?.close();
});

const leaseOfNode2 = (): Promise<Lease | undefined> =>
  world.kube.get(resources.leases, { namespace: NODE_LEASE_NAMESPACE, name: 'node-2' });

const unprintableLines = (text: string) => text.split('\n').filter((line) => unprintable.test(line));

/** Returns all strings of a value. */
function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : [];
}

test('the status and the Events of a maintenance contain no control character', async () => {
  const maintenance = await world.maintenance(name);
  const texts = textsIn(maintenance?.status);
  expect(texts.some((text) => text.includes(String.raw`held by \u001b]0;owned\u0007`))).toBe(true);
  expect(texts.filter((text) => unprintable.test(text))).toEqual([]);
  const { items } = await world.kube.list(resources.events);
  const own = items.filter(({ involvedObject }) => involvedObject.name === name);
  expect(own.some(({ message }) => message.includes('held by'))).toBe(true);
  expect(own.filter(({ message }) => unprintable.test(message))).toEqual([]);
});

describe('kubectl maintenance prints no control character', () => {
  test.each([
    { command: ['status', name], shows: 'evil.example.com' },
    { command: ['status', name, '-o', 'json'], shows: '"reason"' },
    { command: ['status', name, '-o', 'yaml'], shows: 'reason: ' },
    { command: ['plan', 'node-1', 'node-2'], shows: 'are held by others' },
    { command: ['lease', 'list'], shows: 'owned' },
    { command: ['history', name], shows: 'started' },
  ])('in $command', async ({ command, shows }) => {
    await eventually('what it prints', async () => {
      const output = await succeeds(kubectlOf(world.sandbox)(['maintenance', ...command]));
      expect(output).toContain(shows);
      expect(unprintableLines(output)).toEqual([]);
    });
  });
});

test('the Temporal UI gets the reason as plain text', async () => {
  const handle = world.temporal.workflow.getHandle(workflowIdOf(name));
  const described = await handle.describe();
  const summary = (await described.staticSummary()) ?? '';
  const { currentDetails } = await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata');
  const memo = textsIn(described.memo);
  for (const text of [summary, currentDetails]) {
    expect(text).toContain('evil');
    expect(interpretedMarkdown(text)).not.toMatch(/[[\]<>]/);
    expect(unprintableLines(text)).toEqual([]);
  }
  expect(memo.filter((text) => unprintable.test(text))).toEqual([]);
});

test('the log of the worker contains no control character', () => {
  expect(unprintableLines(worker.log())).toEqual([]);
});

describe('64 KiB are rejected, with the field and the limit,', () => {
  const long = 'x'.repeat(65_536);

  test('as the reason of a maintenance', async () => {
    const spec = { stage: 'Idle', reason: long, nodeSelector: selectNodes(['node-1']) } as const;
    await expect(
      world.kube.create(resources.nodeMaintenances, { metadata: { name: 'long' }, spec }),
    ).rejects.toThrow(/spec\.reason: Too long: may not be more than 1024/);
  });

  test('as the message of an evacuator', async () => {
    const { items } = await world.kube.list(resources.evacuations, { namespace: 'default' });
    const key = { namespace: 'default', name: items[0]?.metadata.name ?? '' };
    const status = { message: long };
    await expect(
      world.kube.mergePatch(resources.evacuations, key, { status }, { subresource: 'status' }),
    ).rejects.toThrow(/status\.message: Too long: may not be more than 32768/);
  });

  test('as the name in the input of a workflow, of which the failure contains the beginning', async () => {
    const handle = await world.temporal.workflow.start('nodeMaintenance', {
      workflowId: `hostile-${crypto.randomUUID()}`,
      taskQueue: 'node-maintenance',
      args: [{ name: 'long', nodes: ['node-1'], [`\u001b${long}`]: 1 }],
    });
    const failure = await handle.result().catch((error: unknown) => error as Error & { cause?: Error });
    const message = (failure as Error & { cause?: Error }).cause?.message ?? '';
    expect(message).toContain(String.raw`\u001bxxx`);
    expect(message.length).toBeLessThanOrEqual(4_000);
    expect(message).not.toMatch(unprintable);
  });
});
