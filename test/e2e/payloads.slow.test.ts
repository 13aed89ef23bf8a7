import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection, type WorkflowHandle } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { isStalled, stalledMessage } from '../../domain/common/stalledRun.ts';
import { resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { type Answer, kubectlOf, succeeds } from '../api/kubectl.ts';
import { type CodecServerProcess, startCodecServer } from '../kit/codecServer.ts';
import { eventually, eventuallyHolds } from '../kit/eventually.ts';
import { type KeyFolder, keyFolder } from '../kit/payloadKeys.ts';
import { selectNodes } from '../kit/resources.ts';
import { windowWorkflowIdOf, workflowIdOf } from '../kit/temporalNames.ts';
import { startWorker, type WorkerProcess } from '../kit/worker.ts';
import { createWorld, drained, finished, stageStarted, type World } from '../kit/world.ts';

// Payloads are encrypted from some day on, while maintenances run; then the key is rotated, and once a worker has no keys. What Temporal
// stores is read by a client without keys.

const namespace = 'encrypted';
const reason = 'replace the disk of jane';
/** Texts that are no names of objects, which Temporal shows. */
const secrets = [reason, 'node-1', 'node-2'];
const token = 'token-of-the-cli';

let world: World;
let keys: KeyFolder;
let raw: Client;
let worker: WorkerProcess;
let codecServer: CodecServerProcess | undefined;

beforeAll(async () => {
  world = await createWorld({ nodes: 2 });
  keys = await keyFolder('2026-11');
  const connection = await Connection.connect({ address: world.sandbox.temporalAddress });
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: msToTs('7 days'),
  });
  raw = new Client({ connection, namespace });
});

afterAll(async () => {
  await codecServer?.stop();
  await worker?.stop();
  await raw?.connection.close();
  await keys?.discard();
  await world?.close();
});

const withKeys = () => ({ TEMPORAL_NAMESPACE: namespace, NODE_MAINTENANCE_PAYLOAD_KEYS: keys.path });
const withoutKeys = () => ({ TEMPORAL_NAMESPACE: namespace });

async function restart(env: NodeJS.ProcessEnv): Promise<void> {
  await worker?.stop();
  worker = startWorker(world.sandbox, { env });
  await worker.ready();
}

const handleOf = (name: string) => raw.workflow.getHandle(workflowIdOf(name));

/** Runs the plugin as a user who has these variables. */
function maintenance(env: Record<string, string>, ...args: string[]): Promise<Answer> {
  const sandbox: Sandbox = { ...world.sandbox, env: { ...world.sandbox.env, ...env } };
  return kubectlOf(sandbox)(['maintenance', ...args]);
}

async function temporal(...args: string[]): Promise<string> {
  const cli = join(world.sandbox.bin, 'temporal');
  const options = ['--address', world.sandbox.temporalAddress, '--namespace', namespace];
  const { stdout } = await promisify(execFile)(cli, [...args, ...options], { maxBuffer: 64 * 1024 * 1024 });
  return stdout;
}

/** Everything that Temporal stores about the events of a run, without search attributes, which are documented as readable. */
async function storedText(handle: WorkflowHandle): Promise<string> {
  const { events } = await handle.fetchHistory();
  return textOf(events);
}

function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return `${Buffer.from(value).toString('latin1')}\n`;
  if (typeof value !== 'object' || value === null) return `${String(value)}\n`;
  return Object.entries(value)
    .filter(([name]) => name !== 'searchAttributes')
    .map(([name, field]) => `${name}=${textOf(field)}`)
    .join('');
}

/** Lets a pod go that a drain waits for. */
async function release(pods: readonly string[]): Promise<void> {
  for (const name of pods)
    await world.kube.mergePatch(
      resources.pods,
      { namespace: 'default', name },
      { metadata: { finalizers: null } },
    );
}

async function applyWindow(name: string): Promise<void> {
  await world.kube.create(resources.maintenanceWindows, {
    metadata: { name },
    spec: {
      schedule: {
        calendar: [{ time: '03:00', daysOfMonth: [28], months: [12] }],
        timeZone: 'UTC',
        duration: '2h',
      },
      nodeSelector: selectNodes(['node-1']),
      template: { reason },
      suspend: true,
    },
  } as never);
}

async function deleteWindow(name: string): Promise<void> {
  const uid = (await world.kube.get(resources.maintenanceWindows, { name }))?.metadata.uid;
  await world.kube.delete(resources.maintenanceWindows, { name }, { uid: uid ?? '' });
}

