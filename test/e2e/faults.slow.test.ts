import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { resources } from '../../kube/resources.ts';
import { type ServerName, serverNames } from '../../sandbox/layout.ts';
import { compact } from '../kit/etcd.ts';
import { WorkerSlot } from '../chaos/workerSlot.ts';
import { eventually } from '../kit/eventually.ts';
import { ExecutedDocument } from '../kit/executedDocument.ts';
import { createWorld, drained, finished, type World } from '../kit/world.ts';

// Each row of the table in docs/how-to/faults.md.

interface Row {
  fault: string;
  command: string;
  prints: string;
}

const document = readFileSync(new URL('../../docs/how-to/faults.md', import.meta.url), 'utf8');
const rows: Row[] = document
  .split('\n')
  .filter((line) => line.startsWith('| ') && line.includes('`kubectl'))
  .map((line) => {
    const [, fault = '', command = '', prints = ''] = line.split('|').map((cell) => cell.trim());
    return { fault, command: command.replaceAll('`', ''), prints: prints.replaceAll('`', '') };
  });

/** Ends a fault. */
type End = () => Promise<void> | void;

let world: World;
let slot: WorkerSlot;
let shell: ExecutedDocument;

beforeAll(async () => {
  world = await createWorld({ nodes: 3, ownServers: true });
  slot = await WorkerSlot.create(world.sandbox, 'evacuation');
  await slot.ready();
  shell = await ExecutedDocument.in(world, 'faults');
  const labels = { app: 'guarded' };
  await world.placePods('node-1', 1, { labels });
  await world.budget('guarded', labels, { minAvailable: 1 });
  await world.apply('rack-7', { nodes: ['node-1'], stage: 'Drain' });
  await eventually('the drain to be blocked', async () =>
    expect(await printed('kubectl maintenance status rack-7')).toContain('1 blocked'),
  );
});
afterAll(async () => {
  await slot?.close();
  await world?.close();
});

/** Lines may be wrapped. */
async function printed(command: string): Promise<string> {
  return (await shell.run(command)).replaceAll(/\s+/g, ' ');
}

async function workerKilled(): Promise<End> {
  await slot.kill();
  return () => undefined;
}

async function killed(name: ServerName): Promise<End> {
  const server = world.sandbox.server(name);
  await server.kill();
  return startAll;
}

async function hanging(name: ServerName): Promise<End> {
  const server = world.sandbox.server(name);
  server.pause();
  return async () => {
    server.resume();
    await startAll();
  };
}

/** Some servers exit by themselves while the apiserver does not answer. */
async function startAll(): Promise<void> {
  for (const name of serverNames) await world.sandbox.server(name).start();
}

/** Its new budget is not computed. */
async function withoutControllers(): Promise<End> {
  const end = await killed('kube-controller-manager');
  const labels = { app: 'late' };
  const budget = {
    metadata: { name: 'late', namespace: 'default' },
    spec: { minAvailable: 0, selector: { matchLabels: labels } },
  };
  await world.kube.create(resources.podDisruptionBudgets, budget);
  await world.placePods('node-1', 1, { labels, awaited: false });
  return end;
}

const causes: Record<string, () => Promise<End>> = {
  'the worker is killed': workerKilled,
  'the worker hangs': async () => {
    slot.hang();
    return () => slot.resume();
  },
  'the admission server is down': workerKilled,
  'the apiserver is down': () => killed('kube-apiserver'),
  'the apiserver hangs': () => hanging('kube-apiserver'),
  'etcd is down': () => killed('etcd'),
  'etcd hangs': () => hanging('etcd'),
  'kube-controller-manager is down': withoutControllers,
  'Temporal is down': () => killed('temporal'),
  'Temporal hangs': () => hanging('temporal'),
  'the worker does not reach Temporal': async () => {
    slot.beginTemporalFault('Refuse');
    return () => slot.endNetworkFaults();
  },
  'the worker does not reach the apiserver': async () => {
    slot.beginApiserverFault('Refuse');
    return () => slot.endNetworkFaults();
  },
  'the apiserver rejects the requests of the worker': async () => {
    slot.beginApiserverFault('Answer503');
    return () => slot.endNetworkFaults();
  },
  'etcd forgets old revisions': async () => {
    const end = await killed('kube-apiserver');
    await compact(world.sandbox);
    await end();
    return () => undefined;
  },
  'the clock of the worker is wrong': async () => {
    slot.setClock(600);
    await drainContinues();
    return () => slot.setClock(0);
  },
  'the worker is replaced by a rollout': async () => {
    await slot.rollOut();
    return () => undefined;
  },
};

/** A new pod leaves the node, which is drained. */
async function drainContinues(): Promise<void> {
  const [name = ''] = await eventually('a new pod', () => world.placePods('node-1', 1, { awaited: false }));
  await eventually('the new pod to leave', async () =>
    expect(await world.kube.get(resources.pods, { namespace: 'default', name })).toBeUndefined(),
  );
}

test('the table has a row for each fault', () => {
  expect(rows.map(({ fault }) => fault)).toEqual(Object.keys(causes));
});

describe('while', () => {
  test.each(rows)('$fault, $command prints: $prints', async ({ fault, command, prints }) => {
    const end = await causes[fault]?.();
    try {
      await eventually(`${command} to print it`, async () =>
        expect(await printed(command)).toContain(prints),
      );
    } finally {
      await end?.();
    }
    await slot.ready();
    await drainContinues();
    await eventually('the status to be as before', async () =>
      expect(await printed('kubectl maintenance status rack-7')).toMatch(/, 1 blocked; no estimate/),
    );
  });
});

test('after all of them the node is drained, and returns to service', async () => {
  const key = { namespace: 'default', name: 'guarded' };
  const { uid = '' } = (await world.kube.get(resources.podDisruptionBudgets, key))?.metadata ?? {};
  // A simulated pod stays not Ready after its node was, so that no budget counts it any more.
  await world.kube.delete(resources.podDisruptionBudgets, key, { uid });
  await world.eventually('rack-7', 'it is drained', drained);
  await world.patch('rack-7', { stage: 'Complete' });
  await world.eventually('rack-7', 'it is complete', finished);
});
