import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Kube } from '../../kube/client.ts';
import { runWhenLeader } from '../../kube/leaderElection.ts';
import { type Resource, resources } from '../../kube/resources.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { releaseSandbox, testSandbox } from '../kit/sandbox.ts';
import { connect, dropNamespace, eventually, freshNamespace, recordedLog } from './fixtures.ts';
import { UnreliableNetwork } from './unreliableNetwork.ts';

let sandbox: Sandbox;
let kube: Kube;
let namespace: string;
const name = 'elected';
const configMaps: Resource = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};
const quick = { leaseDurationSeconds: 2, renewDeadlineSeconds: 1.3, retryPeriodSeconds: 0.2 };

beforeAll(async () => {
  sandbox = await testSandbox();
  kube = connect(sandbox.kubeconfig);
});

beforeEach(async () => {
  namespace = await freshNamespace(kube, 'leader');
});

afterEach(() => dropNamespace(kube, namespace));

afterAll(async () => {
  await kube?.close();
  await releaseSandbox(sandbox);
});

/** Candidates that write down when they lead; `most` is how many did so at the same time. */
function contest() {
  const story: string[] = [];
  let leading = 0;
  const seen = { most: 0 };
  const candidate = (identity: string, client: Kube = kube, periods = quick) => {
    const stop = new AbortController();
    const log = recordedLog();
    const options = { kube: client, name, namespace, identity, ...periods, log, signal: stop.signal };
    const done = runWhenLeader(options, async (signal) => {
      story.push(`${identity} leads`);
      seen.most = Math.max(seen.most, ++leading);
      await untilAborted(signal);
      leading--;
      story.push(`${identity} ends`);
    });
    return { done, log, stop: () => stop.abort() };
  };
  const tells = (line: string) => eventually(line, () => (story.includes(line) ? undefined : `${story}`));
  return { story, seen, candidate, tells };
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

const leaseNow = () => kube.get(resources.leases, { namespace, name });

test('of two candidates one leads; when it stops, the other leads at once', async () => {
  const { candidate, tells, story, seen } = contest();
  const first = candidate('first');
  await tells('first leads');
  const slow = { leaseDurationSeconds: 60, renewDeadlineSeconds: 40, retryPeriodSeconds: 30 };
  const asked = new Set<string>();
  const waiting = connect(sandbox.kubeconfig, { onRequest: ({ verb }) => asked.add(verb) });
  const second = candidate('second', waiting, slow);
  await eventually('the second to wait', () =>
    asked.has('get') && asked.has('watch') ? undefined : [...asked].join(),
  );
  const stoppedAt = performance.now();
  first.stop();
  await first.done;
  await tells('second leads');
  expect(performance.now() - stoppedAt).toBeLessThan(25_000);
  expect(story).toEqual(['first leads', 'first ends', 'second leads']);
  expect((await leaseNow())?.spec).toMatchObject({ holderIdentity: 'second', leaseDurationSeconds: 60 });
  second.stop();
  await second.done;
  await waiting.close();
  expect(seen.most).toBe(1);
  expect((await leaseNow())?.spec).toMatchObject({
    holderIdentity: '',
    leaseDurationSeconds: 1,
    leaseTransitions: 1,
  });
});

test('a holder that does not renew and says that it stays for decades is told of, once', async () => {
  const spec = { holderIdentity: 'x', leaseDurationSeconds: 2_147_483_647 };
  await kube.create(resources.leases, { metadata: { namespace, name }, spec });
  const { candidate } = contest();
  const periods = { leaseDurationSeconds: 1, renewDeadlineSeconds: 0.6, retryPeriodSeconds: 0.1 };
  let looks = 0;
  const looking = connect(sandbox.kubeconfig, { onRequest: ({ verb }) => (looks += verb === 'get' ? 1 : 0) });
  const { done, log, stop } = candidate('heir', looking, periods);
  await eventually('it to be told', () => (log.lines.length > 0 ? undefined : 'nothing was told'));
  const before = looks;
  await eventually('more looks', () => (looks > before + 3 ? undefined : `${looks - before}`));
  stop();
  await done;
  await looking.close();
  expect(log.lines).toEqual([
    {
      level: 'warn',
      message: 'Lease was not renewed for long and is waited for: delete it if its holder is gone',
      fields: {
        lease: `${namespace}/${name}`,
        identity: 'heir',
        holder: 'x',
        freeInSeconds: expect.any(Number),
      },
    },
  ]);
});

test('a leader that loses the apiserver stops before another one leads, and may lead again later', async () => {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const far = connect(kubeconfig);
  const { candidate, tells, story, seen } = contest();
  const first = candidate('first', far);
  await tells('first leads');
  const second = candidate('second');
  network.down();
  await tells('second leads');
  expect(story).toEqual(['first leads', 'first ends', 'second leads']);
  network.up();
  second.stop();
  await second.done;
  await eventually('first to lead again', () => (story.length >= 5 ? undefined : `${story}`));
  // On a machine that is busy it may lose it again.
  expect(story.slice(3, 5)).toEqual(['second ends', 'first leads']);
  first.stop();
  await first.done;
  expect(seen.most).toBe(1);
  await far.close();
  await close();
});

test('a leader that hangs without an answer stops at its deadline', async () => {
  const { network, kubeconfig, close } = await UnreliableNetwork.before(sandbox.kubeconfig);
  const far = connect(kubeconfig);
  const { candidate, tells, story, seen } = contest();
  const first = candidate('first', far);
  await tells('first leads');
  network.swallow();
  network.freeze();
  const second = candidate('second');
  await tells('second leads');
  expect(story).toEqual(['first leads', 'first ends', 'second leads']);
  first.stop();
  second.stop();
  await Promise.all([first.done, second.done]);
  expect(seen.most).toBe(1);
  await far.close();
  await close();
});

test('a candidate that dies is succeeded when its Lease has run out', async () => {
  const spec = { holderIdentity: 'dead', leaseDurationSeconds: 2, leaseTransitions: 3 };
  await kube.create(resources.leases, { metadata: { namespace, name }, spec });
  const { candidate, tells } = contest();
  const began = performance.now();
  const heir = candidate('heir');
  await tells('heir leads');
  expect(performance.now() - began).toBeGreaterThanOrEqual(2_000 - 50);
  expect((await leaseNow())?.spec.leaseTransitions).toBe(4);
  heir.stop();
  await heir.done;
});

test('what the leader runs may fail: it is logged, given back, and led again', async () => {
  const stop = new AbortController();
  const log = recordedLog();
  let turns = 0;
  const options = { kube, name, namespace, identity: 'only', ...quick, log, signal: stop.signal };
  await runWhenLeader(options, async () => {
    turns++;
    if (turns === 1) throw new Error('the first turn failed');
  });
  expect(turns).toBe(2);
  expect(log.lines).toContainEqual({
    level: 'error',
    message: 'What the leader ran failed',
    fields: { lease: `${namespace}/${name}`, identity: 'only', error: 'the first turn failed' },
  });
});

describe('a leader that was stopped for longer than its Lease lasts, and goes on', () => {
  const program = fileURLToPath(new URL('leader.ts', import.meta.url));
  const children: ChildProcess[] = [];

  afterEach(() => {
    for (const child of children.splice(0)) child.kill('SIGKILL');
  });

  function candidate(identity: string) {
    const env = { ...process.env, NODE_OPTIONS: '' };
    const args = [program, sandbox.kubeconfig, namespace, identity];
    const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    children.push(child);
    const exited = once(child, 'exit');
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
    const hasSaid = (line: string, times = 1) =>
      eventually(`${identity} to say: ${line}`, () =>
        said.split(line).length > times ? undefined : `${identity} said ${said}`,
      );
    return {
      said: () => said.trim().split('\n'),
      hasSaid,
      signal: (sent: NodeJS.Signals) => child.kill(sent),
      exited,
    };
  }

  /** Who created the ConfigMaps, in the order in which the apiserver stored them. */
  async function writers(): Promise<string[]> {
    const { items } = await kube.list(configMaps, { namespace });
    return items
      .toSorted(({ metadata: a }, { metadata: b }) => Number(a.resourceVersion) - Number(b.resourceVersion))
      .flatMap(({ metadata: { generateName } }) => generateName?.replace(/-$/, '') ?? []);
  }

  const hasWritten = (identity: string, least: number) =>
    eventually(`${least} writes of ${identity}`, async () => {
      const count = (await writers()).filter((writer) => writer === identity).length;
      return count >= least ? undefined : `${count}`;
    });

  test('writes nothing once another one has begun, but the one request that it was stopped in; ends what it led, and may lead again later', async () => {
    const first = candidate('first');
    await hasWritten('first', 20);
    const second = candidate('second');
    await second.hasSaid('Kubernetes client configured');
    first.signal('SIGSTOP');
    await hasWritten('second', 20);
    first.signal('SIGCONT');
    await first.hasSaid('The work has ended');
    second.signal('SIGTERM');
    expect(await second.exited).toEqual([0, null]);
    const before = (await writers()).length;
    await first.hasSaid('Leadership was taken', 2);
    await hasWritten('first', before);
    first.signal('SIGTERM');
    expect(await first.exited).toEqual([0, null]);
    const all = await writers();
    const [begins, ends] = [all.indexOf('second'), all.lastIndexOf('second')];
    // The stop may fall between the look at the clock and the system call.
    expect(all.slice(begins, ends).filter((writer) => writer === 'first').length).toBeLessThanOrEqual(1);
    expect([all[0], all.at(-1)]).toEqual(['first', 'first']);
    const story = first.said().filter((line) => /^(Leadership|The work) /.test(line));
    expect(story).toEqual([
      'Leadership was taken',
      'Leadership was lost',
      'The work has ended',
      'Leadership was taken',
      'The work has ended',
      'Leadership was given back',
    ]);
  });
});

test('periods that would let two lead are refused', async () => {
  const options = { kube, name, namespace, identity: 'odd', log: recordedLog(), signal: AbortSignal.abort() };
  await expect(
    runWhenLeader({ ...options, renewDeadlineSeconds: 10 }, async () => undefined),
  ).rejects.toThrow('retryPeriodSeconds < renewDeadlineSeconds < leaseDurationSeconds');
});