/** Waits until condition Scheduled of a window has the reason. */
const scheduledReason = (name: string, wanted: string) =>
  eventuallyHolds(
    `the condition of ${name} to be ${wanted}`,
    async () =>
      (await world.kube.get(resources.maintenanceWindows, { name }))?.status?.conditions?.find(
        ({ type }) => type === 'Scheduled',
      )?.reason,
    (found) => found === wanted,
  );

const held = { finalizers: ['example.com/held'] };
const tiers = [
  { podType: 'Default' as const, podPriority: 1_000 },
  { podType: 'Default' as const, podPriority: 2_000_000_000 },
];

describe('encryption that is enabled while a maintenance runs', () => {
  test('continues its run, whose older payloads stay readable', async () => {
    await restart(withoutKeys());
    await world.apply('in-flight', { nodes: ['node-1'], stage: 'Cordon', reason });
    await world.eventually('in-flight', 'Cordon has started', (one) => stageStarted(one, 'Cordon'));
    expect(await storedText(handleOf('in-flight'))).toContain('node-1');
    await worker.stop();
    const { length: before } = (await handleOf('in-flight').fetchHistory()).events ?? [];
    await restart(withKeys());
    await world.placePods('node-1', 2);
    await world.patch('in-flight', { stage: 'Drain' });
    await world.eventually('in-flight', 'it is drained', drained);
    await world.patch('in-flight', { stage: 'Complete' });
    await world.eventually('in-flight', 'it is finished', finished);
    const { events = [] } = await handleOf('in-flight').fetchHistory();
    const later = textOf(events?.slice(before));
    for (const secret of secrets) expect(later).not.toContain(secret);
    expect(later).toContain('2026-11');
    await eventuallyHolds(
      'the run to be completed',
      async () => (await handleOf('in-flight').describe()).status.name,
      (status) => status === 'COMPLETED',
    );
  });
});

describe('a drain with encrypted payloads, whose key is rotated in the middle', () => {
  let pods: string[];

  test('continues with the new key, without a restart', async () => {
    pods = await world.placePods('node-2', 2, held);
    await world.apply('rotated', { nodes: ['node-2'], stage: 'Drain', reason, drainPlan: tiers });
    await eventuallyHolds(
      'the drain to wait for a pod',
      () => world.podsOn('node-2'),
      (found) => found.some(({ metadata }) => metadata.deletionTimestamp !== undefined),
    );
    await keys.add('2027-02');
    await keys.use('2027-02');
    let edits = 0;
    await eventually('a payload of the new key', async () => {
      // Each edit is signalled to the run.
      await world.patch('rotated', { reason: `${reason}, edit ${(edits += 1)}` });
      expect(await storedText(handleOf('rotated'))).toContain('2027-02');
    });
    expect(await storedText(handleOf('rotated'))).toContain('2026-11');
    await release(pods);
    await world.eventually('rotated', 'it is drained', drained);
    expect(worker.log()).not.toContain('could not be decrypted');
  });

  test('leaves neither reason nor node names in what Temporal stores, but ids, memo and search attributes', async () => {
    const stored = await storedText(handleOf('rotated'));
    for (const secret of secrets) expect(stored).not.toContain(secret);
    const described = await handleOf('rotated').describe();
    expect(textOf(described.raw)).not.toContain(reason);
    expect(described.memo).toMatchObject({ kubectl: 'kubectl maintenance status rotated' });
    expect(Object.keys(described.memo ?? {}).toSorted()).toEqual(['clusterUid', 'kubectl']);
    expect(described.searchAttributes['MaintenanceNodes']).toEqual(['node-2']);
    await expect(described.staticSummary()).rejects.toThrow('Unknown encoding: binary/encrypted');
  });

  test('is shown by the CLI with the keys, and without them with the remedy', async () => {
    const status = await succeeds(maintenance(withoutKeys(), 'status', 'rotated'));
    expect(status).toContain(reason);
    const read = await maintenance(withKeys(), 'history', 'rotated');
    expect(read).toMatchObject({ code: 0, stderr: '' });
    expect(read.stdout).toMatch(/started stage Drain/);
    expect(read.stdout).toMatch(/reported generation 1: stage Drain/);
    const blind = await maintenance(withoutKeys(), 'history', 'rotated');
    expect(blind.code).toBe(0);
    expect(blind.stderr).toContain(
      'note: a payload is encrypted with key "2026-11", and this process has no keys: set NODE_MAINTENANCE_PAYLOAD_KEYS',
    );
    expect(blind.stdout).not.toContain('stage Drain');
  });

  test('is shown by the temporal CLI with a codec server, and as stored without it', async () => {
    const tokenFile = join(world.sandbox.dir, 'codec-token');
    await promisify(execFile)('sh', ['-c', `printf %s ${token} > ${tokenFile}`]);
    codecServer = await startCodecServer(['--token-file', tokenFile], withKeys());
    const show = ['workflow', 'show', '--workflow-id', workflowIdOf('rotated'), '--output', 'json'];
    // The JSON of a payload is base64.
    const shownReason = btoa(JSON.stringify(reason));
    expect(await temporal(...show)).not.toContain(shownReason);
    const codec = ['--codec-endpoint', `http://127.0.0.1:${codecServer.port}/{namespace}`];
    const shown = await temporal(...show, ...codec, '--codec-auth', `Bearer ${token}`);
    expect(shown).toContain(shownReason);
    expect(shown).toContain(btoa('{"name":"rotated"}'));
    await expect(temporal(...show, ...codec, '--codec-auth', 'Bearer guessed')).rejects.toThrow();
  });

  test('takes a signal that a CLI sends encrypted through the codec server, and one that a client without keys sends', async () => {
    const codec = [
      '--codec-endpoint',
      `http://127.0.0.1:${codecServer?.port}`,
      '--codec-auth',
      `Bearer ${token}`,
    ];
    const signal = [
      'workflow',
      'signal',
      '--workflow-id',
      workflowIdOf('rotated'),
      '--name',
      'refreshDetails',
    ];
    await temporal(...signal, '--input', '{"note":"through the server"}', ...codec);
    await temporal(...signal, '--input', '{"note":"in the clear"}');
    const stored = await storedText(handleOf('rotated'));
    expect(stored).toContain('in the clear');
    expect(stored).not.toContain('through the server');
    await succeeds(maintenance(withKeys(), 'cancel', 'rotated', '--wait', '--timeout', '3m'));
  });
});

