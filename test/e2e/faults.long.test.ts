import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type RawPod, resources } from '../../kube/resources.ts';
import { layoutOf, type ServerName, serverNames } from '../../sandbox/layout.ts';
import type { ApiserverFault, NetworkFault } from '../chaos/fault.ts';
import { expireWebhookCertificate, webhookProblems } from '../chaos/webhookCertificate.ts';
import { missingForClocks } from '../chaos/fakeClock.ts';
import { WorkerSlot } from '../chaos/workerSlot.ts';
import { AgentHost, type AgentProcess } from '../kit/agent.ts';
import { compact } from '../kit/etcd.ts';
import { Requirement, testsWith } from '../kit/requirements.ts';
import { eventually, throughout } from '../kit/eventually.ts';
import { ExecutedDocument } from '../kit/executedDocument.ts';
import { unpackPreviousRelease } from '../kit/previousRelease.ts';
import { controllers, startAdmission, startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, stageStarted, type World } from '../kit/world.ts';

// Each row of the table in docs/how-to/faults.md.

interface Row {
  fault: string;
  command: string;
  prints: string;
  /** The status is as without the fault. */
  isUnchanged: boolean;
}

const document = readFileSync(new URL('../../docs/how-to/faults.md', import.meta.url), 'utf8');
const [table = ''] = document.split('\n## ');
const rows: Row[] = table
  .split('\n')
  .filter((line) => line.startsWith('| ') && line.includes('`kubectl'))
  .map((line) => {
    const [, fault = '', command = '', prints = ''] = line.split('|').map((cell) => cell.trim());
    return {
      fault,
      command: codeIn(command),
      prints: codeIn(prints),
      isUnchanged: prints.startsWith('unchanged'),
    };
  });

function codeIn(cell: string): string {
  const [, code] = /`(.+)`/.exec(cell) ?? [];
  if (code === undefined) throw new Error(`a cell of the table has no text in backticks: ${cell}`);
  return code;
}

/** Ends a fault. */
type End = () => Promise<void> | void;

interface Fault {
  /** Name of the fault: that of the results of chaos runs, where these have it. */
  name: string;
  begin: () => Promise<End> | End;
  /** Resolves when the fault has had an effect that the command does not show, or when the drain has continued in spite of it. */
  effect?: (() => Promise<void>) | undefined;
}

const status = 'kubectl maintenance status rack-7';
/** Longer than the time after which the status reports that no worker is the leader: 3 s for the Lease, and 10 s for another worker. */
const unchangedMs = 15_000;
/** Less than the database of Temporal and the journal of any transaction. */
const fullFileBytes = 4_096;

let world: World;
let slot: WorkerSlot;
let admission: WorkerProcess;
let previous: WorkerProcess | undefined;
let shell: ExecutedDocument;

beforeAll(async () => {
  world = await createWorld({ nodes: 3, ownServers: true });
  // As in a cluster, where the admission server has a Deployment of its own.
  const env = { ...world.sandbox.env, COMPONENTS: 'controllers' };
  slot = await WorkerSlot.create({ ...world.sandbox, env }, 'evacuation');
  admission = startAdmission(world.sandbox);
  await Promise.all([slot.ready(), admission.ready()]);
  shell = await ExecutedDocument.in(world, 'faults');
  const labels = { app: 'guarded' };
  await world.placePods('node-1', 1, { labels });
  await world.budget('guarded', labels, { minAvailable: 1 });
  await world.apply('rack-7', { nodes: ['node-1'], stage: 'Drain' });
  await eventually('the drain to be blocked', async () =>
    expect(await printed(status)).toContain('1 blocked'),
  );
});
afterAll(async () => {
  await slot?.close();
  await Promise.all([admission?.kill(), previous?.kill()]);
  await world?.close();
});

/** Lines may be wrapped. */
async function printed(command: string): Promise<string> {
  return (await shell.run(command)).replaceAll(/\s+/g, ' ');
}