describe('a failure of a run', () => {
  test('has its message encrypted in the history, and readable with the keys', async () => {
    const input = JSON.stringify({ name: 'refused', nodes: ['node-1'], stage: 'Nowhere', reason });
    const start = ['workflow', 'start', '--type', 'nodeMaintenance', '--task-queue', 'node-maintenance'];
    await temporal(...start, '--workflow-id', workflowIdOf('refused'), '--input', input);
    await eventuallyHolds(
      'the run to fail',
      async () => (await handleOf('refused').describe()).status.name,
      (status) => status === 'FAILED',
    );
    const { events = [] } = await handleOf('refused').fetchHistory();
    const failures = textOf(events?.slice(1));
    expect(failures).toContain('Encoded failure');
    expect(failures).not.toContain('Nowhere');
    expect(failures).not.toContain('stage');
    const read = await succeeds(maintenance(withKeys(), 'history', 'refused'));
    expect(read).toMatch(/the workflow failed: .*stage/);
  });
});

describe('the Schedule of a window', () => {
  const name = 'secret-window';
  const handle = () => raw.schedule.getHandle(windowWorkflowIdOf(name));
  const describeSchedule = () =>
    raw.workflowService.describeSchedule({ namespace, scheduleId: handle().scheduleId });

  test('contains its reason encrypted', async () => {
    await applyWindow(name);
    const described = await eventually('the Schedule', describeSchedule);
    expect(textOf(described.toJSON())).not.toContain(reason);
    expect(textOf(described.schedule?.action?.startWorkflow?.memo)).toContain('maintenanceWindowDigest');
  });

  test('is encrypted again when the key is rotated, and belongs to its window', async () => {
    await keys.add('2027-03');
    await keys.use('2027-03');
    await eventuallyHolds(
      'the Schedule to have the new key',
      async () => textOf((await describeSchedule()).schedule?.action?.startWorkflow?.input),
      (input) => input.includes('2027-03'),
    );
    const { items } = await world.kube.list(resources.events, {
      namespace: 'default',
      fieldSelector: `involvedObject.name=${name},reason=ScheduleRepaired`,
    });
    expect(items).toEqual([]);
    await keys.use('2027-02');
    await deleteWindow(name);
    await eventually('the Schedule to be deleted', () =>
      expect(handle().describe()).rejects.toThrow('not found'),
    );
  });
});