const worker = (name: string, begin: Fault['begin'], effect?: Fault['effect']): Fault => ({
  name,
  begin,
  effect,
});

const killed = (server: ServerName, effect?: Fault['effect']): Fault => ({
  name: `Kill ${server}`,
  begin: async () => {
    await world.sandbox.server(server).kill();
    return startAll;
  },
  effect,
});

const hanging = (name: ServerName, effect?: Fault['effect']): Fault => ({
  name: `Hang ${name}`,
  begin: () => {
    const server = world.sandbox.server(name);
    server.pause();
    return async () => {
      server.resume();
      await startAll();
    };
  },
  effect,
});

/** Some servers exit by themselves while the apiserver does not answer. */
async function startAll(): Promise<void> {
  for (const name of serverNames) await world.sandbox.server(name).start();
}

/** Returns a fault of the connections between the worker and the apiserver. */
const apiserver = (fault: ApiserverFault, effect?: Fault['effect']): Fault => ({
  name: `Apiserver ${fault}`,
  begin: () => slot.beginApiserverFault(fault),
  effect,
});

/** Returns a fault of the connections between the worker and Temporal. */
const temporal = (fault: NetworkFault, effect?: Fault['effect']): Fault => ({
  name: `Temporal ${fault}`,
  begin: () => slot.beginTemporalFault(fault),
  effect,
});

/** Returns what waits until the worker has logged each of these once more. */
function logs(...texts: string[]): () => Promise<void> {
  const count = (text: string) => slot.log().split(text).length - 1;
  return async () => {
    const before = texts.map((text) => ({ text, times: count(text) }));
    for (const { text, times } of before)
      await eventually(`the worker to log "${text}"`, () => expect(count(text)).toBeGreaterThan(times));
  };
}

/** Creates a budget whose status nobody computes now, and a pod that it protects. */
function uncomputedBudget(name: string): () => Promise<void> {
  return async () => {
    const labels = { app: name };
    const budget = {
      metadata: { name, namespace: 'default' },
      spec: { minAvailable: 0, selector: { matchLabels: labels } },
    };
    await world.kube.create(resources.podDisruptionBudgets, budget);
    await world.placePods('node-1', 1, { labels, awaited: false });
  };
}

const fullDisk: Fault = {
  name: 'FullDisk',
  begin: () => {
    const server = world.sandbox.server('temporal');
    server.limitFileSize(fullFileBytes);
    return async () => {
      server.limitFileSize(undefined);
      // It may have exited.
      await startAll();
    };
  },
};

const killedAdmission: Fault = {
  name: 'Kill admission',
  begin: async () => {
    await admission.kill();
    return admissionRestarted;
  },
  effect: drainContinues,
};

/** A server that issues its certificate itself would replace it at once: this one gets it from another program, as from cert-manager. */
const expiredWebhookCertificate: Fault = {
  name: 'ExpireWebhookCertificate',
  begin: async () => {
    await admission.kill();
    await expireWebhookCertificate(world.kube);
    const env = { WEBHOOK_CERTIFICATES: 'external' };
    admission = startWorker(world.sandbox, { args: ['--components', 'admission'], env });
    return admissionRestarted;
  },
  effect: async () => {
    await admission.ready();
    const log = layoutOf(world.sandbox.dir).log('kube-apiserver');
    await eventually('the log of the apiserver to name the cause', async () => {
      await printed('kubectl maintenance doctor');
      expect(readFileSync(log, 'utf8')).toContain('certificate has expired');
    });
    await drainContinues();
  },
};

/** Starts a server that issues its certificate itself. */
async function admissionRestarted(): Promise<void> {
  await admission.kill();
  admission = startAdmission(world.sandbox);
  await admission.ready();
  await eventually('a valid certificate', async () => expect(await webhookProblems(world.kube)).toEqual([]));
}

const compaction: Fault = {
  name: 'Expire',
  begin: async () => {
    await world.sandbox.server('kube-apiserver').kill();
    try {
      await compact(world.sandbox);
    } finally {
      await startAll();
    }
    return () => undefined;
  },
};

/** A worker of the previous release beside that of this one. */
const previousRelease: Fault = {
  name: 'PreviousRelease',
  begin: async () => {
    const { source } = await unpackPreviousRelease(shell.directory);
    previous = startWorker(world.sandbox, { ...controllers, source });
    return async () => void (await previous?.stop());
  },
  effect: async () => {
    await eventually('it to be ready', async () => expect(await previous?.readyz()).toMatch(/^200 ok/));
    await drainContinues();
  },
};

/** The agent of a node with a static pod, which ends when the drain knows it. */
function killedAgent(): Fault {
  let agent: AgentProcess | undefined;
  return {
    name: 'Kill agent',
    begin: async () => {
      const { kubeconfig } = world.sandbox;
      const host = await AgentHost.of(world.kube, { node: 'node-1', kubeconfig });
      const uid = await mirrorPod('static-node-1');
      agent = host.start();
      return async () => {
        await host.close();
        const key = { namespace: 'default', name: 'static-node-1' };
        await world.kube.delete(resources.pods, key, { uid, gracePeriodSeconds: 0 });
      };
    },
    effect: async () => {
      await world.eventually('rack-7', 'the drain knows the agent', (one) =>
        (one.status?.nodeStatuses ?? []).some(({ agentVersion }) => agentVersion !== undefined),
      );
      await agent?.kill();
      await drainContinues();
    },
  };
}

/** Creates a pod of node-1 as its kubelet does for a manifest, and returns its UID. */
async function mirrorPod(name: string): Promise<string> {
  const { uid: nodeUid = '' } = (await world.node('node-1')).metadata;
  const pod = {
    metadata: {
      name,
      namespace: 'default',
      annotations: { 'kubernetes.io/config.source': 'file', 'kubernetes.io/config.mirror': 'hash' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'node-1', uid: nodeUid, controller: true }],
    },
    spec: {
      nodeName: 'node-1',
      containers: [{ name: 'main', image: 'none' }],
      automountServiceAccountToken: false,
      tolerations: [{ operator: 'Exists' }],
    },
  } as RawPod;
  const { metadata } = await world.kube.create(resources.pods, pod);
  return metadata.uid ?? '';
}

const faults: Record<string, readonly Fault[]> = {
  'the worker is killed': [
    worker('KillWorker', async () => {
      await slot.kill();
      return () => undefined;
    }),
  ],
  'the worker hangs': [worker('HangWorker', () => slot.hang())],
  'the admission server is down': [killedAdmission],
  'the certificate of the webhooks has expired': [expiredWebhookCertificate],
  'the apiserver is down': [killed('kube-apiserver')],
  'the apiserver hangs': [hanging('kube-apiserver')],
  'etcd is down': [killed('etcd')],
  'etcd hangs': [hanging('etcd')],
  'kube-controller-manager is down, or hangs': [
    killed('kube-controller-manager', uncomputedBudget('killed')),
    hanging('kube-controller-manager', uncomputedBudget('hanging')),
  ],
  'Temporal is down': [killed('temporal')],
  'Temporal hangs': [hanging('temporal')],
  'the disk of Temporal is full': [fullDisk],
  'the worker does not reach Temporal': [temporal('Refuse'), temporal('Swallow')],
  'Temporal answers slowly': [temporal('Delay', drainContinues)],
  'connections to Temporal are frozen': [temporal('Freeze', newMaintenanceStarts)],
  'the worker does not reach the apiserver': [apiserver('Refuse'), apiserver('Swallow')],
  'the apiserver rejects the requests of the worker': [
    apiserver('Answer409'),
    apiserver('Answer429'),
    apiserver('Answer500'),
    apiserver('Answer503'),
  ],
  'the apiserver rejects the credentials of the worker': [apiserver('Answer401')],
  'the certificate of the apiserver has expired': [apiserver('ExpiredCertificate')],
  'answers of the apiserver are lost or truncated': [apiserver('LoseAnswers'), apiserver('Truncate')],
  'requests to the apiserver arrive twice': [apiserver('Repeat', logs('Leadership was lost'))],
  'the apiserver answers slowly': [apiserver('Delay', logs('Leadership was lost'))],
  'connections to the apiserver are frozen': [apiserver('Freeze', drainContinues)],
  'connections or watches are cut': [
    apiserver('Cut', drainContinues),
    apiserver('CutWatches', drainContinues),
    temporal('Cut', drainContinues),
  ],
  'etcd compacts old revisions': [compaction],
  'the clock of the worker is wrong': [worker('ClockJump', () => slot.setClock(600), drainContinues)],
  'the worker is replaced by a rollout': [
    worker('RollOut', async () => {
      await slot.rollOut();
      return () => undefined;
    }),
  ],
  'a worker of the previous release runs beside a new one': [previousRelease],
  'the node agent is down': [killedAgent()],
};