describe('a key that is lost', () => {
  test('costs no maintenance: its run is replaced by one with another key', async () => {
    const pods = await world.placePods('node-2', 1, held);
    await world.apply('lost', { nodes: ['node-2'], stage: 'Drain', reason });
    await eventuallyHolds(
      'the drain to wait for a pod',
      () => world.podsOn('node-2'),
      (found) => found.some(({ metadata }) => metadata.deletionTimestamp !== undefined),
    );
    const { runId } = await handleOf('lost').describe();
    const others = await keyFolder('2028-01');
    await restart({ ...withKeys(), NODE_MAINTENANCE_PAYLOAD_KEYS: others.path, STALLED_RUN_TIMEOUT: '5' });
    await release(pods);
    await world.patch('lost', { stage: 'Complete' });
    await world.eventually('lost', 'it is finished', finished);
    const { events = [] } = await raw.workflow.getHandle(workflowIdOf('lost'), runId).fetchHistory();
    const terminated = events?.at(-1)?.workflowExecutionTerminatedEventAttributes;
    expect(terminated?.reason).toContain('a new run continues from the object');
    // The failures of the tasks are encrypted with the key that is there.
    const stored = textOf(events);
    expect(stored).toContain('2028-01');
    expect(stored).not.toContain('does not contain: add the file');
    await restart(withKeys());
    await others.discard();
  });
});

describe('a worker without the keys', () => {
  test('reports the key, and changes nothing; one with the keys continues', async () => {
    const pods = await world.placePods('node-1', 1, held);
    await world.apply('keyless', { nodes: ['node-1'], stage: 'Drain', reason });
    await eventuallyHolds(
      'the drain to wait for a pod',
      () => world.podsOn('node-1'),
      (found) => found.some(({ metadata }) => metadata.deletionTimestamp !== undefined),
    );
    const { runId } = await handleOf('keyless').describe();
    await applyWindow('keyless-window');
    await scheduledReason('keyless-window', 'Suspended');
    await restart(withoutKeys());
    await scheduledReason('keyless-window', 'KeyMissing');
    await release(pods);
    await world.patch('keyless', { stage: 'Complete' });
    await eventuallyHolds(
      'the log to name the key and the remedy',
      () => worker.log(),
      (log) =>
        log.includes('Payload could not be decrypted') &&
        log.includes(
          'encrypted with key \\"2027-02\\", and this process has no keys: set NODE_MAINTENANCE_PAYLOAD_KEYS',
        ),
    );
    expect(await decryptionFailures()).toBeGreaterThan(0);
    const stalled = await world.eventually('keyless', 'Stalled', ({ status }) =>
      isStalled(status?.conditions),
    );
    expect(stalledMessage(stalled.status?.conditions)).toMatch(
      /encrypted with key "2027-02", and this process has no keys: .*Give every worker the key/,
    );
    expect(await handleOf('keyless').describe()).toMatchObject({ runId, status: { name: 'RUNNING' } });
    expect((await world.node('node-1')).spec.unschedulable).toBe(true);
    await restart(withKeys());
    await scheduledReason('keyless-window', 'Suspended');
    await world.eventually('keyless', 'it is finished', finished);
    await eventuallyHolds(
      'the same run to be completed',
      async () => (await raw.workflow.getHandle(workflowIdOf('keyless'), runId).describe()).status.name,
      (status) => status === 'COMPLETED',
    );
  });

  async function decryptionFailures(): Promise<number> {
    const port = /"metrics":(\d+)/.exec(worker.log())?.[1];
    const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    return Number(/^node_maintenance_payload_decryption_failures_total (\d+)$/m.exec(page)?.[1]);
  }

  test('does not start if its own folder is invalid, and says which file and why', async () => {
    await worker.stop();
    const broken = await keyFolder('2026-11');
    await broken.write('2026-11', 'not a key');
    const env = { ...withKeys(), NODE_MAINTENANCE_PAYLOAD_KEYS: broken.path };
    worker = startWorker(world.sandbox, { env });
    expect(await worker.exited()).toBe(1);
    expect(worker.log()).toContain(
      `NODE_MAINTENANCE_PAYLOAD_KEYS: ${broken.path}/2026-11: expected 32 bytes in base64`,
    );
    await broken.discard();
  });
});