/** A maintenance of another node starts and ends, which needs Temporal. */
async function newMaintenanceStarts(): Promise<void> {
  await world.apply('rack-8', { nodes: ['node-2'], stage: 'Cordon' });
  await world.eventually('rack-8', 'it is started', (one) => stageStarted(one, 'Cordon'));
  await world.patch('rack-8', { stage: 'Complete' });
  await world.eventually('rack-8', 'it is complete', finished);
}

/** A new pod leaves the node, which is drained. */
async function drainContinues(): Promise<void> {
  const [name = ''] = await eventually('a new pod', () => world.placePods('node-1', 1, { awaited: false }));
  await eventually('the new pod to leave', async () =>
    expect(await world.kube.get(resources.pods, { namespace: 'default', name })).toBeUndefined(),
  );
}

test('the table has a row for each fault', () => {
  expect(rows.map(({ fault }) => fault)).toEqual(Object.keys(faults));
});

const tried = rows.flatMap((row) => (faults[row.fault] ?? []).map((fault) => ({ ...fault, ...row })));

describe('while', () => {
  for (const row of tried) {
    const declare = row.name === 'ClockJump' ? testsWith(Requirement.Clocks, missingForClocks) : test;
    declare(`${row.fault} (${row.name}), ${row.command} prints: ${row.prints}`, () => tryRow(row));
  }
});

async function tryRow(row: Row & Fault): Promise<void> {
  const { command, prints, isUnchanged } = row;
  const isPrinted = async () => {
    const output = await printed(command);
    expect(output).toContain(prints);
    if (isUnchanged) expect(output).not.toContain('not progressing');
  };
  const end = await row.begin();
  try {
    await row.effect?.();
    await eventually(`${command} to print it`, isPrinted);
    if (isUnchanged) await throughout('the status is unchanged', unchangedMs, isPrinted);
  } finally {
    await end();
  }
  await slot.ready();
  await drainContinues();
  await eventually('the status to be as before', async () => {
    const output = await printed(status);
    expect(output).toMatch(/, 1 blocked; no estimate/);
    expect(output).not.toContain('not progressing');
  });
}

test('after all of them the node is drained, and returns to service', async () => {
  const key = { namespace: 'default', name: 'guarded' };
  const { uid = '' } = (await world.kube.get(resources.podDisruptionBudgets, key))?.metadata ?? {};
  // A simulated pod stays not Ready after its node was, so that no budget counts it any more.
  await world.kube.delete(resources.podDisruptionBudgets, key, { uid });
  await world.eventually('rack-7', 'it is drained', drained);
  await world.patch('rack-7', { stage: 'Complete' });
  await world.eventually('rack-7', 'it is complete', finished);
});
